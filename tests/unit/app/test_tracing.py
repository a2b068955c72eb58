"""What OpenTelemetry hears: the names of one table, the trace of the caller, and no label without a bound."""

import asyncio
from typing import Any, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app import assemble as assembling
from homeostat.app.settings import Settings
from homeostat.app.tracing import Tracing, sdk_present
from homeostat.app.turn_parts import parts_of
from homeostat.core import telemetry as t
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, ToolCallId, TurnId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.recording import RECORDING, Worked
from homeostat.core.records.turn import AfterExecution, Grant, MessageType, Step, Turn, Wait, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Enqueue
from homeostat.testing.clock import ManualClock
from homeostat.testing.crews import crew

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
    await tracing.tell()
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
    tracing = Tracing(clock=ManualClock(), tracers=tracers)
    await tracing.listen(bus)
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
    await tracing.tell()
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


async def test_the_steps_of_a_turn_are_told_with_the_calls_that_were_made_in_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read back from a real store when the turn has ended: steps, the tool it waited for, and whose call was whose."""
    exporter, tracers, clock = InMemorySpanExporter(), TracerProvider(), ManualClock()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    made: list[Tracing] = []

    def told_here(**given: Any) -> Tracing:
        made.append(Tracing(tracers=tracers, **given))
        return made[-1]

    monkeypatch.setattr(assembling, "sdk_present", lambda: True)
    monkeypatch.setattr(assembling, "Tracing", told_here)
    async with assembling.assemble(Settings(ephemeral=True), clock=clock) as system:
        began, ended = clock.now_ms(), asyncio.Event()

        async def heard(_: Event) -> None:
            ended.set()

        await system.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), heard)

        async def work(grant: Grant) -> tuple[Outcome, Json]:
            fence = fence_of(grant)
            for name, model, outcome in (("look up", "gpt-5", '{"ok":1}'), ("answer", "gpt-6", '{"error":{}}')):
                clock.advance(2)
                at = {"at_ms": clock.now_ms(), "trace_id": grant.turn.trace_id, "latency_ms": 500}
                await system.bus.publish((said("agent", "ann", "vitals", model=model, **at),))
                clock.advance(1)
                await system.kernel.step(fence, name, Json(outcome))
            clock.advance(1)
            at = {"at_ms": clock.now_ms(), "trace_id": grant.turn.trace_id, "latency_ms": 500}
            await system.bus.publish((said("agent", "ann", "vitals", model="gpt-7", **at),))
            return Outcome.SUCCESS, Json("1")

        async with crew(system.kernel, "ann", work=work):
            await system.kernel.ask(
                Enqueue(key=(DEFAULT_PROJECT, AgentId("ann")), type=MessageType.TURN, payload=Json("1")), 30
            )
            await ended.wait()
            await made[0].tell()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    own = {f"{placed(span).span_id:016x}": name for name, span in spans.items()}
    above = {name: None if span.parent is None else own[f"{span.parent.span_id:016x}"] for name, span in spans.items()}
    assert above == {
        "invoke_agent ann": None,
        "step look up": "invoke_agent ann",
        "step answer": "invoke_agent ann",
        "chat gpt-5": "step look up",
        "chat gpt-6": "step answer",
        "chat gpt-7": "invoke_agent ann",
    }
    assert len({placed(span).trace_id for span in spans.values()}) == 1
    second = 1_000_000_000
    look_up, answer = spans["step look up"], spans["step answer"]
    assert (look_up.end_time, answer.start_time, answer.end_time) == (
        began * 1_000_000 + 3 * second,
        began * 1_000_000 + 3 * second,
        began * 1_000_000 + 6 * second,
    )
    assert (look_up.status.status_code, answer.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert (answer.attributes or {})[t.STEP_NAME] == "answer"
    told = {name.split(" ")[0] for name in spans}
    assert told <= {name.split(" ")[0] for name in t.SPANS}
    for span in spans.values():
        assert set(span.attributes or ()) <= set(t.ATTRIBUTES)


def test_a_tool_that_was_waited_for_ends_before_the_step_after_it_begins() -> None:
    project, agent, turn_id = ProjectId("default"), AgentId("ann"), TurnId("turn_1")
    turn = cast(Turn, None)
    wait = Wait(
        turn_id, ToolCallId("call_1"), project, agent, "search", WaitStatus.TIMEOUT, AfterExecution.SUSPEND, None,
        None, None, Millis(2_000), Millis(9_000), Millis(5_000),
    )  # fmt: skip
    steps = tuple(
        Step(project, turn_id, name, Json('{"ok":1}'), Millis(at))
        for name, at in (("a", 1_500), ("b", 6_000), (RECORDING, 6_000))
    )
    found = parts_of(Worked(turn, steps, (wait,), ()), 1_000)
    assert [(one.name, one.began_ms, one.ended_ms, one.failed) for one in found] == [
        ("a", 1_000, 1_500, False),
        ("search", 2_000, 5_000, True),
        ("b", 5_000, 6_000, False),
    ]


async def test_a_store_that_is_away_costs_the_steps_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    async def away(*_: object) -> list[Worked]:
        raise StoreUnavailable(problem="it is away")

    bus = LocalBus()
    tracing = Tracing(clock=ManualClock(), tracers=tracers, worked=away)
    await tracing.listen(bus)
    ended = {"status": "success", "worked_ms": 1_500, "steps": 3, "losses": 0, "trace_id": TRACE}
    await bus.publish(
        (
            said("agent", "ann", "state", agent_turn_id="turn_a", status="running"),
            call(1),
            said("agent", "ann", "task", agent_turn_id="turn_a", **ended),
        )
    )
    await tracing.tell()
    await bus.publish((call(2, "late"),))
    assert [span.name for span in exporter.get_finished_spans()] == ["invoke_agent ann", "chat gpt-5", "chat late"]
    assert "not told" in caplog.text
