"""Spans are read as OpenTelemetry's own code writes them, and no bytes whatever break the reader."""

import contextlib
from typing import Any

import msgspec
from google.protobuf.json_format import MessageToJson
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from homeostat.core.limits import OTLP_DEPTH_MAX
from homeostat.core.wire.otlp import read_json, read_protobuf
from homeostat.core.wire.protobuf import NotProtobuf, field, fields

text = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = text | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=10
)
attributes = st.dictionaries(text, values, max_size=5)
instants = st.integers(0, 2**63)


def any_value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[any_value(one) for one in value]))
        case _:
            return AnyValue(kvlist_value=KeyValueList(values=pairs(value)))


def pairs(found: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in found.items()]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.binary(min_size=16, max_size=16), instants, instants, attributes, attributes), max_size=4))
def test_what_opentelemetry_writes_is_what_is_read(told: list[tuple[bytes, int, int, Any, Any]]) -> None:
    request = ExportTraceServiceRequest()
    for trace_id, start, end, resource, said in told:
        group = request.resource_spans.add()
        group.resource.attributes.extend(pairs(resource))
        span = group.scope_spans.add().spans.add()
        span.trace_id, span.span_id, span.name = trace_id, trace_id[:8], "chat"
        span.start_time_unix_nano, span.end_time_unix_nano = start, end
        span.attributes.extend(pairs(said))
        span.status.code = Status.STATUS_CODE_ERROR if start % 2 else Status.STATUS_CODE_OK
        span.events.add(name="passes unread")
    read = read_protobuf(request.SerializeToString())
    assert [(one.trace_id, one.span_id) for one in read] == [(found[0].hex(), found[0][:8].hex()) for found in told]
    assert [(one.start_ns, one.end_ns, one.failed) for one in read] == [(s, e, s % 2 == 1) for _, s, e, _, _ in told]
    assert [one.resource for one in read] == [resource for _, _, _, resource, _ in told]
    assert [one.attributes for one in read] == [said for *_, said in told]
    as_json = read_json(_with_hex_ids(request))
    assert as_json == read


def _with_hex_ids(request: ExportTraceServiceRequest) -> bytes:
    """OTLP's JSON has ids in hex, where protobuf's own has them in base64."""
    told = msgspec.json.decode(MessageToJson(request))
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    shown = [s for group in told.get("resourceSpans", ()) for scope in group["scopeSpans"] for s in scope["spans"]]
    for span, one in zip(spans, shown, strict=True):
        one.update(traceId=span.trace_id.hex(), spanId=span.span_id.hex(), status={"code": span.status.code})
    return msgspec.json.encode(told)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(NotProtobuf):
        read_protobuf(data)


@given(st.data())
def test_a_message_that_was_tampered_with_is_read_or_refused(data: st.DataObject) -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.attributes.extend(pairs({"a": [1, "two", {"three": 3.0}]}))
    raw = bytearray(request.SerializeToString())
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=5)):
        raw[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NotProtobuf):
        read_protobuf(bytes(raw))


@given(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1) | st.binary(max_size=300))
def test_a_field_that_is_written_is_read(number: int, content: int | bytes) -> None:
    ((found, _, value),) = fields(memoryview(field(number, content)))
    assert found == number
    assert (value if isinstance(value, int) else bytes(value)) == content


def test_nesting_has_an_end() -> None:
    deep = AnyValue(string_value="bottom")
    for _ in range(3 * OTLP_DEPTH_MAX):
        deep = AnyValue(array_value=ArrayValue(values=[deep]))
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.attributes.add(key="deep", value=deep)
    (read,) = read_protobuf(request.SerializeToString())
    value, depth = read.attributes["deep"], 0
    while isinstance(value, list):
        value, depth = value[0], depth + 1
    assert (value, depth) == (None, OTLP_DEPTH_MAX)
