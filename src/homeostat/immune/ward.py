"""Every agent under watch, and the one way in which its phase changes: by the table, stored first, then told."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from homeostat.core.clock import Clock
from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import BusUnavailable, MalformedPayload
from homeostat.core.ids import AgentId, Ids, ProjectId, scope_of
from homeostat.core.machines.phase import PHASE, Phase, PhaseEvent
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.enforcement import Hold
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.immune import (
    IMMUNE_ACTOR,
    NEVER,
    Approval,
    Chart,
    Incident,
    IncidentId,
    Patient,
    Transition,
)
from homeostat.core.records.turn import AgentKey
from homeostat.immune.counts import Counts
from homeostat.immune.watch import Watch

log = logging.getLogger(__name__)

MOVES_PER_SAVE_MAX: Final = 256
HEALTH: Final = "health"
APPROVAL: Final = "approval"
MEMORY: Final = "memory"

UNSETTLED: Final = frozenset({Phase.DRAINING, Phase.QUARANTINED, Phase.HEALING, Phase.PROBATION, Phase.EXHAUSTED})
"""Phases in which something is still to be done about an agent, or was given up."""

ISOLATED: Final = frozenset({Phase.DRAINING, Phase.QUARANTINED, Phase.HEALING, Phase.EXHAUSTED})


@dataclass(frozen=True, slots=True)
class Member:
    """What the fleet knows of an agent that may be compared with others."""

    agent_type: str
    tags: tuple[str, ...]
    hostname: str | None = None


Roster = Callable[[AgentKey], Member | None]


class Holding(Protocol):
    """Whoever brings about what a phase wants."""

    async def foresee(self, patient: Patient) -> tuple[Hold, ...]:
        """What is wanted of every strategy once an agent is so, as far as that can be told before."""
        ...

    def decided(self, holds: Sequence[Hold]) -> None:
        """What was foreseen is stored."""
        ...

    def lose_sight(self, key: AgentKey) -> None:
        """An agent was moved, and it is not known here what came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A step that is to be taken."""

    watch: Watch
    event: PhaseEvent
    cause: str
    actor: str = IMMUNE_ACTOR
    incident: Incident | None = None
    changes: dict[str, Any] = field(default_factory=dict[str, Any])
    chart: Chart = field(default_factory=Chart)


class Ward:
    """Patients by agent. What is here is what the store has, or `stale`."""

    def __init__(self, *, store: ImmuneStore, bus: Bus, clock: Clock, ids: Ids, counts: Counts) -> None:
        self.store = store
        self._bus = bus
        self._clock = clock
        self._ids = ids
        self.counts = counts
        self.watches: dict[AgentKey, Watch] = {}
        self.unsettled: set[AgentKey] = set()
        self.told: Callable[[Watch, Transition], None] = lambda _watch, _step: None
        self.holding: Holding = Unheld()

    async def open(self) -> None:
        """Read everything, then hear of what other processes change."""
        for patient in await self.store.patients():
            self._adopt(patient, await self._incident_of(patient))
        await self._bus.subscribe(subject("*", Channel.EVT, "agent", "*", HEALTH), self._on_health)

    async def catch_up(self, doubtful: Collection[AgentKey] = ()) -> None:
        """Take those as the store has them whom another process moved: word of it may be late, or lost with the bus."""
        stored = await self.store.unsettled()
        for key in stored.keys() | self.unsettled | set(doubtful):
            watch, version = self.watches.get(key), stored.get(key)
            if watch is None or watch.stale or key in doubtful or version is None or watch.patient.version < version:
                await self.reload(key)

    def phase(self, key: AgentKey) -> Phase:
        watch = self.watches.get(key)
        return watch.phase if watch is not None else Phase.INITIALIZING

    @property
    def isolated(self) -> list[Watch]:
        return [self.watches[key] for key in self.unsettled if self.watches[key].phase in ISOLATED]

    def drop(self, key: AgentKey) -> None:
        """Watch an agent no more."""
        self.watches.pop(key, None)
        self.unsettled.discard(key)

    async def admit(self, keys: Sequence[AgentKey]) -> None:
        """Begin to watch agents that were never seen before."""
        new = [key for key in dict.fromkeys(keys) if key not in self.watches]
        now = self._clock.now_ms()
        for start in range(0, len(new), MOVES_PER_SAVE_MAX):
            patients = [
                Patient(project=project, agent_id=agent_id, version=1, phase=PHASE.initial, since_ms=now)
                for project, agent_id in new[start : start + MOVES_PER_SAVE_MAX]
            ]
            if await self.store.save(Chart(patients=tuple(patients))):
                self.watches.update({patient.key: Watch(patient) for patient in patients})
                continue
            for patient in patients:
                await self.store.save(Chart(patients=(patient,)))
                await self.reload(patient.key)

    def newcomer(self, key: AgentKey) -> Watch:
        """An agent that was never seen before: it is watched, and stored, from its first step on."""
        project, agent_id = key
        now = self._clock.now_ms()
        return Watch(Patient(project=project, agent_id=agent_id, version=0, phase=PHASE.initial, since_ms=now))

    async def reload(self, key: AgentKey) -> Watch | None:
        """Take an agent as the store has it. One that was moved while it was read is read again: it would go back."""
        while True:
            known = self._known(key)
            patient = await self.store.patient(key)
            incident = None if patient is None else await self._incident_of(patient)
            if known is self._known(key):
                break
        if patient is not None:
            return self._adopt(patient, incident)
        self.drop(key)
        return None

    def _known(self, key: AgentKey) -> Patient | None:
        watch = self.watches.get(key)
        return None if watch is None else watch.patient

    async def _incident_of(self, patient: Patient) -> Incident | None:
        if patient.incident_id is None:
            return None
        return await self.store.incident(patient.project, patient.incident_id)

    def _adopt(self, patient: Patient, incident: Incident | None) -> Watch:
        """Take both at once: who is held for an incident is never seen without it."""
        watch = self.watches.get(patient.key)
        if patient.version != watch.patient.version if watch is not None else patient.phase in UNSETTLED:
            self.holding.lose_sight(patient.key)
        if watch is None:
            watch = self.watches[patient.key] = Watch(patient)
        elif watch.phase is not patient.phase:
            watch.calm()
            watch.unlearn = patient.phase is PHASE.initial
        watch.patient = patient
        watch.stale = False
        watch.incident = incident
        self._sort(watch)
        return watch

    def _sort(self, watch: Watch) -> None:
        if watch.phase in UNSETTLED:
            self.unsettled.add(watch.key)
            watch.wanted_at = None  # whoever isolated it
        else:
            self.unsettled.discard(watch.key)

    # --- moving --------------------------------------------------------------------------------------------

    async def move(self, move: Move) -> bool:
        """Take one step; False where somebody else has taken another one meanwhile."""
        return await self._take([move])

    async def move_through(self, moves: Sequence[Move]) -> bool:
        """Take the steps of one agent as one: nobody sees it on the way."""
        return await self._take(moves)

    async def move_all(self, moves: Sequence[Move]) -> None:
        """Take many steps, few commits. A lost race costs the agents of its commit this tick, and nothing else."""
        for start in range(0, len(moves), MOVES_PER_SAVE_MAX):
            batch = moves[start : start + MOVES_PER_SAVE_MAX]
            phases = [move.watch.phase for move in batch]
            if not await self._take(batch) and len(batch) > 1:
                for move, phase in zip(batch, phases, strict=True):
                    if move.watch.phase is phase:
                        await self._take([move])

    async def _take(self, moves: Sequence[Move]) -> bool:
        now = self._clock.now_ms()
        patients: dict[AgentKey, Patient] = {}
        steps: list[Transition] = []
        for move in moves:
            before = patients.get(move.watch.key, move.watch.patient)
            target = PHASE.next(before.phase, move.event)
            incident_id = before.incident_id if move.incident is None else move.incident.incident_id
            changes: dict[str, Any] = {
                "incident_id": incident_id,
                "cause": move.cause,
                "actor": move.actor,
                **move.changes,
            }
            if target is Phase.HEALING:
                changes["treated_until_ms"] = NEVER  # nobody treats it yet
            version = move.watch.patient.version + 1
            steps.append(step := self._step(move, before, target, incident_id))
            changes["last_step"] = step.transition_id
            patients[move.watch.key] = replace(before, version=version, phase=target, since_ms=now, **changes)
        holds = [hold for patient in patients.values() for hold in await self.holding.foresee(patient)]
        chart = Chart(
            patients=tuple(patients.values()),
            transitions=tuple(steps),
            incidents=tuple(one for move in moves for one in (move.incident, *move.chart.incidents) if one is not None),
            asked=tuple(one for move in moves for one in move.chart.asked),
            answered=tuple(one for move in moves for one in move.chart.answered),
            lessons=tuple(one for move in moves for one in move.chart.lessons),
            holds=tuple(holds),
        )
        if not await self.store.save(chart):
            for key in patients:
                await self.reload(key)
            return False
        self.holding.decided(holds)
        for move, step in zip(moves, steps, strict=True):
            move.watch.patient = patient = patients[move.watch.key]
            self.watches[move.watch.key] = move.watch
            if move.incident is not None:
                move.watch.incident = move.incident
            if patient.incident_id is None:
                move.watch.incident = None
            self._sort(move.watch)
            self.counts.steps[step.event, step.target] += 1
            self.told(move.watch, step)
        await self._tell(patients, steps)
        await self._tell_questions(chart)
        return True

    async def note(self, chart: Chart) -> bool:
        """Store questions or answers that move nobody, then tell of them; False where somebody was first."""
        if not await self.store.save(chart):
            return False
        await self._tell_questions(chart)
        return True

    def _step(self, move: Move, before: Patient, target: Phase, incident_id: IncidentId | None) -> Transition:
        after = scope_of(before.last_step) if before.last_step else ""
        return Transition(
            transition_id=f"trn_{self._ids.scope_after(after)}",
            project=before.project,
            agent_id=before.agent_id,
            at_ms=self._clock.now_ms(),
            source=before.phase,
            event=move.event,
            target=target,
            cause=move.cause,
            actor=move.actor,
            incident_id=incident_id,
            evidence=tuple(one.why for one in list(move.watch.evidence)[-4:]),
        )

    # --- telling -------------------------------------------------------------------------------------------

    async def _tell(self, patients: Mapping[AgentKey, Patient], steps: Sequence[Transition]) -> None:
        events = [
            Event(
                step.transition_id,
                step.project,
                Channel.EVT,
                "agent",
                step.agent_id,
                HEALTH,
                to_json({"version": patients[step.project, step.agent_id].version, "phase": step.target, "step": step}),
            )
            for step in steps
        ]
        await self.publish(*events)

    async def _tell_questions(self, chart: Chart) -> None:
        if questions := (*chart.asked, *chart.answered):
            await self.publish(*map(_asked_or_answered, questions))

    async def tell_of_memory(self, project: ProjectId, said: Mapping[str, object]) -> None:
        """Word of what an operator forbade, allowed or taught, for whoever decides and whoever looks."""
        event_id = f"mem_{self._ids.scope()}"
        await self.publish(Event(event_id, project, Channel.EVT, "immune", MEMORY, MEMORY, to_json(dict(said))))

    async def publish(self, *events: Event) -> None:
        try:
            await self._bus.publish(events)
        except BusUnavailable as error:
            log.warning("others will find a change of health by asking: %s", error)

    async def _on_health(self, event: Event) -> None:
        try:
            version = int(from_json(event.payload)["version"])
        except (MalformedPayload, KeyError, TypeError, ValueError):
            return
        key = (event.project, AgentId(event.target))
        watch = self.watches.get(key)
        if watch is None:
            await self.reload(key)
        elif watch.patient.version < version:
            watch.stale = True


class Unheld:
    """Where nobody is held, nothing is foreseen."""

    async def foresee(self, patient: Patient) -> tuple[Hold, ...]:
        del patient
        return ()

    def decided(self, holds: Sequence[Hold]) -> None: ...

    def lose_sight(self, key: AgentKey) -> None: ...


def _asked_or_answered(approval: Approval) -> Event:
    """Word of a question, or of its answer."""
    said = {
        "approval_id": approval.approval_id,
        "agent_id": approval.agent_id,
        "incident_id": approval.incident_id,
        "action": approval.action,
        "status": approval.status,
        "answered_by": approval.answered_by,
    }
    event_id = f"{approval.approval_id}:{approval.status}"
    return Event(event_id, approval.project, Channel.EVT, "agent", approval.agent_id, APPROVAL, to_json(said))
