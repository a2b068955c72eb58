"""Takes secrets out of what is kept for ever: what is hashed into a ledger can never be taken out of it again.

A value is a secret by the name it stands under (`api_key`, `Authorization`, …) or by its looks (keys of well-known
makes, bearer tokens, private keys).
"""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError

REDACTED: Final = "[redacted]"
JSON_INSIDE: Final = "_json"
"""How the name of a member ends whose value is a JSON text as a string."""

_GROWS: Final = 12  # bytes that may become of one character: four by its encoding, or the word for a secret of one

_NAME = (
    r"(?:[a-z0-9]+[_-])*"
    r"(?:api[_-]?key|apikey|authorization|proxy-authorization|password|passwd|passphrase|secret|client[_-]?secret"
    r"|secret[_-]?key|private[_-]?key|access[_-]?key|access[_-]?token|refresh[_-]?token|id[_-]?token|auth[_-]?token"
    r"|bearer[_-]?token|session[_-]?token|token|cookie|set-cookie|credentials?)"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
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
_SECRET_MEMBER = re.compile(rf'"{_NAME}"\s*:', re.IGNORECASE)
_NAME_ENDINGS = (
    *('key"', 'authorization"', 'word"', 'passwd"', 'phrase"'),
    *('secret"', 'token"', 'cookie"', 'credential"', 'credentials"'),
)
_VALUE_MARKS = ("hs_", "github_pat_", "glpat-", "xox", "eyJ", "earer ", "PRIVATE KEY-----")
# A pattern that begins with plain letters is found as quickly as a word. It stands for several words, or for those of
# everyday texts ("task-7", any address) that look like the beginning of a secret: the whole pattern takes far longer.
_MARK_PATTERNS = (
    re.compile(r"gh[pousr]_"),
    re.compile(r"A(?:KIA|SIA|Iza)"),
    re.compile(r"sk-(?<!\wsk-)[A-Za-z0-9_-]{16}"),
    re.compile(r"://[^\s/:@\"\\]+:[^\s/@\"\\]+@"),
)


def redact(value: Any) -> Any:
    """The same value with every secret replaced by `[redacted]`."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {name: _redact_member(name, item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in cast("list[Any]", value)]
    return value


def _redact_member(name: str, item: Any) -> Any:
    if _SECRET_NAME.fullmatch(name):
        return _hidden(item)
    if isinstance(item, str) and name.endswith(JSON_INSIDE):
        try:
            return redact_json(Json(item))
        except HomeostatError:
            return redact_text(item)  # a name promises what its owner need not keep
    return redact(item)


def redact_text(text: str) -> str:
    return _SECRET_VALUE.sub(REDACTED, text)


def redact_json(text: Json) -> Json:
    """A JSON text without its secrets; one that has none is returned as it is, to the byte."""
    return to_json(redact(from_json(text)), limit=_GROWS * len(text)) if suspicious(text) else text


def suspicious(text: str) -> bool:
    """Whether a JSON text, or one that stands as a string inside of it, may hold a secret. Finding a plain word is far
    quicker than matching, and most texts have none.
    """
    if not text:
        return False
    names = values = text
    if "\\" in text:  # what is escaped hides a quote, and a line break looks like a letter
        names = text.replace("\\", "")
        values = text.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ")
    lower = names.lower()
    for ending in _NAME_ENDINGS:
        if ending in lower:
            if _SECRET_MEMBER.search(names):
                return True
            break
    for mark in _VALUE_MARKS:
        if mark in values:
            return _SECRET_VALUE.search(values) is not None
    return any(mark.search(values) for mark in _MARK_PATTERNS) and _SECRET_VALUE.search(values) is not None


def unlooked(texts: Sequence[str]) -> list[str]:
    """What of some texts still has to be looked through one by one. None of it in nearly all cases: a look at many at
    once costs a third of as many looks, and finds whatever any of them would.
    """
    return list(texts) if suspicious("\n".join(texts)) else [""] * len(texts)


def _hidden(value: Any) -> Any:
    """A name says that this is secret; that there is none is no secret, and neither is a number or a flag."""
    return value if value is None or isinstance(value, bool | int | float) or value == "" else REDACTED
