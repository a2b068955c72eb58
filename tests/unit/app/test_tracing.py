"""What OpenTelemetry hears: the names of one table, the trace of the caller, and no label without a bound."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.tracing import Tracing, sdk_present
from homeostat.core import telemetry as t
from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.ids import ProjectId
from homeostat.core.records.event import Channel, Event
from homeostat.testing.clock import ManualClock

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def call(number: int, model: str = "gpt-5", *, error: bool = False) -> Event:
    body = {
        "at_ms": Millis(5_000),
        "latency_ms": 900.0,
        "tokens_in": 400,
        "tokens_out": 30,
        "cost_usd": 0.002,
        "model": model,
        "provider": "openai",
        "error": error,
        "trace_id": TRACE,
        "run_id": None,
    }
    return Event(f"call_{number}", ProjectId("default"), Channel.EVT, "agent", "ann", "vitals", to_json(body))


async def test_calls_and_turns_are_told_by_the_conventions() -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(clock=ManualClock(), tracers=tracers, meters=meters)
    bus = LocalBus()
    await tracing.listen(bus)
    assert bus.wanted("vitals"), "asking is what makes them be said"
    turn = to_json({"status": "failed", "worked_ms": 1_500, "steps": 3, "losses": 0, "trace_id": TRACE})
    ended = Event("turn_1", ProjectId("default"), Channel.EVT, "agent", "ann", "task", turn)
    many = [call(number, f"model-{number}") for number in range(2, t.MODELS_TOLD_APART_MAX + 20)]
    await bus.publish((call(1, error=True), *many, ended))
    await bus.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    chat, invoked = spans["chat gpt-5"], spans["invoke_agent ann"]
    for span in (chat, invoked):
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert span.status.status_code is StatusCode.ERROR
        assert set(span.attributes or ()) <= set(t.ATTRIBUTES)
    assert (chat.attributes or {})[t.INPUT_TOKENS] == 400
    assert (chat.start_time, chat.end_time) == (4_100_000_000, 5_000_000_000)
    data = reader.get_metrics_data()
    assert data is not None
    found = {one.name: one for scope in data.resource_metrics[0].scope_metrics for one in scope.metrics}
    assert set(found) == {one.name for one in t.METRICS}
    points = found[t.OPERATION_DURATION.name].data.data_points
    models = {str((point.attributes or {})[t.REQUEST_MODEL]) for point in points}
    assert len(models) == t.MODELS_TOLD_APART_MAX + 1
    assert t.OTHER in models
    for one in found.values():
        assert not any(t.AGENT_ID in (point.attributes or {}) for point in one.data.data_points)


def placed(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def said(kind: str, target: str, suffix: str, **body: object) -> Event:
    return Event(f"{target}-{suffix}", ProjectId("default"), Channel.EVT, kind, target, suffix, to_json(body))


async def test_a_run_its_turns_and_their_calls_are_one_tree() -> None:
    """Told one after the other when each has ended, they still know whose part they are."""
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    bus = LocalBus()
    await Tracing(clock=ManualClock(), tracers=tracers).listen(bus)
    moved = {"trace_id": TRACE, "created_at_ms": 1_000, "at_ms": 9_000}
    ended = {"status": "success", "worked_ms": 1_500, "steps": 3, "losses": 0, "trace_id": TRACE}
    other = {**ended, "trace_id": "0af7651916cd43dd8448eb211c80319c"}
    await bus.publish(
        (
            said("run", "run_1", "moved", status="applying", **moved),
            said("agent", "ann", "state", agent_turn_id="turn_a", status="running"),
            call(1),
            said("agent", "bob", "task", agent_turn_id="turn_b", parent_turn_id="turn_a", **ended),
            said("agent", "ann", "state", agent_turn_id=None, status="idle"),
            said("agent", "ann", "task", agent_turn_id="turn_a", **ended),
            said("run", "run_1", "moved", status="completed", **moved),
            said("agent", "eve", "task", agent_turn_id="turn_e", **other),
        )
    )
    await bus.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    run, ann, bob = spans["invoke_workflow run_1"], spans["invoke_agent ann"], spans["invoke_agent bob"]
    above = {name: None if span.parent is None else f"{span.parent.span_id:016x}" for name, span in spans.items()}
    own = {name: f"{placed(span).span_id:016x}" for name, span in spans.items()}
    assert above == {
        "invoke_workflow run_1": None,
        "invoke_agent ann": own["invoke_workflow run_1"],
        "invoke_agent bob": own["invoke_agent ann"],
        "chat gpt-5": own["invoke_agent ann"],
        "invoke_agent eve": None,
    }
    assert len(set(own.values())) == len(own)
    for span in (run, ann, bob, spans["chat gpt-5"]):
        assert f"{placed(span).trace_id:032x}" == TRACE
    assert f"{placed(spans['invoke_agent eve']).trace_id:032x}" == other["trace_id"]
    assert (run.start_time, run.end_time) == (1_000_000_000, 9_000_000_000)
    assert (run.attributes or {})[t.RUN_STATUS] == "completed"


def test_without_an_sdk_nobody_listens() -> None:
    assert not sdk_present()
