"""How values become text and back: one JSON encoder, strict and fast."""

import re
from typing import Any, NewType, TypeVar

import msgspec

from homeostat.core.errors import MalformedPayload, PayloadTooLarge
from homeostat.core.limits import JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX
from homeostat.core.wording import UNKNOWN_FIELD, decoded_path, problem_in_words

Json = NewType("Json", str)
"""A JSON document as text, the form in which payloads travel through the kernel unread."""

NULL = Json("null")

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

_NAMED_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`")

T = TypeVar("T")


def to_json(value: object, *, what: str = "payload", limit: int = PAYLOAD_BYTES_MAX) -> Json:
    """Encode a value; what cannot be JSON is named in the error."""
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as problem:
        raise MalformedPayload(field=what, problem=str(problem)) from problem
    if len(encoded) > limit:
        raise PayloadTooLarge(what=what, size=len(encoded), limit=limit)
    return Json(encoded.decode())


def from_json(text: str | bytes) -> Any:
    """Decode JSON into plain Python values."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise malformed(problem) from problem


def read_as(shape: type[T], text: str | bytes, *, what: str = "body") -> T:
    """Decode JSON into a record, checking every field."""
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise malformed(problem, what=what, shape=shape) from problem


def take_json(raw: bytes, *, what: str) -> Json:
    """Accept a JSON text from outside: every reader after this one can follow it."""
    if len(raw) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(what=what, size=len(raw), limit=PAYLOAD_BYTES_MAX)
    try:
        value = _decoder.decode(raw)
        text = Json(raw.decode())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise malformed(problem, what=what) from problem
    if raw.count(b"[") + raw.count(b"{") > JSON_DEPTH_MAX and _too_deep(value):
        raise MalformedPayload(field=what, problem=f"it is nested more than {JSON_DEPTH_MAX} deep")
    return text


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(JSON_DEPTH_MAX):
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return False
    return True


def malformed(problem: Exception, *, what: str = "body", shape: Any = None) -> MalformedPayload:
    """Say which field is wrong, and what to send instead; a shape tells which values are possible."""
    if isinstance(problem, RecursionError):
        return MalformedPayload(field=what, problem="it is nested too deep")
    if isinstance(problem, UnicodeDecodeError):
        return MalformedPayload(field=what, problem="it is not UTF-8")
    text, _, place = str(problem).partition(" - at ")
    path = decoded_path(place)
    if named := _NAMED_FIELD.fullmatch(text):
        path = f"{path}.{named[2]}" if path else named[2]
        text = "it is required" if named[1] == "missing required" else UNKNOWN_FIELD
    return MalformedPayload(field=path or what, problem=problem_in_words(text, shape, path))
