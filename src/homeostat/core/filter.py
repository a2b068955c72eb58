"""One way to say which of many are meant: `phase:quarantined tag:gpu cost>2 started>-1h`.

A filter is terms with blanks between them, and all of them must hold. A term is a field, an operator and a value:

    phase:quarantined        the same word, whatever its case; `=` is the same as `:`
    phase:suspected,healing  one of these
    agent:billing-*          a star stands for anything
    goal:"weekly report"     quotes keep blanks together; in texts it is enough that the words occur
    closed:none              has no such value
    cost>2  tokens>=10k      numbers: > >= < <= and :
    started>-1h              times: since an hour ago (s, m, h, d), or as in 2026-01-31 or 2026-01-31T12:00:00Z
    -phase:healthy           not so; `phase!=healthy` is the same
    gpu                      a word alone is looked for in all names and texts

Server and command line read it with this one parser, each noun with its fields from `filter_fields`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

from homeostat.core.clock import Millis
from homeostat.core.errors import ProtocolViolation
from homeostat.core.limits import FILTER_CHARS_MAX, FILTER_TERMS_MAX

NONE: Final = "none"
_TERM: Final = re.compile(r"(?P<no>[-!])?(?P<field>[a-z_]+)(?P<operator>!=|>=|<=|>|<|:|=)(?P<value>.*)", re.DOTALL)
_SPAN: Final = re.compile(r"-(\d+(?:\.\d+)?)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER: Final = re.compile(r"\$?(-?\d+(?:\.\d+)?)([kM]?)")
_TIMES: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_YES: Final = frozenset({"yes", "true"})
_NO: Final = frozenset({"no", "false"})

Test = Callable[[Any], bool]


class FilterInvalid(ProtocolViolation):
    """{term!r} is no filter for {noun}: {problem}. The fields are {named}."""

    code = "filter_invalid"
    hint = "Write terms as field:value, field>number or field>-1h, with blanks between them."


class Kind(StrEnum):
    """How values of a field are compared."""

    WORD = "word"
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    FLAG = "yes or no"


@dataclass(frozen=True, slots=True)
class Field:
    """Something one can filter by: where it stands in what the API shows, and in which words it is explained."""

    name: str
    kind: Kind
    member: str
    words: str


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. Where a row has several values, one that fits is enough."""

    text: str
    field: Field | None
    test: Test
    negated: bool

    def holds(self, row: Any, fields: Iterable[Field]) -> bool:
        if self.field is not None:
            values = _values(row, self.field.member)
            found = any(map(self.test, values)) if values else self.test(None)
        else:
            words = (one for one in fields if one.kind in (Kind.WORD, Kind.TEXT))
            found = any(self.test(value) for one in words for value in _values(row, one.member))
        return found is not self.negated


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are meant; without terms all of them."""

    terms: tuple[Term, ...]
    fields: tuple[Field, ...]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def covers(self, row: Any) -> bool:
        """Whether a row is meant: an object of the API, as a record or as plain JSON."""
        return all(term.holds(row, self.fields) for term in self.terms)


EVERYTHING: Final = Filter((), ())


class Reader:
    """Reads the filters of one kind of thing."""

    def __init__(self, noun: str, fields: Iterable[Field]) -> None:
        self.noun = noun
        self.fields = tuple(fields)
        self._by_name: Mapping[str, Field] = {one.name: one for one in self.fields}

    def read(self, text: str | None, *, now_ms: Millis) -> Filter:
        """A filter from what was typed; raises `FilterInvalid`, which names the fields there are."""
        if not text:
            return Filter((), self.fields)
        if len(text) > FILTER_CHARS_MAX:
            raise self._invalid(text[:40] + "…", f"it is longer than {FILTER_CHARS_MAX} characters")
        parts = self._parts(text)
        if len(parts) > FILTER_TERMS_MAX:
            raise self._invalid(text[:40] + "…", f"it has more than {FILTER_TERMS_MAX} terms")
        return Filter(tuple(self._term(part, now_ms) for part in parts), self.fields)

    def _parts(self, text: str) -> list[str]:
        """Split at blanks that are not between quotes."""
        parts = [""]
        quoted = False
        for character in text:
            if character == '"':
                quoted = not quoted
            if character.isspace() and not quoted:
                parts.append("")
            else:
                parts[-1] += character
        if quoted:
            raise self._invalid(parts[-1], "a quotation mark is not closed")
        return [part for part in parts if part]

    def _term(self, part: str, now_ms: Millis) -> Term:
        found = _TERM.fullmatch(part)
        if found is None:
            negated = part[0] in "-!"
            word = (part[1:] if negated else part).replace('"', "").casefold()
            if not word:
                raise self._invalid(part, "it says nothing")
            return Term(part, None, lambda value: word in str(value).casefold(), negated)
        field = self._by_name.get(found["field"])
        if field is None:
            raise self._invalid(part, f"there is no field {found['field']!r}")
        operator, value = found["operator"], found["value"]
        if not value.replace('"', ""):
            raise self._invalid(part, "it has no value")
        negated = (found["no"] is not None) is not (operator == "!=")
        try:
            test = _test(field.kind, "=" if operator in (":", "!=") else operator, value, now_ms)
        except ValueError as problem:
            raise self._invalid(part, str(problem)) from problem
        return Term(part, field, test, negated)

    def _invalid(self, term: str, problem: str) -> FilterInvalid:
        fields = {one.name: one.kind.value for one in self.fields}
        return FilterInvalid(term=term, noun=self.noun, problem=problem, named=", ".join(fields), fields=fields)


def _test(kind: Kind, operator: str, value: str, now_ms: Millis) -> Test:
    """What a value of a row must be."""
    if value.casefold() == NONE and operator == "=":
        return lambda found: found is None or (found in ("", 0) and kind is not Kind.NUMBER)
    if kind in (Kind.WORD, Kind.TEXT, Kind.FLAG):
        if operator != "=":
            raise ValueError(f"a {kind} has no order; write it with a colon")
        if kind is Kind.FLAG:
            return _flag(value)
        tests = [_word(one) if kind is Kind.WORD else _text(one) for one in _choices(value)]
        return lambda found: any(test(found) for test in tests)
    if kind is Kind.TIME:
        if operator == "=":
            raise ValueError("a time is compared with > or <, as in >-1h")
        return _ordered(operator, _instant(value, now_ms), _millis)
    if operator == "=":
        numbers = {_number(one) for one in _choices(value)}
        return lambda found: found is not None and float(found) in numbers
    return _ordered(operator, _number(value), float)


def _ordered(operator: str, bound: float, read: Callable[[Any], float]) -> Test:
    match operator:
        case ">":
            return lambda found: found is not None and read(found) > bound
        case ">=":
            return lambda found: found is not None and read(found) >= bound
        case "<":
            return lambda found: found is not None and read(found) < bound
        case _:
            return lambda found: found is not None and read(found) <= bound


def _choices(value: str) -> list[str]:
    """What stands between commas; between quotes a comma is a comma."""
    parts = re.findall(r'(?:"[^"]*"|[^,"])+', value)
    return [part.replace('"', "") for part in parts]


def _word(wanted: str) -> Test:
    if "*" not in wanted:
        plain = wanted.casefold()
        return lambda found: found is not None and str(found).casefold() == plain
    # Between stars every part is taken as it stands: nothing that somebody types is a pattern of ours.
    pieces = [piece.casefold() for piece in wanted.split("*")]
    return lambda found: found is not None and _starred(str(found).casefold(), pieces)


def _starred(text: str, pieces: list[str]) -> bool:
    """Whether a text has these pieces in their order, the first at its beginning and the last at its end."""
    first, *middle, last = pieces
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in middle:
        place = text.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True


def _text(wanted: str) -> Test:
    plain = wanted.casefold()
    return lambda found: found is not None and plain in str(found).casefold()


def _flag(value: str) -> Test:
    word = value.casefold()
    if word not in _YES | _NO:
        raise ValueError("it is yes or no")
    return lambda found: bool(found) is (word in _YES)


def _number(value: str) -> float:
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is no number")
    return float(found[1]) * _TIMES[found[2]]


def _instant(value: str, now_ms: Millis) -> float:
    if (found := _SPAN.fullmatch(value)) is not None:
        return now_ms - float(found[1]) * _SECONDS[found[2]] * 1000
    try:
        return _millis(value)
    except ValueError:
        raise ValueError(f"{value!r} is no time; write it as -1h or 2026-01-31T12:00:00Z") from None


def _millis(value: Any) -> float:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000


def _values(row: Any, member: str) -> list[Any]:
    """What stands at a place, like `budget.usd_spent`; in lists, at that place of each."""
    found: list[Any] = [row]
    for part in member.split("."):
        following: list[Any] = []
        for one in found:
            value: Any = cast("dict[str, Any]", one).get(part) if isinstance(one, dict) else getattr(one, part, None)
            following += value if isinstance(value, list | tuple) else [value]
        found = [one for one in following if one is not None]
    return found
