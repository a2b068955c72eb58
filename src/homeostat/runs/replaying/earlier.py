"""The rules by which secrets were taken out of ledgers before more of them were known, the latest first.

What such a ledger says of a question is a digest of what was left of it by these rules. A replay that finds another
digest looks whether it is the same by them; nothing is ever written by them again.
"""

import re
from typing import Any, Final, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.redaction import REDACTED, hide_keys, redact_members

_GROWS: Final = 12
_SECRET_NAME = re.compile(
    r"(?:[a-z0-9]+[_-])*"
    r"(?:api[_-]?key|apikey|authorization|proxy-authorization|password|passwd|passphrase|secret|client[_-]?secret"
    r"|secret[_-]?key|private[_-]?key|access[_-]?key|access[_-]?token|refresh[_-]?token|id[_-]?token|auth[_-]?token"
    r"|bearer[_-]?token|session[_-]?token|token|cookie|set-cookie|credentials?)",
    re.IGNORECASE,
)


def _without_members(text: Json) -> Json:
    """Secrets were known by the names they stand under, in every spelling, and behind them in texts."""
    return to_json(redact_members(from_json(text)), limit=_GROWS * len(text))


def _without_few(text: Json) -> Json:
    """Secrets were known by few names, and where a text was JSON its name had to say so."""
    return to_json(_redact(from_json(text)), limit=_GROWS * len(text))


EARLIER: Final = (_without_members, _without_few)
"""A JSON text as ledgers of those times have it."""


def _redact(value: Any) -> Any:
    if isinstance(value, str):
        return hide_keys(value)
    if isinstance(value, dict):
        return {name: _redact_member(name, item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_redact(item) for item in cast("list[Any]", value)]
    return value


def _redact_member(name: str, item: Any) -> Any:
    if _SECRET_NAME.fullmatch(name):
        return item if item is None or isinstance(item, bool | int | float) or item == "" else REDACTED
    if isinstance(item, str) and name.endswith("_json"):
        try:
            return _without_few(Json(item))
        except HomeostatError:
            return hide_keys(item)
    return _redact(item)
