"""Tells OpenTelemetry of runs, turns, steps and model calls, where somebody set up an SDK; else it listens to nothing.

Nobody who works waits for it: what ends is put down, and a loop of its own reads back what it was made of.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from homeostat.app.turn_parts import Part, owner, parts_of
from homeostat.core import telemetry as t
from homeostat.core.clock import Clock
from homeostat.core.codec import from_json
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import Ids, ProjectId, TurnId, digest_of
from homeostat.core.machines.run import RUN
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.recording import Worked

log = logging.getLogger(__name__)

SCOPE: Final = "homeostat"
REMEMBERED_MAX: Final = 10_000
READ_MAX: Final = 200  # turns that are read back at once
GATHER_SECONDS: Final = 0.5  # turns that end within this are read back together
HELD_SECONDS: Final = 900.0  # how long calls wait for the end of their turn, to be told under its steps
FINAL: Final = frozenset(status.value for status in RUN.final)
NANOS: Final = 1_000_000  # in a millisecond


def sdk_present() -> bool:
    """Whether anybody would hear it."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a span stands: in which trace, under which id of its own if others refer to it, and under whom."""

    trace_id: str
    span_id: int | None
    above: int | None


def root_of(trace_id: str) -> int:
    """The span of the run whose trace it is."""
    return int(trace_id[:16], 16) or 1


def span_of(turn_id: str) -> int:
    """The span of a turn, known to its parts before it has ended; two that hear of its end tell the same span."""
    return int(digest_of(turn_id)[:16], 16) or 1


@dataclass(frozen=True, slots=True)
class Call:
    """A model call that waits for the end of its turn, as only then it is known in which step it was made."""

    name: str
    span_id: int
    trace_id: str
    said: dict[str, Any]
    at_ms: int
    took_ms: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn that has ended, and has yet to be told."""

    event: Event
    turn: dict[str, Any]
    at_ms: int


Reader = Callable[[ProjectId, Collection[TurnId]], Awaitable[list[Worked]]]
"""Reads what turns left behind."""


class ChosenIds:
    """Gives the SDK the ids that were chosen for the next span, and others where none were."""

    def __init__(self, ids: Ids) -> None:
        self._place: Place | None = None
        self._ids = ids

    def choose(self, place: Place | None) -> None:
        self._place = place

    def generate_span_id(self) -> int:
        chosen = None if self._place is None else self._place.span_id
        return chosen or int(self._ids.span(), 16)

    def generate_trace_id(self) -> int:
        return int(self._ids.trace() if self._place is None else self._place.trace_id, 16)

    def is_trace_id_random(self) -> bool:
        return False


def part_span(turn_id: str, part: Part) -> int:
    """The span of a step or a tool, the same whoever tells of it."""
    return span_of(f"{turn_id} {'step' if part.step else 'tool'} {part.key}")


def _remember(known: "OrderedDict[Any, Any]", name: Any, value: Any) -> None:
    known[name] = value
    known.move_to_end(name)
    if len(known) > REMEMBERED_MAX:
        known.popitem(last=False)


class Tracing:
    """Makes spans and measurements out of what rooms announce anyway, so that no room knows of OpenTelemetry."""

    def __init__(
        self,
        *,
        clock: Clock,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
        worked: Reader | None = None,
    ) -> None:
        self._clock = clock
        self._worked = worked
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(SCOPE, meter_provider=meters)
        self._histograms = {
            one.name: meter.create_histogram(one.name, unit=one.unit, description=one.words) for one in t.METRICS
        }
        self._models: set[str] = set()
        self._chosen = ChosenIds(Ids(clock=clock))
        if hasattr(
            self._tracer, "id_generator"
        ):  # the SDK's; a span told after the fact must have the id its parts know
            self._tracer.id_generator = self._chosen  # pyright: ignore[reportAttributeAccessIssue] - the API has no word for it
        self._active: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._of_runs: OrderedDict[str, None] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()
        self._held: OrderedDict[str, list[Call]] = OrderedDict()
        self._held_count = 0
        self._ended: deque[Ended] = deque()
        self._something = asyncio.Event()

    async def listen(self, bus: Bus) -> None:
        """Ask for the events; asking is what makes them be said."""
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "vitals"), self._on_call)
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._on_turn)
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "state"), self._on_state)
        await bus.subscribe(subject("*", Channel.EVT, "run", "*", "moved"), self._on_run)

    async def _on_state(self, event: Event) -> None:
        """Remember which turn an agent works on: what it asks of models meanwhile is a part of that."""
        turn_id = from_json(event.payload).get("agent_turn_id")
        if turn_id:
            _remember(self._active, (event.project, event.target), turn_id)

    async def _on_run(self, event: Event) -> None:
        """A run is the root of its trace, and told when it has ended."""
        run = from_json(event.payload)
        trace_id = run.get("trace_id")
        if not trace_id:
            return
        _remember(self._of_runs, trace_id, None)
        if run.get("status") not in FINAL:
            return
        said = {t.OPERATION: t.RUN, t.RUN_ID: event.target, t.PROJECT: event.project, t.RUN_STATUS: run["status"]}
        ended_ms = int(run["at_ms"])
        took_ms = ended_ms - int(run["created_at_ms"])
        place = Place(trace_id, root_of(trace_id), None)
        self._span(f"{t.RUN} {event.target}", place, said, ended_ms, took_ms, failed=run["status"] != "completed")

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
        self._tell_or_hold(
            event,
            call,
            Call(
                f"{t.CHAT} {model}",
                span_of(event.event_id),
                call.get("trace_id") or "",
                said,
                int(call["at_ms"]),
                took_ms,
                failed,
            ),
        )
        if failed:
            known[t.ERROR_TYPE] = "failed"
        self._histograms[t.OPERATION_DURATION.name].record(took_ms / 1000, known)
        for kind, member in (("input", "tokens_in"), ("output", "tokens_out")):
            if call.get(member):
                self._histograms[t.TOKEN_USAGE.name].record(call[member], {**known, t.TOKEN_TYPE: kind})

    async def _on_turn(self, event: Event) -> None:
        turn = from_json(event.payload)
        took_ms = float(turn.get("worked_ms") or 0.0)
        self._histograms[t.TURN_DURATION.name].record(took_ms / 1000, {t.TURN_STATUS: str(turn.get("status"))})
        self._ended.append(Ended(event, turn, self._clock.now_ms()))
        while len(self._ended) > REMEMBERED_MAX:  # the store is slow, or away: what it would add is left out
            self._tell_turn(self._ended.popleft(), None)
        self._something.set()

    # --- what has ended, told beside the work --------------------------------------------------------------

    async def run(self) -> None:
        """Tell of turns as they end, a few together, until it is stopped; what is left then is told without steps."""
        try:
            while True:
                try:
                    async with asyncio.timeout(HELD_SECONDS / 10):
                        await self._something.wait()
                except TimeoutError:
                    self._let_go()
                    continue
                await asyncio.sleep(GATHER_SECONDS)
                await self.tell()
        finally:
            while self._ended:
                self._tell_turn(self._ended.popleft(), None)
            for turn_id in list(self._held):
                self._tell_held(turn_id, ())

    async def tell(self) -> None:
        """Tell of every turn that has ended, with what it was made of."""
        self._something.clear()
        while self._ended:
            project = self._ended[0].event.project
            some: list[Ended] = []
            while self._ended and len(some) < READ_MAX and self._ended[0].event.project == project:
                some.append(self._ended.popleft())
            left: dict[str, Worked] = {}
            try:
                left = await self._read(project, some)
            finally:
                for one in some:
                    self._tell_turn(one, left.get(one.turn.get("agent_turn_id") or ""))
        self._let_go()

    async def _read(self, project: ProjectId, some: Collection[Ended]) -> dict[str, Worked]:
        ids = [TurnId(turn_id) for one in some if (turn_id := one.turn.get("agent_turn_id"))]
        if self._worked is None or not ids:
            return {}
        try:
            return {str(one.turn.turn_id): one for one in await self._worked(project, ids)}
        except HomeostatError as problem:
            log.warning("the steps of %d turns are not told: %s", len(ids), problem.message)
            return {}

    def _tell_turn(self, one: Ended, worked: Worked | None) -> None:
        event, turn = one.event, one.turn
        took_ms = float(turn.get("worked_ms") or 0.0)
        began_ms = one.at_ms - int(took_ms)
        parts = [] if worked is None else parts_of(worked, began_ms)
        turn_id, trace_id = str(turn.get("agent_turn_id") or ""), str(turn.get("trace_id") or "")
        known = {t.AGENT_ID: event.target, t.PROJECT: event.project}
        said = {
            t.OPERATION: t.INVOKE_AGENT,
            **known,
            t.TURN_STATUS: turn.get("status"),
            t.TURN_STEPS: turn.get("steps"),
        }
        failed = turn.get("status") == "failed"
        # A turn that waited was begun before the time that was worked on it.
        took_ms = max([took_ms, *(float(one.at_ms - part.began_ms) for part in parts)])
        name = f"{t.INVOKE_AGENT} {event.target}"
        self._span(name, self._place_of_turn(turn), said, one.at_ms, took_ms, failed=failed)
        for part in parts if trace_id else ():
            kind = {t.OPERATION: t.EXECUTE_TOOL, t.TOOL_NAME: part.name} if part.tool else {t.STEP_NAME: part.name}
            name = f"{t.EXECUTE_TOOL if part.tool else t.STEP} {part.name}"
            place = Place(trace_id, part_span(turn_id, part), span_of(turn_id))
            took_ms = float(part.ended_ms - part.began_ms)
            self._span(name, place, {**kind, **known}, part.ended_ms, took_ms, failed=part.failed)
        _remember(self._over, turn_id, None)
        self._tell_held(turn_id, parts)

    # --- calls wait for their turn -------------------------------------------------------------------------

    def _tell_or_hold(self, event: Event, told: dict[str, Any], call: Call) -> None:
        turn_id = self._active.get((event.project, event.target))
        if turn_id is None or turn_id in self._over or not call.trace_id or self._held_count >= REMEMBERED_MAX:
            self._tell_call(call, self._place_of_call(event, told))
            return
        self._held.setdefault(turn_id, []).append(call)
        self._held_count += 1

    def _tell_held(self, turn_id: str, parts: Collection[Part]) -> None:
        for call in self._held.pop(turn_id, ()):
            self._held_count -= 1
            part = owner(parts, call.at_ms)
            above = span_of(turn_id) if part is None else part_span(turn_id, part)
            self._tell_call(call, Place(call.trace_id, None, above))

    def _let_go(self) -> None:
        """Tell of calls whose turn goes on and on: under it, as in which of its steps is not known yet."""
        limit = self._clock.now_ms() - HELD_SECONDS * 1000
        while self._held and next(iter(self._held.values()))[0].at_ms < limit:
            self._tell_held(next(iter(self._held)), ())

    def _tell_call(self, call: Call, place: "Place | None") -> None:
        placed = None if place is None else Place(place.trace_id, call.span_id, place.above)
        self._span(call.name, placed, call.said, call.at_ms, call.took_ms, failed=call.failed)

    # --- where things stand --------------------------------------------------------------------------------

    def _place_of_turn(self, turn: dict[str, Any]) -> "Place | None":
        """Under the turn that asked for it, else under its run, else at the root of its trace."""
        trace_id, turn_id = turn.get("trace_id"), turn.get("agent_turn_id")
        if not trace_id or not turn_id:
            return None if not trace_id else Place(trace_id, None, root_of(trace_id))
        asked_by = turn.get("parent_turn_id")
        above = span_of(asked_by) if asked_by else root_of(trace_id) if trace_id in self._of_runs else None
        return Place(trace_id, span_of(turn_id), above)

    def _place_of_call(self, event: Event, call: dict[str, Any]) -> "Place | None":
        trace_id = call.get("trace_id")
        if not trace_id:
            return None
        turn_id = self._active.get((event.project, event.target))
        return Place(trace_id, None, root_of(trace_id) if turn_id is None else span_of(turn_id))

    def _span(
        self, name: str, place: "Place | None", said: dict[str, Any], ended_ms: int, took_ms: float, *, failed: bool
    ) -> None:
        """A span after the fact, in the trace it belongs to and under what it is a part of."""
        context = None
        if place is not None and place.above is not None:
            parent = SpanContext(int(place.trace_id, 16), place.above, True, TraceFlags(TraceFlags.SAMPLED))  # noqa: FBT003 - the signature is the library's
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        self._chosen.choose(place)
        attributes = {key: value for key, value in said.items() if value is not None}
        if failed:
            attributes[t.ERROR_TYPE] = "failed"
        span = self._tracer.start_span(
            name,
            context=context,
            kind=SpanKind.CLIENT if said.get(t.OPERATION) == t.CHAT else SpanKind.INTERNAL,
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
