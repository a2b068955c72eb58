"""Tells OpenTelemetry of model calls and turns, where somebody set up an SDK; otherwise it listens to nothing."""

from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from homeostat.core import telemetry as t
from homeostat.core.clock import Clock
from homeostat.core.codec import from_json
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject

SCOPE: Final = "homeostat"
NANOS: Final = 1_000_000  # in a millisecond


def sdk_present() -> bool:
    """Whether anybody would hear it."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class Tracing:
    """Makes spans and measurements out of what rooms announce anyway, so that no room knows of OpenTelemetry."""

    def __init__(
        self,
        *,
        clock: Clock,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
    ) -> None:
        self._clock = clock
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(SCOPE, meter_provider=meters)
        self._histograms = {
            one.name: meter.create_histogram(one.name, unit=one.unit, description=one.words) for one in t.METRICS
        }
        self._models: set[str] = set()

    async def listen(self, bus: Bus) -> None:
        """Ask for the events; asking is what makes them be said."""
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "vitals"), self._on_call)
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._on_turn)

    async def _on_call(self, event: Event) -> None:
        call = from_json(event.payload)
        model, provider = call.get("model") or "unknown", call.get("provider") or "unknown"
        known: dict[str, Any] = {t.OPERATION: t.CHAT, t.PROVIDER: provider, t.REQUEST_MODEL: self._bounded(model)}
        said = {
            **known,
            t.REQUEST_MODEL: model,
            t.AGENT_ID: event.target,
            t.PROJECT: event.project,
            t.RUN_ID: call.get("run_id"),
            t.INPUT_TOKENS: call.get("tokens_in"),
            t.OUTPUT_TOKENS: call.get("tokens_out"),
            t.COST_USD: call.get("cost_usd"),
        }
        took_ms = float(call.get("latency_ms") or 0.0)
        failed = bool(call.get("error"))
        self._span(f"{t.CHAT} {model}", call.get("trace_id"), said, call["at_ms"], took_ms, failed=failed)
        if failed:
            known[t.ERROR_TYPE] = "failed"
        self._histograms[t.OPERATION_DURATION.name].record(took_ms / 1000, known)
        for kind, member in (("input", "tokens_in"), ("output", "tokens_out")):
            if call.get(member):
                self._histograms[t.TOKEN_USAGE.name].record(call[member], {**known, t.TOKEN_TYPE: kind})

    async def _on_turn(self, event: Event) -> None:
        turn = from_json(event.payload)
        took_ms = float(turn.get("worked_ms") or 0.0)
        said = {
            t.OPERATION: t.INVOKE_AGENT,
            t.AGENT_ID: event.target,
            t.PROJECT: event.project,
            t.TURN_STATUS: turn.get("status"),
            t.TURN_STEPS: turn.get("steps"),
        }
        failed = turn.get("status") == "failed"
        name = f"{t.INVOKE_AGENT} {event.target}"
        self._span(name, turn.get("trace_id"), said, self._clock.now_ms(), took_ms, failed=failed)
        self._histograms[t.TURN_DURATION.name].record(took_ms / 1000, {t.TURN_STATUS: str(turn.get("status"))})

    def _span(
        self, name: str, trace_id: str | None, said: dict[str, Any], ended_ms: int, took_ms: float, *, failed: bool
    ) -> None:
        """A span after the fact, in the trace it belongs to."""
        context = None
        if trace_id:
            parent = SpanContext(int(trace_id, 16), int(trace_id[:16], 16) or 1, True, TraceFlags(TraceFlags.SAMPLED))  # noqa: FBT003 - the signature is the library's
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        attributes = {key: value for key, value in said.items() if value is not None}
        if failed:
            attributes[t.ERROR_TYPE] = "failed"
        span = self._tracer.start_span(
            name,
            context=context,
            kind=SpanKind.CLIENT if said[t.OPERATION] == t.CHAT else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=int((ended_ms - took_ms) * NANOS),
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=ended_ms * NANOS)

    def _bounded(self, model: str) -> str:
        if model not in self._models and len(self._models) >= t.MODELS_TOLD_APART_MAX:
            return t.OTHER
        self._models.add(model)
        return model
