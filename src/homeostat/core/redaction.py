"""Takes secrets out of what is kept for ever: what is hashed into a ledger can never be taken out of it again.

A value is a secret by the name it stands under, beside or behind (`{"api_key": …}`, `{"name": "API_KEY", "value": …}`,
`["Authorization", …]` in a list of such pairs, `["--token", …]`) or by its looks (keys of well-known makes, bearer
tokens, private keys); what describes one, as a schema does, is none. A text that is JSON is looked through as JSON,
whatever it is called: arguments of tools and what they answer are such texts.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.secret_looks import SECRET_VALUE, looks_like_one
from homeostat.core.secret_names import (
    KEYS,
    ORDINARY,
    PASSES,
    Judge,
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
from homeostat.core.secret_shapes import GIVEN, complains, describes, tells_errors

REDACTED: Final = "[redacted]"

_GROWS: Final = 12  # bytes that may become of one character: four by its encoding, or the word for a secret of one
_INSIDE_MAX: Final = (
    8  # texts inside of texts that are looked through as JSON; those within are looked through as texts
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
            ("secret", rf"secret(?:[_\-. ]?string)?{behind}"),
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
# Tokens of everyday are not looked at, unless they are numbered.
_EVERYDAY: Final = "".join(rf"(?<![\"_. -]{word}.token)" for word in ORDINARY)
_BESIDE_MARKS = _marks(rf"(?={_BESIDE})", unless=rf"(?:{_EVERYDAY}|(?=s?[_-]?[0-9]))")
_VALUE_MARK = re.compile(r"val(?:ues?)?[\"'\snrt]*[:=]")
_ROWS_MARK = re.compile(r"\[[\snrt]*\[")
_OPTION_MARK = re.compile(
    r"--(?<!---)(?=[a-z0-9])[a-z0-9_.-]{0,80}?(?:pass|secret|key|token|credential|auth|cookie|pwd|pin)"
    r"[a-z0-9_.-]{0,80}+(?: |\"[\snrt]*,)"
)
_OPTION = re.compile(r"--(?!no-)[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_LETTER = re.compile(r"\\+u00([2-7][0-9a-fA-F])")
_SLASH = re.compile(r"\\+/")
_SIGN = re.compile(r"\\u[0-9a-fA-F]{4}")


class Rules(NamedTuple):
    """By what secrets are known: as they are now, unless somebody reads what was written before."""

    values: re.Pattern[str] = SECRET_VALUE
    says: Judge = says
    beside: bool = True
    """Names are looked at beside values."""
    shapes: bool = True
    """Options are looked at in lists of arguments, and what describes a secret is known from one."""


NOW: Final = Rules()


class _Look(NamedTuple):
    """How far somebody looks: into so many texts inside of texts, and by which rules."""

    inside: int
    rules: Rules

    def deeper(self) -> "_Look":
        return _Look(self.inside - 1, self.rules)


_WHOLE: Final = _Look(_INSIDE_MAX, NOW)


def redact(value: Any) -> Any:
    """The same value with every secret replaced by `[redacted]`; what has none is the value itself."""
    return _redact(value, _WHOLE)


def redact_by(value: Any, rules: Rules) -> Any:
    """The same by the rules of another time."""
    return _redact(value, _Look(_INSIDE_MAX, rules))


def _redact(value: Any, look: _Look) -> Any:
    if isinstance(value, str):
        return _redact_string(value, look)
    if isinstance(value, dict):
        return _redact_members(cast("dict[str, Any]", value), look)
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        if look.rules.beside and _are_pairs(items):
            kept = [_redact_pair(pair, look) for pair in items]
        elif look.rules.shapes and any(map(_is_option, items)):
            kept = _redact_arguments(items, look)
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


def _is_option(item: Any) -> bool:
    return isinstance(item, str) and item.startswith("--") and _OPTION.fullmatch(item) is not None


def _redact_arguments(items: Sequence[Any], look: _Look) -> list[Any]:
    """A command line, word by word: what follows an option is its value, unless it is one itself."""
    kept: list[Any] = []
    name, said = "", None
    for item in items:
        if said is None or (isinstance(item, str) and item.startswith("-")):
            kept.append(_redact(item, look))
        else:
            kept.append(_redact_named(name, item, said, look))
        name, said = (item, look.rules.says(item.removeprefix("--"))) if _is_option(item) else ("", None)
        if said not in (Says.SECRET, Says.COUNTED):
            said = None
    return kept


def _redact_pair(pair: list[Any], look: _Look) -> list[Any]:
    name, item = pair
    shown = _redact_string(name, look)
    said = says_beside(name, look.rules.says)
    if said is None and look.rules.shapes and shown != name:
        said = says_beside(shown, look.rules.says)  # what is left of it is a name
    kept = _redact(item, look) if said is None else _redact_named(name, item, said, look)
    return pair if shown == name and _same(kept, item) else [shown, kept]


def _same(kept: Any, item: Any) -> bool:
    """Whether nothing was taken out: only texts are made anew for being looked at."""
    return kept is item or (isinstance(item, str) and kept == item)


def _redact_members(members: dict[str, Any], look: _Look, *, errors: bool = False) -> dict[str, Any]:
    """Names are looked at as well: some keep books by key. In `errors` it is told what is wrong with each."""
    kept: dict[str, Any] = {}
    same = True
    beside = called(members, look.rules.says) if look.rules.beside and any(map(is_value, members)) else None
    for name, item in members.items():
        shown = _redact_text(name, look)
        number = 1
        while shown != name and (shown in kept or shown in members):
            number += 1
            shown = f"{_redact_text(name, look)} ({number})"
        named = beside if beside is not None and is_value(name) else name
        said = look.rules.says(named)
        if said is not None and (said in (Says.COUNTED, Says.COUNTED_MANY) and text_pieces(members)):
            said = None
        if said is not None and not (errors and complains(item)):
            kept[shown] = _redact_named(named, item, said, look)
        elif isinstance(item, dict) and look.rules.shapes and tells_errors(name):
            kept[shown] = _redact_members(cast("dict[str, Any]", item), look, errors=True)
        else:
            kept[shown] = _redact(item, look)
        same = same and shown == name and _same(kept[shown], item)
    return members if same else kept


def _redact_named(name: str, item: Any, said: Says, look: _Look) -> Any:
    if look.rules.shapes and describes(item):
        return _redact_schema(name, cast("dict[str, Any]", item), said, look)
    if is_secret(name, item, said):
        return REDACTED
    if said is Says.COUNTED_MANY and isinstance(item, dict | list) and counts(item):
        return _redact(item, look)
    if isinstance(item, dict | list) and item:
        held = cast("Any", item)
        kept = _hide_each(name, held, Says.SECRET if said is Says.SECRETS else said, look)
        return held if kept == held else kept
    return _redact(item, look)


def _redact_schema(name: str, members: dict[str, Any], said: Says, look: _Look) -> dict[str, Any]:
    """What may stand under a name is no secret, but what is given as such is."""
    one = Says.SECRET if said is Says.SECRETS else said
    kept = {
        word: _hide_each(name, item, one, look) if word in GIVEN else _redact(item, look)
        for word, item in members.items()
    }
    return members if kept == members else kept


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
    rules = look.rules
    if rules is NOW and not suspicious(text):
        return text
    kept = hide_pairs(hide_keys(text, rules.values), REDACTED, rules.says)
    return hide_values(kept, REDACTED, rules.says) if rules.beside else kept


def hide_keys(text: str, values: re.Pattern[str] = SECRET_VALUE) -> str:
    """The same text without what is a secret by its looks."""
    return values.sub(REDACTED, text)


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
        if "\\/" in text:
            text = _SLASH.sub("/", text)
        names = text.replace("\\", "")
    return _names_one(names.lower()) or looks_like_one(names, text)


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


def _unescaped(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16))


def unlooked(texts: Sequence[str]) -> list[str]:
    """What of some texts still has to be looked through one by one. None of it in nearly all cases: a look at many at
    once costs a third of as many looks, and finds whatever any of them would.
    """
    return list(texts) if suspicious("\n".join(texts)) else [""] * len(texts)
