"""What a decoder finds wrong with a document, in words that say what to send instead."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from msgspec import inspect

KINDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
PARTS: Final = {"str": "characters", "bytes": "bytes", "array": "items", "object": "members"}
BOUNDS: Final = {">=": "{} or more", "<=": "{} or less", ">": "more than {}", "<": "less than {}"}

UNKNOWN_FIELD: Final = "there is no such field"

PATTERNS: Final = {
    r"^[^\x00-\x1f\x7f]+(?![\s\S])": "it must be printable text on one line",
    r"^https?://": "it must begin with http:// or https://",
    r"^https?://[^\s/@]+(/[^\s]*)?(?![\s\S])": (
        "it must be an address such as https://alerts.example.com/path, with no name or password in it"
    ),
    r"^[0-9a-f]{32}(?![\s\S])": "it must be 32 hexadecimal digits, in small letters",
    r"\S": "it must say something",
    "^(auto|manual)$": "it must be auto or manual",
    r"^[0-9]{1,15}\.\w*(?![\s\S])": "it must be `next_cursor` of the page before",
}
"""What a text that has to fit a pattern is to look like."""

_Said = Callable[[re.Match[str]], str]


def _kinds(names: str) -> str:
    return " or ".join(KINDS.get(name, name) for name in names.split(" | "))


def _bounded(found: re.Match[str]) -> str:
    return f"it must be {KINDS[found[1]]}, {BOUNDS[found[2]].format(found[3])}"


def _sized(found: re.Match[str]) -> str:
    most, size = "at most" if found[2] == "<=" else "at least", found[3]
    return f"it must have {most} {size} {PARTS[found[1]][: -1 if size == '1' else None]}"


def _fitting(found: re.Match[str]) -> str:
    pattern = found[1].replace("\\\\", "\\")
    return PATTERNS.get(pattern, f"it must fit the pattern {pattern}")


def _listed(found: re.Match[str]) -> str:
    size = found[1].removesuffix("length")
    told = f", not {found[3]}" if found[3] else ""
    return f"it must have {size}{found[2]} items{told}"


_BROKEN_OFF: Final = "it is empty, ends in the middle of its JSON, or has half a surrogate pair in a text"
_SAYINGS: Final[tuple[tuple[re.Pattern[str], _Said], ...]] = (
    (re.compile(r"Expected `int`, got `float`"), lambda _: "it must be a whole number, not a fraction"),
    (re.compile(r"Expected `(.+?)`, got `(.+?)`"), lambda m: f"it must be {_kinds(m[1])}, not {_kinds(m[2])}"),
    (re.compile(r"Expected `(int|float)` ([<>]=?) (.+)"), _bounded),
    (re.compile(r"Expected `(\w+)` of length ([<>]=) (\d+)"), _sized),
    (re.compile(r"Expected `array` of (length|at (?:least|most) length) (.+?)(?:, got (.+))?"), _listed),
    (re.compile(r"Expected `str` matching regex '(.*)'"), _fitting),
    (re.compile(r"Invalid (?:enum )?value (.+)"), lambda m: f"{m[1]} is not possible here"),
    (re.compile(r"Invalid RFC3339 encoded .*"), lambda _: "it must be an instant such as 2026-01-31T12:00:00Z"),
    (re.compile(r"(?:Integer value|Number) out of range"), lambda _: "it is too large or too small a number"),
    (
        re.compile(r"Input data was truncated"),
        lambda _: _BROKEN_OFF,
    ),
    (re.compile(r"JSON is malformed: (.+)"), lambda m: f"it is not JSON: {m[1]}"),
)


def problem_in_words(text: str, shape: Any = None, path: str = "") -> str:
    """A decoder's finding as a person would put it; where only some names or values are possible, with those."""
    if text == UNKNOWN_FIELD:
        known = [field.encode_name for one in _at(shape, path.rpartition(".")[0]) for field in _fields(one)]
        return f"{text}; there are {', '.join(known)}" if known else text
    for pattern, said in _SAYINGS:
        if found := pattern.fullmatch(text):
            told = said(found)
            if text.startswith("Invalid") and (values := _choices(shape, path)):
                return f"it must be {' or '.join(filter(None, (', '.join(values[:-1]), values[-1])))}, not {found[1]}"
            return told
    return text[:1].lower() + text[1:]


def _choices(shape: Any, path: str) -> list[str]:
    """The values that are possible at a place in a document, where they can be counted."""
    found: dict[str, None] = {}
    for one in _at(shape, path):
        if isinstance(one, inspect.LiteralType):
            found |= dict.fromkeys(map(str, one.values))
        elif isinstance(one, inspect.EnumType):
            found |= dict.fromkeys(str(member.value) for member in one.cls)
    return list(found)


def _at(shape: Any, path: str) -> tuple[inspect.Type, ...]:
    """What may stand at a place in a document."""
    places = () if shape is None else _any_of(_described(shape))
    for step in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        places = tuple(one for place in places for inner in _within(place, step) for one in _any_of(inner))
    return places


@cache
def _described(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


def _any_of(place: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(place, inspect.Metadata):
        return _any_of(place.type)
    if isinstance(place, inspect.UnionType):
        return tuple(one for inner in place.types for one in _any_of(inner))
    return (place,)


def _fields(place: inspect.Type) -> tuple[inspect.Field, ...]:
    return place.fields if isinstance(place, inspect.StructType) else ()


def _within(place: inspect.Type, step: str) -> list[inspect.Type]:
    if isinstance(place, inspect.StructType):
        return [field.type for field in _fields(place) if field.encode_name == step]
    if isinstance(place, inspect.DictType):
        return [place.value_type]
    if isinstance(place, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return [place.item_type]
    return []


def decoded_path(place: str) -> str:
    """Where in a document a decoder stumbled, as the caller would write it."""
    inner = re.sub(r"`key` in `(.*)`", r"\1", place).strip("`")
    return inner.removeprefix("$").removeprefix(".")
