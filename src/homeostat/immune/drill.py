"""Fire drills: a harmless fault down the real path. Marked vitals are noticed, the agent is held, let out and watched.

Nothing is treated in a drill and nothing is learned from it: what was normal before is normal after, a quarantine in a
drill does not count towards the next, and whatever happens meanwhile, the agent is let out, unless it is an operator
who isolates it.
"""

import asyncio
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import TraceId
from homeostat.core.limits import DRILL_SECONDS_MAX
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.call import ToolUse
from homeostat.core.records.immune import IMMUNE_ACTOR, Diagnosis
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Hearsay, Vitals
from homeostat.immune.behaviour import Habits
from homeostat.immune.errors import DrillRefused
from homeostat.immune.healer import FIRE_DRILL
from homeostat.immune.intake import CALL, DRILL
from homeostat.immune.ward import ISOLATED, Move
from homeostat.immune.watch import Watch

if TYPE_CHECKING:
    from homeostat.immune.immune import Immune

FACTOR: Final = 40.0
WAVES: Final = (
    0.98,
    1.01,
    0.99,
    1.02,
    1.0,
)  # no sample is exactly like the one before: that would be a fault of its own
LEAST: Final = {"latency_ms": 200.0, "tokens_in": 50.0, "tokens_out": 20.0, "cost_usd": 0.0001}

FAULTS: Final[dict[Diagnosis, str]] = {
    Diagnosis.PROMPT_DRIFT: "answers grow forty times as long",
    Diagnosis.PROMPT_INJECTION: "a tool's output gives orders, and an unknown tool is called",
    Diagnosis.INFINITE_LOOP: "the same tool is called with the same arguments over and over",
    Diagnosis.TOOL_INSTABILITY: "calls fail and are tried again",
    Diagnosis.MEMORY_CORRUPTION: "prompts grow forty times as long",
    Diagnosis.COST_OVERRUN: "calls cost forty times as much",
    Diagnosis.EXTERNAL_CAUSE: "answers take forty times as long",
}
"""What each drill pretends. A diagnosis without a sign of its own cannot be rehearsed."""
TAKEN: Final = "somebody else isolated it meanwhile, and it stays so"


@dataclass(slots=True)
class Drill:
    """One drill and what was measured, in seconds since its beginning; None is what did not happen in time."""

    agent: AgentKey
    kind: Diagnosis
    detected_after: float | None = None
    contained_after: float | None = None
    recovered_after: float | None = None
    first_hypothesis: str | None = None
    incident_id: str | None = None
    sigma: float = 0.0
    samples: int = 0
    released: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a drill gives back."""

    rows: dict[int, bytes]
    habits: Habits


class Drills:
    """Holds drills, one at a time for an agent, in the process that decides."""

    def __init__(self, immune: "Immune") -> None:
        self._immune = immune
        self._usual: dict[AgentKey, dict[str, float]] = {}

    async def end_abandoned(self) -> None:
        """Let out whom a drill held when its process ended. One that is being drained is let out when that is over."""
        for watch in list(self._immune.ward.isolated):
            if held_by_drill(watch) and not watch.drill and watch.phase is Phase.QUARANTINED:
                cause = "its drill ended with the process that held it"
                await self._immune.healer.let_out(watch, cause=cause, actor=IMMUNE_ACTOR)

    async def check(self, key: AgentKey, kind: Diagnosis) -> Watch:
        """Whether a drill can be held: for an agent that is known, well, and whose normal is learned."""
        watch = await self._immune.watch_of(key)
        if kind not in FAULTS:
            raise DrillRefused(agent_id=key[1], problem=f"{kind} has no sign of its own; try {', '.join(FAULTS)}")
        if not self._immune.leading:
            raise DrillRefused(agent_id=key[1], problem="another process decides about health; ask that one")
        if watch.drill:
            raise DrillRefused(agent_id=key[1], problem="a drill is under way")
        if watch.phase is not Phase.HEALTHY:
            raise DrillRefused(agent_id=key[1], problem=f"it is {watch.phase}, and only healthy agents are drilled")
        if CALL not in watch.rows:
            raise DrillRefused(agent_id=key[1], problem="nothing is known yet of its model calls")
        return watch

    async def hold(self, key: AgentKey, kind: Diagnosis, *, actor: str, seconds: float) -> Drill:
        """Hold a drill to its end, which comes in time whatever happens."""
        drill = Drill(key, kind)
        async with self._immune.deciding:
            watch = await self.check(key, kind)
            row = watch.rows[CALL]
            self._usual[key] = {normal.name: normal.mean for normal in self._immune.baselines.normals(row)}
            before = _Before(
                {one: self._immune.baselines.export(one) for one in watch.rows.values()}, copy.deepcopy(watch.habits)
            )
            watch.drill = True
        began = self._immune.clock.monotonic()
        try:
            await self._fall_ill(watch, drill, began, min(seconds, DRILL_SECONDS_MAX))
        finally:
            # A caller who leaves does not keep an agent held.
            await asyncio.shield(self._end(watch, drill, before, began, actor))
        return drill

    async def _fall_ill(self, watch: Watch, drill: Drill, began: float, seconds: float) -> None:
        while self._immune.clock.monotonic() - began < seconds:
            for _ in range(self._immune.doctrine.suspect_ticks):
                self._send(drill, sick=True)
            await asyncio.sleep(self._immune.doctrine.tick_seconds)
            elapsed = self._immune.clock.monotonic() - began
            if watch.phase is not Phase.HEALTHY and drill.detected_after is None:
                drill.detected_after = elapsed
            if watch.phase in ISOLATED and not held_by_drill(watch):
                drill.problem = TAKEN
                return
            drill.sigma = max(drill.sigma, watch.sigma, watch.patient.sigma)
            if watch.phase is Phase.QUARANTINED:
                drill.contained_after = elapsed
                if (incident := watch.incident) is not None:
                    drill.incident_id = incident.incident_id
                    drill.first_hypothesis = incident.hypotheses[0].diagnosis.value if incident.hypotheses else None
                return
        drill.problem = f"it was not isolated within {seconds:g} s"

    async def _end(self, watch: Watch, drill: Drill, before: _Before, began: float, actor: str) -> None:
        """Let the agent out, show that it is well, and give back what was normal."""
        cause = f"the drill ({drill.kind}) is over"
        try:
            for _ in range(self._ticks_max()):
                async with self._immune.deciding:
                    self._restore(watch, before)  # probation is judged by what is normal, not by the drill
                    if await self._let_out(watch, cause, actor):
                        break
                await asyncio.sleep(self._immune.doctrine.tick_seconds)
            for _ in range(self._ticks_max()):
                if watch.phase is Phase.HEALTHY:
                    drill.recovered_after = self._immune.clock.monotonic() - began
                    break
                if watch.phase in ISOLATED:
                    drill.problem = TAKEN
                    break
                self._send(drill, sick=False)
                await asyncio.sleep(self._immune.doctrine.tick_seconds)
        finally:
            async with self._immune.deciding:
                self._restore(watch, before)
                watch.calm()
                watch.drill = False
                watch.dirty = True
                self._usual.pop(watch.key, None)
        drill.released = watch.phase in (Phase.HEALTHY, Phase.PROBATION)

    def _restore(self, watch: Watch, before: _Before) -> None:
        self._immune.intake.withdraw(watch.key, DRILL)
        for row, state in before.rows.items():
            self._immune.baselines.restore(row, state)
        watch.habits = copy.deepcopy(before.habits)

    async def _let_out(self, watch: Watch, cause: str, actor: str) -> bool:
        """Whether the agent is on its way out, or not the drill's to let out; one that is being drained is not, yet."""
        if watch.phase in ISOLATED and not held_by_drill(watch):
            return True
        if watch.phase is Phase.QUARANTINED:
            return await self._immune.healer.let_out(watch, cause=cause, actor=actor)
        if watch.phase is Phase.SUSPECTED:
            watch.calm()
            return await self._immune.ward.move(Move(watch=watch, event=PhaseEvent.CLEAR, cause=cause, actor=actor))
        if watch.phase is Phase.HEALTHY:
            watch.calm()
        return watch.phase in (Phase.HEALTHY, Phase.PROBATION)

    def _ticks_max(self) -> int:
        return (
            int(self._immune.doctrine.drain_seconds / self._immune.doctrine.tick_seconds)
            + 3 * self._immune.doctrine.probation_ticks
        )

    def _send(self, drill: Drill, *, sick: bool) -> None:
        drill.samples += 1
        usual = self._usual[drill.agent]
        wave = WAVES[drill.samples % len(WAVES)]
        value = {name: max(usual.get(name, 0.0), least) * wave for name, least in LEAST.items()}
        sample = Vitals(
            sample_id=f"drl_{self._immune.ids.scope()}",
            project=drill.agent[0],
            agent_id=drill.agent[1],
            at_ms=Millis(self._immune.clock.now_ms()),
            source=DRILL,
            latency_ms=value["latency_ms"],
            tokens_in=int(value["tokens_in"]),
            tokens_out=int(value["tokens_out"]),
            cost_usd=value["cost_usd"],
            trace_id=TraceId(f"drill-{drill.agent[1]}"),
        )
        self._immune.intake.take(_sick(sample, drill.kind, drill.samples) if sick else replace(sample, trace_id=None))


def held_by_drill(watch: Watch) -> bool:
    """Whether it is a drill that an agent is isolated for: an operator may have isolated or killed it meanwhile."""
    return watch.phase in ISOLATED and watch.incident is not None and watch.incident.cohort == FIRE_DRILL


def _sick(sample: Vitals, kind: Diagnosis, number: int) -> Vitals:
    """A sample as the fault would have it."""
    latency, cost = (sample.latency_ms or 0) * FACTOR, (sample.cost_usd or 0) * FACTOR
    tokens_in, tokens_out = int((sample.tokens_in or 0) * FACTOR), int((sample.tokens_out or 0) * FACTOR)
    match kind:
        case Diagnosis.PROMPT_DRIFT:
            return replace(sample, tokens_out=tokens_out, latency_ms=latency, cost_usd=cost)
        case Diagnosis.PROMPT_INJECTION:
            told = Hearsay(orders=8.0, cues=("override",), borrowed=True)
            return replace(sample, hearsay=told, tools=(ToolUse("drill", str(number)),))
        case Diagnosis.INFINITE_LOOP:
            return replace(sample, tools=(ToolUse("drill", "same"),) * 6)
        case Diagnosis.TOOL_INSTABILITY:
            return replace(sample, error=True, retries=5)
        case Diagnosis.MEMORY_CORRUPTION:
            return replace(sample, tokens_in=tokens_in, cost_usd=cost)
        case Diagnosis.COST_OVERRUN:
            return replace(sample, cost_usd=cost)
        case _:
            return replace(sample, latency_ms=latency)
