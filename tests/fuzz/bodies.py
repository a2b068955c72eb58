"""Targets: what agents and other systems send as one piece: heartbeats, vitals, spans, bundles, events, addresses."""

import base64
import contextlib
import gzip
import hmac
import math
import zlib
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from homeostat.adapters.doorbells.nats.wire import Foreign, pack
from homeostat.adapters.doorbells.nats.wire import unpack as unpack_event
from homeostat.app.webhooks import _told, alert_of, signed
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, take_json
from homeostat.core.errors import HomeostatError
from homeostat.core.filter import FilterInvalid
from homeostat.core.filter_fields import READERS
from homeostat.core.ids import AgentId, ProjectId, RunId
from homeostat.core.limits import OTLP_ATTRIBUTES_MAX, OTLP_DEPTH_MAX
from homeostat.core.records.conversation import Conversation
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.fleet import AgentStatus
from homeostat.core.records.provenance import START, Chain, EntryKind
from homeostat.core.records.webhook import Webhook
from homeostat.core.wire.otlp import Span, read_json, read_protobuf
from homeostat.core.wire.protobuf import NotProtobuf
from homeostat.immune.immune import Immune
from homeostat.immune.intake import Intake
from homeostat.immune.spans import agent_named, read_spans, speaks_of_models
from homeostat.runs.bundle import Header, lines_of, unpack
from homeostat.runs.heads import Ed25519Signer, Head, Marks, sign
from homeostat.runs.merkle import Tree
from homeostat.runs.verify import verify
from homeostat.server import names
from homeostat.server.application import table_of
from homeostat.server.call import Call
from homeostat.server.patience import Patience
from homeostat.server.routing import Router
from homeostat.testing.clock import ManualClock
from tests.fuzz.harness import pieces, target

JSON_WORDS = (
    b'":', b'{"', b'"}', b"null", b"true", b"1e999", b"-1", b"9" * 40, b"\\u0000", b"\\ud800", b"[" * 40, b"0.1",
    b"2026-01-01T00:00:00Z", b"\xff",
)  # fmt: skip

HEARTBEAT = (
    b'{"agent_id":"a","agent_type":"t","tags":["x"],"timestamp":"2026-01-01T00:00:00Z",'
    b'"started_at":"2026-01-01T00:00:00+02:00","uptime_seconds":1.5,"status":"running","last_action":"x",'
    b'"last_action_at":null,"items_processed":1,"queue_depth":0,"processing_time_avg_ms":2.5,"error_count":0,'
    b'"memory_mb":12.5,"push_interval_seconds":30}'
)
_beats = msgspec.json.Decoder(AgentStatus)
_encode = msgspec.json.Encoder().encode


@target(HEARTBEAT, words=(*JSON_WORDS, b'"status":"idle"', b'"memory_mb":', b'"queue_depth":'))
def heartbeats(data: bytes) -> None:
    """A heartbeat is refused by the long way's errors, or means the same once it was stored and read."""
    try:
        status = _beats.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    for measure in (status.uptime_seconds, status.memory_mb, status.processing_time_avg_ms):
        assert math.isfinite(measure)
        assert measure >= 0
    assert _beats.decode(_encode(status)) == status, "it is not what was stored"


VITALS = (
    b'{"sample_id":"s","project":"p","agent_id":"a","at_ms":1750000000000,"source":"gateway","latency_ms":12.5,'
    b'"tokens_in":3,"tokens_out":4,"cost_usd":0.1,"retries":0,"error":false,"model":"m","tools":[{"name":"f",'
    b'"arguments":"d"}],"hearsay":{"orders":1.5,"cues":["x"],"borrowed":false}}'
)


@target(VITALS, words=(*JSON_WORDS, b'"tokens_in":', b'"at_ms":', b'"hearsay":', b'"orders":'))
def vitals(data: bytes) -> None:
    """A vital sign is let in with figures that can be reckoned with, or counted as refused."""
    intake = Intake(clock=ManualClock())
    try:
        payload = Json(data.decode())
    except UnicodeDecodeError:
        return  # an event's payload is text
    event = Event("e", ProjectId("p"), Channel.EVT, "agent", "a", "vitals", payload)
    _finish(Immune._on_vitals(cast("Any", SimpleNamespace(intake=intake)), event))
    waiting = [sample for samples in intake.drain().values() for sample in samples]
    assert len(waiting) + intake.refused.total() == 1
    for sample in waiting:
        for measure in (sample.latency_ms, sample.tokens_in, sample.tokens_out, sample.cost_usd, sample.retries):
            assert measure is None or 0 <= float(measure) < math.inf


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


# --- telemetry ---------------------------------------------------------------------------------------------------


def _export() -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="gen_ai.agent.id").value.string_value = "a"
    for operation in ("chat",):
        span = group.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="x")
        span.start_time_unix_nano, span.end_time_unix_nano = 5, 9_000_000
        span.status.code = Status.STATUS_CODE_ERROR
        span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = -3
        span.attributes.add(key="gen_ai.request.model").value.string_value = "m"
        span.attributes.add(key="gen_ai.tool.call.result").value.kvlist_value.values.add(key="k").value.double_value = 2
        span.attributes.add(key="list").value.array_value.values.add().bool_value = True
    return request.SerializeToString()


SPANS_JSON = (
    b'{"resourceSpans":[{"resource":{"attributes":[{"key":"gen_ai.agent.id","value":{"stringValue":"a"}}]},'
    b'"scopeSpans":[{"spans":[{"traceId":"0a","spanId":"0b","startTimeUnixNano":"5","endTimeUnixNano":"9000000",'
    b'"status":{"code":2},"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},'
    b'{"key":"gen_ai.usage.input_tokens","value":{"intValue":"3"}},{"key":"gen_ai.request.model","value":'
    b'{"stringValue":"m"}},{"key":"gen_ai.input.messages","value":{"stringValue":"[]"}},{"key":"k","value":'
    b'{"arrayValue":{"values":[{"doubleValue":1.5},{"kvlistValue":{"values":[{"key":"k"}]}}]}}}]}]}]}]}'
)
SPAN_WORDS = (
    b"gen_ai.operation.name", b"chat", b"execute_tool", b"gen_ai.usage.input_tokens", b"gen_ai.usage.output_tokens",
    b"gen_ai.system_instructions", b"gen_ai.input.messages", b"gen_ai.tool.name", b"gen_ai.tool.call.arguments",
    b"gen_ai.tool.call.result", b"gen_ai.response.model", b"homeostat.agent.id", b"error.type",
    b"http.request.resend_count",
)  # fmt: skip


class Deaf:
    """Hears nothing: what texts mean is judged elsewhere, and takes longer than reading them."""

    def listen(self, conversation: Conversation) -> None:
        del conversation


_LISTENER = cast("Any", Deaf())


def _become_vitals(spans: list[Span]) -> None:
    """What the route does with spans; whatever comes of them must be fit to be judged."""
    known = [span for span in spans if speaks_of_models(span)]
    for span in known:
        agent_named(span)
    intake = Intake(clock=ManualClock())
    told = read_spans(
        known,
        project=ProjectId("p"),
        agent_id=AgentId("a"),
        listener=_LISTENER,
        cost_of=lambda _provider, _model, tokens_in, tokens_out: (tokens_in + tokens_out) / 1e6,
    )
    for sample in told:
        if intake.problem(sample) is None:
            _encode(sample)


def _plain(value: Any, depth: int) -> Any:
    """An `AnyValue` of OpenTelemetry's, by the rules of our reader."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one, depth + 1) for one in value.array_value.values] if depth < OTLP_DEPTH_MAX else None
    if kind == "kvlist_value":
        return _pairs(value.kvlist_value.values, depth + 1) if depth < OTLP_DEPTH_MAX else None
    unread = (None, "bytes_value", "string_value_strindex")  # the last points into a table that only profiles have
    return None if kind in unread else getattr(value, kind)


def _pairs(pairs: Any, depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        if len(found) < OTLP_ATTRIBUTES_MAX:
            found[pair.key] = _plain(pair.value, depth) if pair.HasField("value") else None
    return found


@target(_export(), words=(*SPAN_WORDS, b"\x0a\x00", b"\xff" * 9 + b"\x01", b"\x22\x09", b"\x4a"), bytes_max=512)
def spans_in_protobuf(data: bytes) -> None:
    """Spans are refused as `NotProtobuf` or read; what OpenTelemetry wrote is read as OpenTelemetry reads it."""
    with contextlib.suppress(NotProtobuf):
        _become_vitals(read_protobuf(data))
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError:
        return
    try:
        read = iter(read_protobuf(request.SerializeToString()))
    except NotProtobuf as problem:
        if "wire type" in str(problem):
            return  # groups, which nobody has written since proto3; OpenTelemetry hands on those that it does not know
        raise
    for group in request.resource_spans:
        for span in (span for scope in group.scope_spans for span in scope.spans):
            one = next(read)
            assert (one.trace_id, one.span_id) == (span.trace_id[:32].hex(), span.span_id[:32].hex())
            assert (one.start_ns, one.end_ns) == (span.start_time_unix_nano, span.end_time_unix_nano)
            assert one.failed == (span.status.code == 2)
            assert repr(one.attributes) == repr(_pairs(span.attributes))
            assert repr(one.resource) == repr(_pairs(group.resource.attributes))
    assert next(read, None) is None


@target(
    SPANS_JSON, words=(*SPAN_WORDS, *JSON_WORDS, b'"intValue":', b'"arrayValue":{"values":[', b'"endTimeUnixNano":')
)
def spans_in_json(data: bytes) -> None:
    """Spans in JSON are refused by the errors the route knows, or become vital signs."""
    try:
        spans = read_json(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    _become_vitals(spans)


# --- ledgers -----------------------------------------------------------------------------------------------------

SIGNER = Ed25519Signer(b"\7" * 32)


def _ledger() -> tuple[bytes, ...]:
    chain = Chain(ProjectId("p"), RunId("r"))
    for number in range(3):
        chain.add(EntryKind.STEP, {"n": number}, at_ms=Millis(number))
    page = lines_of(chain.entries, START.hash)
    tree, marks = Tree(), Marks()
    hashes = [bytes.fromhex(entry.hash) for entry in chain.entries]
    tree.extend(hashes)
    marks.extend(hashes)
    head = Head(
        project="p", run_id="r", size=3, root=tree.root().hex(), last=chain.entries[-1].hash, at_ms=Millis(9),
        stride=marks.stride, marks=marks.text(), public_key=SIGNER.public_key,
    )  # fmt: skip
    return (_encode(Header(project="p", run_id="r", heads=(sign(head, SIGNER),))), *page)


LEDGER = _ledger()


@target(
    b"\1" + b"\n".join(LEDGER) + b"\n",
    b"\0" + gzip.compress(b"\n".join(LEDGER) + b"\n", 1, mtime=0),
    words=(*JSON_WORDS, b"\n", b'"previous":"', b'"seq":', b'"heads":[', b'"marks":"', b'"size":', b'"payload":'),
    bytes_max=4096,
)
def bundles(data: bytes) -> None:
    """A bundle is refused as unreadable, or found changed: only what was signed verifies."""
    if not data:
        return
    content = gzip.compress(data[1:], 0, mtime=0) if data[0] & 1 else data[1:]  # how well is not the question
    _, blocks = pieces(b"\2\7\x40" + content)
    try:
        verdict = verify(unpack(iter(blocks), where="here"), public_key=SIGNER.public_key)
    except HomeostatError:
        return
    if verdict.ok:
        _, *lines = b"".join(_inflated(content)).rstrip(b"\n").split(b"\n")
        assert tuple(lines) == LEDGER[1:] or not verdict.entries, "it was changed, and verifies"


def _inflated(content: bytes) -> Iterator[bytes]:
    inflate = zlib.decompressobj(31)
    try:
        yield inflate.decompress(content, 1 << 20)
    except zlib.error:
        return


# --- events, webhooks, addresses -----------------------------------------------------------------------------------

EVENT = Event("e1", ProjectId("p"), Channel.EVT, "agent", "a", "alert", Json('{"message":"x","step":{"cause":"y"}}'))


@target(pack([EVENT]), words=(*JSON_WORDS, b'"payload":', b'"channel":"evt"', b'"step":'))
def events_on_the_bus(data: bytes) -> None:
    """What comes over the bus is one of our events, word for word, or `Foreign`."""
    try:
        events = unpack_event(EVENT.subject, data)
    except Foreign:
        return
    assert unpack_event(EVENT.subject, pack(events)) == events


WEBHOOK = Webhook(
    project=ProjectId("p"), name="w", url="http://x", secret="whsec_" + base64.b64encode(b"k" * 24).decode(),
    kinds=("alert",), allow_private=False, created_at_ms=Millis(0),
)  # fmt: skip


@target(EVENT.payload.encode(), words=(*JSON_WORDS, b'"step":{', b'"message":', b'"phase":', b'"why":'))
def webhooks(data: bytes) -> None:
    """Whatever an event says, what is sent of it is Alertmanager's JSON, of bounded size, and its signature holds."""
    try:
        payload = take_json(data, what="payload")
        told = _told(Event("e", ProjectId("p"), Channel.EVT, "agent", "a", "alert", payload))
    except HomeostatError:
        return
    body = alert_of(WEBHOOK, "alert", {"agent_id": "a", **told}, Millis(0), "http://x").encode()
    assert msgspec.json.decode(body)["alerts"][0]["labels"]["project"] == "p"
    assert len(body) < 64 << 10
    headers = signed(WEBHOOK.secret, "whd_1", 5, body)
    wanted = base64.b64encode(hmac.digest(b"k" * 24, b"whd_1.5." + body, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"


_ROUTER = Router(table_of())


@target(
    b"/v1/agents/a%20b/history?limit=5&cursor=12",
    b"/v1/agents?status=idle&limit=5&cursor=eyJ9",
    b"/v1/turns/turn_000000000000000000000000/deliverable?wait=1&project=p",
    b"/v1/cards/card_0?cursor=" + b"9" * 4400,
    words=(b"/v1/", b"%41", b"%ff", b"%00", b"?", b"&", b"=", b"cursor=", b"limit=", b"project=", b"wait=", b"-1"),
    bytes_max=6000,
)
def addresses(data: bytes) -> None:
    """A path, its names, its query and its cursors are understood, or refused with one of our own errors."""
    path, _, query = data.partition(b"?")
    try:
        found = _ROUTER.find("GET", path)
        _ROUTER.allowed(path)
        scope: dict[str, Any] = {"headers": [(b"traceparent", path)], "query_string": query}
        parameters = {} if found is None else found[1]
        call = Call(scope, cast("Any", None), parameters=parameters, system=_SYSTEM, patience=Patience())
        assert call.project
        names.number(call.query.get("cursor"), default=0)
        if found is not None and found[0].takes is not None:
            call.asked(found[0].takes)
        for name, word in parameters.items():
            _NAMES.get(name, str)(word)
    except HomeostatError as error:
        if error.http_status >= 500:
            raise AssertionError("a caller's fault is told as ours") from error


_SYSTEM = cast("Any", SimpleNamespace(settings=SimpleNamespace(project="p")))
_NAMES = {"turn_id": names.turn_id, "box_id": names.box_id, "card_id": names.card_id}


_ROW = {"agent_id": "a-1", "phase": "healthy", "tags": ["gpu"], "status": "running", "goal": "weekly", "cost": 2.5,
        "started_at": "2026-01-01T00:00:00Z", "at_ms": 1_750_000_000_000, "error": False, "error_at": None}  # fmt: skip


_READERS = tuple(READERS.values())


@target(
    *(
        bytes([number]) + text
        for number in range(len(_READERS))
        for text in (
            b'phase:quarantined tag:gpu cost>2 started>-1h -phase:healthy gpu goal:"weekly report"',
            b"agent:billing-* tokens>=10k closed:none at>2026-01-31T12:00:00Z",
        )
    ),
    words=(
        b":",
        b"!=",
        b">=",
        b"<",
        b"-1h",
        b"10k",
        b"*",
        b'"',
        b"none",
        b"phase",
        b"cost",
        b"started",
        b",",
        b"9" * 40,
    ),
    bytes_max=600,
)
def filters(data: bytes) -> None:
    """A filter is refused as invalid by the noun that reads it, or covers any row or does not."""
    if not data:
        return
    try:
        wanted = _READERS[data[0] % len(_READERS)].read(data[1:].decode(), now_ms=Millis(1_750_000_000_000))
    except (FilterInvalid, UnicodeDecodeError):
        return  # a query that is no text is refused before
    covered = wanted.covers(_ROW)
    assert covered in (True, False)
    assert covered or wanted, "an empty filter covers everything"
