"""How values become text and back: one JSON encoder, strict and fast."""

from typing import Any, NewType, TypeVar

import msgspec

from homeostat.core.errors import MalformedPayload, PayloadTooLarge
from homeostat.core.limits import PAYLOAD_BYTES_MAX

Json = NewType("Json", str)
"""A JSON document as text, the form in which payloads travel through the kernel unread."""

NULL = Json("null")

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

T = TypeVar("T")


def to_json(value: object, *, what: str = "payload") -> Json:
    """Encode a value; what cannot be JSON is named in the error."""
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as problem:
        raise MalformedPayload(field=what, problem=str(problem)) from problem
    if len(encoded) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(what=what, size=len(encoded), limit=PAYLOAD_BYTES_MAX)
    return Json(encoded.decode())


def from_json(text: str | bytes) -> Any:
    """Decode JSON into plain Python values."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise MalformedPayload(field="body", problem=str(problem)) from problem


def read_as(shape: type[T], text: str | bytes, *, what: str = "body") -> T:
    """Decode JSON into a record, checking every field."""
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise MalformedPayload(field=what, problem=str(problem)) from problem
