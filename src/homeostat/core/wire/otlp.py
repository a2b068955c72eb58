"""Spans as OpenTelemetry's exporters send them, in protobuf and in JSON. What is not needed is not kept."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from homeostat.core.limits import OTLP_ATTRIBUTES_MAX, OTLP_DEPTH_MAX, OTLP_SPANS_MAX
from homeostat.core.wire import protobuf
from homeostat.core.wire.protobuf import BYTES, FIXED64, VARINT, NotProtobuf, signed

Attributes = dict[str, Any]

FAILED: Final = frozenset({2, "2", "STATUS_CODE_ERROR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span, as far as it says something of an agent."""

    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    failed: bool
    attributes: Attributes
    resource: Attributes = field(default_factory=dict[str, Any])


def read_protobuf(data: bytes) -> list[Span]:
    """The spans of an `ExportTraceServiceRequest`. Raises `NotProtobuf`."""
    spans: list[Span] = []
    for resource_spans in _messages(memoryview(data), 1):
        resource: Attributes = {}
        for part in _messages(resource_spans, 1):
            resource.update(_attributes(_messages(part, 1)))
        for scope_spans in _messages(resource_spans, 2):
            for one in _messages(scope_spans, 2):
                if len(spans) == OTLP_SPANS_MAX:
                    raise NotProtobuf(f"more than {OTLP_SPANS_MAX} spans in one request")
                spans.append(_span(one, resource))
    return spans


def _messages(data: memoryview, number: int) -> Iterable[memoryview]:
    for found, kind, value in protobuf.fields(data):
        if found == number and kind == BYTES:
            assert isinstance(value, memoryview)
            yield value


def _span(data: memoryview, resource: Attributes) -> Span:
    numbers: dict[int, int] = {}
    texts: dict[int, memoryview] = {}
    attributes: list[memoryview] = []
    for number, kind, value in protobuf.fields(data):
        if isinstance(value, int):
            if kind == FIXED64:  # what is written in another way than its field is another field
                numbers[number] = value
        elif number == 9:
            attributes.append(value)
        else:
            texts[number] = value
    told = protobuf.fields(texts.get(15, memoryview(b"")))
    status = [value for number, kind, value in told if (number, kind) == (3, VARINT)]
    return Span(
        trace_id=bytes(texts.get(1, b"")[:32]).hex(),
        span_id=bytes(texts.get(2, b"")[:32]).hex(),
        start_ns=numbers.get(7, 0),
        end_ns=numbers.get(8, 0),
        failed=bool(status) and status[-1] in FAILED,
        attributes=_attributes(attributes),
        resource=resource,
    )


def _attributes(pairs: Iterable[memoryview], depth: int = 0) -> Attributes:
    found: Attributes = {}
    for pair in pairs:
        key, value = "", None
        for number, kind, content in protobuf.fields(pair):
            if number == 1 and kind == BYTES:
                key = _text(content)
            elif number == 2 and kind == BYTES:
                value = _value(content, depth)
        if len(found) < OTLP_ATTRIBUTES_MAX:
            found[key] = value
    return found


def _value(data: Any, depth: int) -> Any:
    """An `AnyValue`; what is nested deeper than anybody reads is none."""
    value: Any = None
    for number, kind, content in protobuf.fields(data):
        match number, kind:
            case 1, protobuf.BYTES:
                value = _text(content)
            case 2, protobuf.VARINT:
                value = bool(content)
            case 3, protobuf.VARINT:
                assert isinstance(content, int)
                value = signed(content)
            case 4, protobuf.FIXED64:
                assert isinstance(content, int)
                value = struct.unpack("<d", content.to_bytes(8, "little"))[0]
            case (5, protobuf.BYTES) if depth < OTLP_DEPTH_MAX:
                assert isinstance(content, memoryview)
                value = [_value(one, depth + 1) for one in _messages(content, 1)]
            case (6, protobuf.BYTES) if depth < OTLP_DEPTH_MAX:
                assert isinstance(content, memoryview)
                value = _attributes(_messages(content, 1), depth + 1)
            case _:
                pass
    return value


def _text(content: int | memoryview) -> str:
    assert isinstance(content, memoryview)
    return bytes(content).decode(errors="replace")


# --- JSON ----------------------------------------------------------------------------------------------------


Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Int64 | None = None
    double_value: float | None = None
    array_value: "_Values | None" = None
    kvlist_value: "_Pairs | None" = None


class _Pair(msgspec.Struct):
    key: str = ""
    value: _Value | None = None


class _Values(msgspec.Struct):
    values: list[_Value] = []


class _Pairs(msgspec.Struct):
    values: list[_Pair] = []


class _Status(msgspec.Struct):
    code: int | str = 0


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    start_time_unix_nano: int = 0
    end_time_unix_nano: int = 0
    attributes: list[_Pair] = []
    status: _Status | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Pair] = []


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


_exports = msgspec.json.Decoder(_Export, strict=False)


def read_json(data: bytes) -> list[Span]:
    """The spans of an export in JSON. Raises what msgspec raises."""
    spans: list[Span] = []
    for resource_spans in _exports.decode(data).resource_spans:
        resource = _plain(resource_spans.resource.attributes) if resource_spans.resource is not None else {}
        for one in (span for scope in resource_spans.scope_spans for span in scope.spans):
            if len(spans) == OTLP_SPANS_MAX:
                raise msgspec.ValidationError(f"more than {OTLP_SPANS_MAX} spans in one request")
            spans.append(
                Span(
                    trace_id=one.trace_id[:64].lower(),
                    span_id=one.span_id[:64].lower(),
                    start_ns=_instant(one.start_time_unix_nano),
                    end_ns=_instant(one.end_time_unix_nano),
                    failed=one.status is not None and one.status.code in FAILED,
                    attributes=_plain(one.attributes),
                    resource=resource,
                )
            )
    return spans


def _instant(nanoseconds: int) -> int:
    """A fixed64, which JSON may write as any number whatever."""
    if not 0 <= nanoseconds < 1 << 64:
        raise msgspec.ValidationError("a time is no unsigned number of 64 bits")
    return nanoseconds


def _plain(pairs: list[_Pair], depth: int = 0) -> Attributes:
    return {pair.key: _plain_value(pair.value, depth) for pair in pairs[:OTLP_ATTRIBUTES_MAX]}


def _plain_value(value: _Value | None, depth: int) -> Any:
    if value is None:
        return None
    for one in (value.string_value, value.bool_value, value.int_value, value.double_value):
        if one is not None:
            return one
    if value.array_value is not None and depth < OTLP_DEPTH_MAX:
        return [_plain_value(one, depth + 1) for one in value.array_value.values]
    if value.kvlist_value is not None and depth < OTLP_DEPTH_MAX:
        return _plain(value.kvlist_value.values, depth + 1)
    return None
