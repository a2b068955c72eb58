"""Reads the protobuf wire format: every field of one message, in order, and nothing that is longer than it says."""

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10
_UINT64: Final = (1 << 64) - 1


class NotProtobuf(ValueError):
    """These bytes are no protobuf message."""


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field. Numbers come unsigned, everything with a length as a view.

    >>> [(number, bytes(value)) for number, _, value in fields(memoryview(bytes([0x0A, 0x02, 0x68, 0x69])))]
    [(1, b'hi')]
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise NotProtobuf("a field has no number")
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise NotProtobuf(f"wire type {kind} is not read")
        if size > end - at:
            raise NotProtobuf("a field is longer than its message")
        part = data[at : at + size]
        at += size
        yield number, kind, part if kind == BYTES else int.from_bytes(part, "little")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    if at < len(data) and (byte := data[at]) < 0x80:  # most are as short
        return byte, at + 1
    value = shift = 0
    for index in range(at, min(at + _VARINT_BYTES_MAX, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, index + 1
        shift += 7
    raise NotProtobuf("a number does not end")


def signed(value: int) -> int:
    """An int64 out of the unsigned number it travels as."""
    return value - (1 << 64) if value >> 63 else value


def field(number: int, content: bytes | int) -> bytes:
    """One field to send: a number, or something with a length."""
    if isinstance(content, int):
        return _number(number << 3 | VARINT) + _number(content)
    return _number(number << 3 | BYTES) + _number(len(content)) + content


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
