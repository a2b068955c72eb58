"""One spelling for every JSON value (RFC 8785), so that equal contents have equal hashes and unequal ones do not.

The whole value is covered, however deep. Where the RFC has no answer we keep what is told apart apart: integers beyond
2^53 are written with all their digits instead of being rounded to a double.
"""

import math
from typing import Any, cast

import msgspec

from homeostat.core.codec import Json, malformed
from homeostat.core.errors import MalformedPayload

_PLAIN_MAX = 1e15  # below it a whole number is written with all its digits
_SHORT_MIN, _SHORT_MAX = -6, 21  # between these exponents ECMAScript writes a number without one


def number(value: float) -> str:
    """A double as ECMAScript writes it."""
    if not math.isfinite(value):
        raise MalformedPayload(field="payload", problem=f"{value} is not a JSON number")
    if value.is_integer() and -_PLAIN_MAX < value < _PLAIN_MAX:
        return str(int(value))
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= _SHORT_MAX:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= _SHORT_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _SHORT_MIN < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def _float(text: str) -> msgspec.Raw:
    return msgspec.Raw(number(float(text)).encode())


_decoder = msgspec.json.Decoder(float_hook=_float)
_sorting = msgspec.json.Encoder(order="sorted")
_as_given = msgspec.json.Encoder()
_FOUR_BYTES = 0xF0  # where a character outside the basic plane begins in UTF-8


def canonical_of(text: str | bytes, *, what: str = "payload") -> Json:
    """The canonical text of a JSON text."""
    return Json(canonical_raw(text, what=what).decode())


def canonical_raw(text: str | bytes, *, what: str = "payload") -> bytes:
    """The same, as it is hashed."""
    try:
        value = _decoder.decode(text)
        encoded = _sorting.encode(value)
        if not encoded.isascii() and max(encoded) >= _FOUR_BYTES:
            # Names are sorted by UTF-16 units, which is the order of UTF-8 only within the basic plane.
            encoded = _as_given.encode(_sorted(value))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise malformed(problem, what=what) from problem
    return encoded


class Ordered(msgspec.Struct, frozen=True, gc=False):
    """A record that is declared in the order of its names and holds no others, so that none have to be sorted."""


def canonical_plain(value: object, *, what: str = "payload") -> Json:
    """The canonical text of a value whose numbers are whole ones; raw JSON in it has to be canonical already."""
    try:
        encoded = (_as_given if isinstance(value, Ordered) else _sorting).encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as problem:
        raise malformed(problem, what=what) from problem
    if not encoded.isascii() and max(encoded) >= _FOUR_BYTES:
        return canonical_of(encoded, what=what)
    return Json(encoded.decode())


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _sorted(members[name]) for name in sorted(members, key=_utf16)}
    if isinstance(value, list):
        return [_sorted(item) for item in cast("list[Any]", value)]
    return value


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")
