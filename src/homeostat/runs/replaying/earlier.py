"""The rules by which secrets were taken out of ledgers before more of them were known, the latest first.

What such a ledger says of a question is a digest of what was left of it by these rules. A replay that finds another
digest looks whether it is the same by them; nothing is ever written by them again.
"""

import re
from typing import Any, Final, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.redaction import REDACTED, Rules, hide_keys, redact_by
from homeostat.core.secret_names import Says, says

_GROWS: Final = 12
_SECRET_NAME = re.compile(
    r"(?:[a-z0-9]+[_-])*"
    r"(?:api[_-]?key|apikey|authorization|proxy-authorization|password|passwd|passphrase|secret|client[_-]?secret"
    r"|secret[_-]?key|private[_-]?key|access[_-]?key|access[_-]?token|refresh[_-]?token|id[_-]?token|auth[_-]?token"
    r"|bearer[_-]?token|session[_-]?token|token|cookie|set-cookie|credentials?)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"hs_[0-9a-f]{48}"
    r"|\bsk-[A-Za-z0-9_-]{16,}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^\s/:@\"\\]+:[^\s/@\"\\]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)",
    re.DOTALL,
)
_UNKNOWN_NAME = re.compile(r"secret[_\-. ]?strings?(?:[_-]?[0-9]{1,4})?\Z", re.IGNORECASE | re.ASCII)


def _said(name: str) -> Says | None:
    return None if _UNKNOWN_NAME.search(name) else says(name)


BEFORE_OPTIONS: Final = Rules(values=_SECRET_VALUE, says=_said, shapes=False)
BEFORE_PAIRS: Final = BEFORE_OPTIONS._replace(beside=False)


def _without_pairs(text: Json) -> Json:
    """Secrets were known by the names they stand under or beside, and not behind the options of a list of arguments;
    keys of fewer makes were known, and what describes a secret was taken for one.
    """
    return to_json(redact_by(from_json(text), BEFORE_OPTIONS), limit=_GROWS * len(text))


def _without_members(text: Json) -> Json:
    """Secrets were known by the names they stand under, in every spelling, and behind them in texts."""
    return to_json(redact_by(from_json(text), BEFORE_PAIRS), limit=_GROWS * len(text))


def _without_few(text: Json) -> Json:
    """Secrets were known by few names, and where a text was JSON its name had to say so."""
    return to_json(_redact(from_json(text)), limit=_GROWS * len(text))


EARLIER: Final = (_without_pairs, _without_members, _without_few)
"""A JSON text as ledgers of those times have it."""


def _redact(value: Any) -> Any:
    if isinstance(value, str):
        return hide_keys(value, _SECRET_VALUE)
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
            return hide_keys(item, _SECRET_VALUE)
    return _redact(item)
