"""Takes secrets out of what is kept for ever: what is hashed into a ledger can never be taken out of it again.

A value is a secret by the name it stands under or beside (`{"api_key": …}`, `{"name": "API_KEY", "value": …}`,
`["Authorization", …]` in a list of such pairs) or by its looks (keys of well-known makes, bearer tokens, private keys).
A text that is JSON is looked through as JSON, whatever it is called: arguments of tools and what they answer are such
texts.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.secret_names import (
    KEYS,
    ORDINARY,
    PASSES,
    Says,
    called,
    counts,
    is_secret,
    is_value,
    says,
    says_beside,
    text_pieces,
)
from homeostat.core.secret_pairs import hide_pairs, hide_values

REDACTED: Final = "[redacted]"

_GROWS: Final = 12  # bytes that may become of one character: four by its encoding, or the word for a secret of one
_INSIDE_MAX: Final = (
    8  # texts inside of texts that are looked through as JSON; those within are looked through as texts
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
# A member, a variable or a header with a secret name; in lower case and without backslashes, so that an escaped line
# break is a letter. Each begins with plain letters and is only looked for where these are found. What cannot follow is
# told by one letter: most are found in other words.
_BEHIND: Final = r"(?![a-mo-qu-z])s?(?:[_-]?[0-9]{1,4})?[\s\"'\]nrt]*[:=]"
_KEY: Final = "|".join(f"(?<={what}{join}key)" for what in KEYS for join in ("", "."))
_PASS: Final = "|".join(f"(?<={what}{join}pass)" for what in PASSES for join in ("", "."))
_NUMBER: Final = r" *-?[0-9]+(?:\.[0-9]+)?(?:[\s,;)}\]]|\Z)"
# The same where the name is a text of its own, with the value beside it: `"DB_PASSWORD", "value": …`.
_BESIDE: Final = r"(?![a-mo-qu-z])s?(?:[_-]?[0-9]{1,4})?(?:\"[\snrt]*[,}\]]|[\"'\s,;nrt]+value)"


def _marks(behind: str, *, unless: str = "") -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (word, re.compile(pattern))
        for word, pattern in (
            ("pass", rf"pass(?![abd-mqu-vx-z])(?:(?:word|wd|phrase|code){behind}|(?={behind})(?:{_PASS}))"),
            ("secret", rf"secret{behind}"),
            ("key", rf"key(?={behind})(?:{_KEY})"),
            ("token", rf"token{behind}{unless}"),
            ("credential", rf"credential{behind}"),
            ("authorization", rf"authorization{behind}"),
            ("cookie", rf"cookie{behind}"),
            ("pwd", rf"pwd{behind}"),
            ("pin", rf"pin(?![abd-mo-qu-z])(?:[_\-. ]?code)?{behind}"),
        )
    )


_NAME_MARKS = _marks(_BEHIND, unless=rf"(?!{_NUMBER})")
_BESIDE_MARKS = _marks(rf"(?={_BESIDE})", unless="".join(rf"(?<![\"_. -]{word}.token)" for word in ORDINARY))
_VALUE_MARK = re.compile(r"val(?:ues?)?[\"'\snrt]*[:=]")
_ROWS_MARK = re.compile(r"\[[\snrt]*\[")
_OPTION_MARK = re.compile(
    r"--(?<!---)(?=[a-z0-9])[a-z0-9-]{0,80}?(?:pass|secret|key|token|credential|auth|cookie|pwd|pin)[a-z0-9_-]* "
)
_LETTER = re.compile(r"\\+u00([2-7][0-9a-fA-F])")
_SIGN = re.compile(r"\\u[0-9a-fA-F]{4}")
_VALUE_MARKS = ("hs_", "github_pat_", "glpat-", "xox", ".eyJ", "earer ", "PRIVATE KEY-----")
# A pattern that begins with plain letters is found as quickly as a word. It stands for several words, or for those of
# everyday texts ("task-7", any address) that look like the beginning of a secret: the whole pattern takes far longer.
_MARK_PATTERNS = (re.compile(r"gh[pousr]_"), re.compile(r"A(?:KIA|SIA|Iza)"))
_KEY_MARK = re.compile(r"sk-(?<!\wsk-)[A-Za-z0-9_-]{16}")
_LOGIN_MARK = re.compile(r"://[^\s/:@\"\\]+:[^\s/@\"\\]+@")


class _Look(NamedTuple):
    """How far somebody looks: into so many texts inside of texts, and at names beside values or not."""

    inside: int
    beside: bool

    def deeper(self) -> "_Look":
        return _Look(self.inside - 1, self.beside)


_WHOLE: Final = _Look(_INSIDE_MAX, beside=True)


def redact(value: Any) -> Any:
    """The same value with every secret replaced by `[redacted]`; what has none is the value itself."""
    return _redact(value, _WHOLE)


def redact_members(value: Any) -> Any:
    """The same by names that secrets stand under, and none beside them: once that was all there was."""
    return _redact(value, _Look(_INSIDE_MAX, beside=False))


def _redact(value: Any, look: _Look) -> Any:
    if isinstance(value, str):
        return _redact_string(value, look)
    if isinstance(value, dict):
        return _redact_members(cast("dict[str, Any]", value), look)
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        if look.beside and _are_pairs(items):
            kept = [_redact_pair(pair, look) for pair in items]
        else:
            kept = [_redact(item, look) for item in items]
        return items if isinstance(value, list) and all(map(_same, kept, items)) else kept
    return value


def _are_pairs(items: Sequence[Any]) -> bool:
    """Whether a list is one of names and values, as headers often are."""
    return bool(items) and all(map(_is_pair, items))


def _is_pair(item: Any) -> bool:
    if not isinstance(item, list):
        return False
    pair = cast("list[Any]", item)
    return len(pair) == 2 and isinstance(pair[0], str)


def _redact_pair(pair: list[Any], look: _Look) -> list[Any]:
    name, item = pair
    said = says_beside(name)
    kept = _redact(item, look) if said is None else _redact_named(name, item, said, look)
    shown = _redact_string(name, look)
    return pair if shown == name and _same(kept, item) else [shown, kept]


def _same(kept: Any, item: Any) -> bool:
    """Whether nothing was taken out: only texts are made anew for being looked at."""
    return kept is item or (isinstance(item, str) and kept == item)


def _redact_members(members: dict[str, Any], look: _Look) -> dict[str, Any]:
    """Names are looked at as well: some keep books by key."""
    kept: dict[str, Any] = {}
    same = True
    beside = called(members) if look.beside and any(map(is_value, members)) else None
    for name, item in members.items():
        shown = _redact_text(name, look)
        number = 1
        while shown != name and (shown in kept or shown in members):
            number += 1
            shown = f"{_redact_text(name, look)} ({number})"
        named = beside if beside is not None and is_value(name) else name
        said = says(named)
        if said is not None and not (said in (Says.COUNTED, Says.COUNTED_MANY) and text_pieces(members)):
            kept[shown] = _redact_named(named, item, said, look)
        else:
            kept[shown] = _redact(item, look)
        same = same and shown == name and _same(kept[shown], item)
    return members if same else kept


def _redact_named(name: str, item: Any, said: Says, look: _Look) -> Any:
    if is_secret(name, item, said):
        return REDACTED
    if said is Says.COUNTED_MANY and isinstance(item, dict | list) and counts(item):
        return _redact(item, look)
    if isinstance(item, dict | list) and item:
        held = cast("Any", item)
        kept = _hide_each(name, held, Says.SECRET if said is Says.SECRETS else said, look)
        return held if kept == held else kept
    return _redact(item, look)


def _hide_each(name: str, value: Any, said: Says, look: _Look) -> Any:
    """Everything in a container that a name says is full of secrets."""
    if isinstance(value, str):
        return REDACTED if value else value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if said is Says.COUNTED_MANY and counts(members):
            return _redact(members, look)
        return {_redact_text(key, look): _hide_each(name, item, said, look) for key, item in members.items()}
    if isinstance(value, list):
        return [_hide_each(name, item, said, look) for item in cast("list[Any]", value)]
    return REDACTED if is_secret(name, value, said) else value


def _redact_string(text: str, look: _Look) -> str:
    """A text that is JSON keeps its spelling, if that can be had without its secrets."""
    plain = _redact_text(text, look)
    if not look.inside or not text.lstrip().startswith(("{", "[", '"')):
        return plain
    try:
        value = from_json(text)
        kept = _redact(value, look.deeper())
        if _same(kept, value):
            return text
        if plain != text and _reads_as(plain, kept):
            return plain
        return to_json(kept, limit=_GROWS * len(text))
    except (HomeostatError, RecursionError):
        return plain  # it only begins like one


def _reads_as(text: str, value: Any) -> bool:
    try:
        return from_json(text) == value
    except HomeostatError:
        return False


def redact_text(text: str) -> str:
    return _redact_text(text, _WHOLE)


def _redact_text(text: str, look: _Look) -> str:
    if not suspicious(text):
        return text
    kept = hide_pairs(hide_keys(text), REDACTED)
    return hide_values(kept, REDACTED) if look.beside else kept


def hide_keys(text: str) -> str:
    """The same text without what is a secret by its looks."""
    return _SECRET_VALUE.sub(REDACTED, text)


def redact_json(text: Json) -> Json:
    """A JSON text without its secrets; one that has none is returned as it is, to the byte."""
    if not suspicious(text):
        return text
    value = from_json(text)
    kept = redact(value)
    return text if _same(kept, value) else to_json(kept, limit=_GROWS * len(text))


def suspicious(text: str) -> bool:
    """Whether a JSON text, or one that stands as a string inside of it, may hold a secret. Finding a plain word is far
    quicker than matching, and most texts have none.
    """
    if not text:
        return False
    names = text
    if "\\" in text:  # what is escaped hides a quote or a letter
        if "\\u" in text:
            text = _SIGN.sub("·", _LETTER.sub(_unescaped, text) if "\\u00" in text else text)
        names = text.replace("\\", "")
    return _names_one(names.lower()) or _looks_like_one(names, text)


def _names_one(lower: str) -> bool:
    named = False
    for word, pattern in _NAME_MARKS:
        if word in lower:
            if pattern.search(lower):
                return True
            named = True
    if not named:
        return False
    return ("--" in lower and _OPTION_MARK.search(lower) is not None) or _names_one_beside(lower)


def _names_one_beside(lower: str) -> bool:
    """Whether a name is the text beside a value, or the first of two in a list of such."""
    if not (("val" in lower and _VALUE_MARK.search(lower)) or ("[" in lower and _ROWS_MARK.search(lower))):
        return False
    return any(word in lower and pattern.search(lower) for word, pattern in _BESIDE_MARKS)


def _looks_like_one(names: str, text: str) -> bool:
    for mark in _VALUE_MARKS:
        if mark in names:
            return _SECRET_VALUE.search(_parted(text)) is not None
    for pattern in _MARK_PATTERNS:
        if pattern.search(names):
            return _SECRET_VALUE.search(_parted(text)) is not None
    if "sk-" in names and _KEY_MARK.search(_parted(text)):
        return True
    return "@" in names and _LOGIN_MARK.search(_parted(text)) is not None


def _parted(text: str) -> str:
    """A JSON text in which an escaped line break is no letter of the word behind it."""
    return text.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ") if "\\" in text else text


def _unescaped(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16))


def unlooked(texts: Sequence[str]) -> list[str]:
    """What of some texts still has to be looked through one by one. None of it in nearly all cases: a look at many at
    once costs a third of as many looks, and finds whatever any of them would.
    """
    return list(texts) if suspicious("\n".join(texts)) else [""] * len(texts)
