"""The immune system as one object: what the server, the other rooms and the command line call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from homeostat.core.clock import Clock, Millis, SystemClock
from homeostat.core.codec import to_json
from homeostat.core.enforcement_errors import AgentKilled, AgentMoved
from homeostat.core.errors import AgentUnknown, Unavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId
from homeostat.core.limits import ORDER_RACES_MAX
from homeostat.core.machines.phase import PHASE, Phase, PhaseEvent
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.immune import Engine, ImmuneStore, Remedies
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.immune import IMMUNE_ACTOR, Patient
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.core.urgency import become_urgent
from homeostat.immune.approvals import Approvals
from homeostat.immune.archive import Archive
from homeostat.immune.baseline import Baselines
from homeostat.immune.counts import Counts
from homeostat.immune.deciding import Deciding
from homeostat.immune.diagnostician import Diagnostician
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.drill import Drills, held_by_drill
from homeostat.immune.enforcement import Enforcement
from homeostat.immune.engines import EngineWatch
from homeostat.immune.examination import Settings
from homeostat.immune.feedback import FeedbackDesk
from homeostat.immune.healer import BY_HAND, Healer
from homeostat.immune.hearing import Listener
from homeostat.immune.intake import Intake
from homeostat.immune.ladder import Experience
from homeostat.immune.memory import MemoryDesk
from homeostat.immune.normal import NormalDesk
from homeostat.immune.observer import Observer
from homeostat.immune.orchestrator import Orchestrator
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.ward import MEMORY, Move, Roster, Ward
from homeostat.immune.watch import Watch

log = logging.getLogger(__name__)

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
VITALS: Final = "vitals"

_vitals = msgspec.json.Decoder(Vitals)


class Immune:
    """Watches, isolates and heals. `loops` are its background work; whoever assembles it owns their tasks."""

    def __init__(
        self,
        *,
        store: ImmuneStore,
        bus: Bus,
        enforcement: Enforcement,
        remedies: Remedies,
        roster: Roster,
        catch_up: Callable[[], Awaitable[object]],
        fleet_size: Callable[[ProjectId], int],
        clock: Clock | None = None,
        ids: Ids | None = None,
        doctrine: Doctrine | None = None,
        settings: Settings | None = None,
        engines: Sequence[Engine] = (),
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.ids = ids or Ids(clock=self.clock)
        self.doctrine = doctrine or Doctrine()
        self.settings = settings or Settings()
        self._bus = bus
        self.enforcement = enforcement
        self.remedies = remedies
        enforcement.tell = self._alert
        self.engines = EngineWatch(engines, clock=self.clock, tell=self._alert_engine)
        self._roster = roster
        self._catch_up = catch_up
        self._name = self.ids.scope()
        self.leading = False
        self.baselines = Baselines()
        self.intake = Intake(clock=self.clock)
        self.listener = Listener()
        self.diagnostician = Diagnostician()
        self.counts = Counts()
        self.ward = Ward(store=store, bus=bus, clock=self.clock, ids=self.ids, counts=self.counts)
        self.ward.holding = enforcement
        self.deciding = Deciding()
        self.healer = self._healer()
        self.archive = Archive(
            ward=self.ward, baselines=self.baselines, roster=roster, doctrine=self.doctrine, clock=self.clock
        )
        self.orchestrator = self._orchestrator(roster, fleet_size)
        self.approvals = Approvals(
            ward=self.ward, healer=self.healer, watch_of=self.watch_of, deciding=self.deciding, clock=self.clock
        )
        self.feedback = FeedbackDesk(ward=self.ward, diagnostician=self.diagnostician, clock=self.clock, ids=self.ids)
        self.memory = MemoryDesk(ward=self.ward, clock=self.clock, learn=self._learn_anew)
        self.normal = self._normal_desk()
        self._taught = False
        self.drills = Drills(self)
        self.loops: tuple[Loop, ...] = (("immune system", self.run), ("enforcement", self.run_enforcement))

    def _healer(self) -> Healer:
        return Healer(
            ward=self.ward,
            deciding=self.deciding,
            enforcement=self.enforcement,
            remedies=self.remedies,
            baselines=self.baselines,
            doctrine=self.doctrine,
            clock=self.clock,
            ids=self.ids,
        )

    def _normal_desk(self) -> NormalDesk:
        return NormalDesk(
            ward=self.ward,
            archive=self.archive,
            baselines=self.baselines,
            watch_of=self.watch_of,
            leads=lambda: self.leading,
            deciding=self.deciding,
            clock=self.clock,
            ids=self.ids,
        )

    def _orchestrator(self, roster: Roster, fleet_size: Callable[[ProjectId], int]) -> Orchestrator:
        return Orchestrator(
            ward=self.ward,
            deciding=self.deciding,
            archive=self.archive,
            intake=self.intake,
            observer=Observer(baselines=self.baselines, sentinel=Sentinel(self.baselines, self.settings)),
            baselines=self.baselines,
            diagnostician=self.diagnostician,
            healer=self.healer,
            enforcement=self.enforcement,
            doctrine=self.doctrine,
            roster=roster,
            fleet_size=fleet_size,
            clock=self.clock,
            ids=self.ids,
            min_samples=self.settings.min_samples,
        )

    async def open(self) -> None:
        """Know everything that was decided, and put it in force, before the first request."""
        await self.ward.open()
        await self._learn()
        await self._bus.subscribe(subject("*", Channel.EVT, "agent", "*", VITALS), self._on_vitals)
        await self.normal.listen(self._bus)
        await self._bus.subscribe(subject("*", Channel.EVT, "immune", MEMORY, MEMORY), self._on_memory)
        await self.enforcement.load()
        await self._lead()
        await self.reconcile()

    async def close(self) -> None:
        """Write down what was learned, and let another process decide."""
        await self.enforcement.close()
        try:
            if self.leading:
                await self.archive.save()
                await self.store.let_go(self._name)
        except Unavailable as error:
            log.warning("the last baselines were not written down: %s", error)

    async def run(self) -> None:
        become_urgent()  # an order about an agent waits for a step of a tick
        while True:
            await asyncio.sleep(self.doctrine.tick_seconds)
            try:
                await self.tick()
            except Unavailable as error:
                log.warning("this tick was not finished: %s", error)

    async def run_enforcement(self) -> None:
        """Apart from the tick: whatever that waits for, everybody who is held is looked at in time."""
        while True:
            await asyncio.sleep(self.doctrine.reconcile_seconds)
            try:
                await self.reconcile()
            except Unavailable as error:
                log.warning("not everybody who is held was looked at: %s", error)
            await self.engines.look(local_only=not self.leading)

    async def reconcile(self) -> None:
        """See that everybody is held as wanted. What only this machine can do is done here, whoever decides."""
        await self.ward.catch_up(self.enforcement.out_of_sight & self.ward.watches.keys())
        await self.enforcement.reconcile(self.orchestrator.to_be_held(), local_only=not self.leading)

    async def hold_again(self, key: AgentKey) -> None:
        """See to one agent at once: what belongs to it has just been started."""
        held = [patient for patient in self.orchestrator.to_be_held() if patient.key == key]
        await self.enforcement.reconcile(held, local_only=not self.leading)

    async def _alert(self, key: AgentKey, what: str, said: dict[str, object]) -> None:
        await self._publish_alert(key[0], key[1], what, said)

    async def _alert_engine(self, title: str, said: dict[str, object]) -> None:
        """An engine belongs to no project; whoever looks after the first one looks after the machine."""
        await self._publish_alert(DEFAULT_PROJECT, title, "engine", said)

    async def _publish_alert(self, project: ProjectId, about: str, what: str, said: dict[str, object]) -> None:
        log.warning("%s of %s: %s", what, about, said)
        payload = to_json({"alert": what, "about": about, **said})
        await self.ward.publish(
            Event(f"alr_{self.ids.scope()}", project, Channel.EVT, "immune", about, "alert", payload)
        )

    async def tick(self) -> int:
        """One pass over whatever has come in, if this is the process that decides."""
        async with self.deciding:
            if self._taught:
                await self._learn()
            leads = await self._lead()
            await self.healer.tell_late()
            if not leads:
                self.intake.drain()
                return 0
            began = self.clock.monotonic()
            scored = await self.orchestrator.tick()
            await self.drills.end_abandoned()
            await self.deciding.give_way()
            await self.approvals.expire()
            self.counts.ticks += 1
            self.counts.scored += scored
            self.counts.tick_seconds = self.clock.monotonic() - began
            return scored

    async def _lead(self) -> bool:
        now = self.clock.now_ms()
        until = Millis(now + int(self.doctrine.lease_seconds * 1000))
        leads = await self.store.hold(self._name, now, until)
        if leads and not self.leading:
            for patient in await self.store.patients():
                await self.ward.reload(patient.key)
            await self.archive.recall()
            await self.enforcement.load()
            await self._learn()
        self.leading = leads
        return leads

    async def _learn(self) -> None:
        self._taught = False  # before it is read: what is said meanwhile is heard the next time
        try:
            self.healer.think_again(Experience(await self.store.lessons()))
            self.diagnostician.learn(await self.store.feedback())
        except Unavailable:
            self._taught = True
            raise

    async def _learn_anew(self) -> None:
        async with self.deciding:  # else a lesson that is being learned meanwhile would be forgotten here
            await self._learn()

    async def _on_memory(self, _: Event) -> None:
        self._taught = True

    # --- vitals --------------------------------------------------------------------------------------------

    async def _on_vitals(self, event: Event) -> None:
        if self.intake.floods((event.project, AgentId(event.target))):
            return
        try:
            sample = _vitals.decode(event.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.intake.refused["malformed"] += 1
            return
        if (sample.project, sample.agent_id) != (event.project, event.target):
            self.intake.refused["foreign"] += 1
            return
        self.intake.take(sample)

    async def report(self, sample: Vitals) -> str | None:
        """Take what an agent says of itself to whoever decides; returns why it was not believed."""
        key = (sample.project, sample.agent_id)
        problem = "foreign" if self._roster(key) is None else self.intake.problem(sample)
        if problem is not None:
            self.intake.refused[problem] += 1
            return problem
        await self.ward.publish(Event(sample.sample_id, key[0], Channel.EVT, "agent", key[1], VITALS, to_json(sample)))
        return None

    # --- what operators do ---------------------------------------------------------------------------------

    async def quarantine(self, key: AgentKey, *, reason: str, actor: str) -> Patient:
        """Isolate an agent on an operator's word; it stays so until one says otherwise."""

        async def isolate(watch: Watch) -> bool:
            if held_by_drill(watch):
                return await self.healer.take_over(watch, cause=reason, actor=actor)
            order = PhaseEvent.ORDER_QUARANTINE
            PHASE.next(watch.phase, order)
            incident = replace(self.orchestrator.diagnose(watch), cohort=BY_HAND)
            return await self.orchestrator.order(watch, order, incident=incident, cause=reason, actor=actor)

        return await self._carry_out(key, isolate)

    async def kill(self, key: AgentKey, *, reason: str, actor: str) -> Patient:
        """Isolate an agent at once and end it; it stays so until an operator releases it."""

        async def end(watch: Watch) -> bool:
            return await self.healer.end(watch, self.orchestrator.diagnose(watch), cause=reason, actor=actor)

        return await self._carry_out(key, end)

    async def release(self, key: AgentKey, *, reason: str, actor: str) -> Patient:
        """Let an agent out untreated; probation watches it."""

        async def let_out(watch: Watch) -> bool:
            PHASE.next(watch.phase, PhaseEvent.RELEASE)
            return await self.healer.let_out(watch, cause=reason, actor=actor)

        return await self._carry_out(key, let_out)

    async def heal(self, key: AgentKey, *, reason: str, actor: str) -> Patient:
        """Treat an agent now, with a fresh start: what failed before may be tried again."""

        async def treat(watch: Watch) -> bool:
            if watch.patient.killed:
                raise AgentKilled(agent_id=key[1])
            PHASE.next(watch.phase, PhaseEvent.HEAL)
            incident = watch.incident or replace(self.orchestrator.diagnose(watch), cohort=BY_HAND)
            changes = {"forgiven_at_ms": self.clock.now_ms(), "bound": None, "approval_id": None}
            move = Move(
                watch=watch, event=PhaseEvent.HEAL, cause=reason, actor=actor, incident=incident, changes=changes
            )
            moved = await self.ward.move(move)
            if moved:
                await self.healer.step(watch)
            return moved

        return await self._carry_out(key, treat)

    async def _carry_out(self, key: AgentKey, order: Callable[[Watch], Awaitable[bool]]) -> Patient:
        """Do what an operator says. Who only lost a race to the immune system is not sent away for it; who lost one to
        another operator has to look again.
        """
        async with self.deciding:
            for _ in range(ORDER_RACES_MAX):
                watch = await self.seen(key, anew=True)
                if await order(watch):
                    return watch.patient
                moved = await self.ward.reload(key)
                if moved is None or moved.patient.actor != IMMUNE_ACTOR:
                    break
            raise AgentMoved(agent_id=key[1])

    # --- looking -------------------------------------------------------------------------------------------

    def phase_of(self, key: AgentKey) -> Phase:
        return self.ward.phase(key)

    async def patient(self, key: AgentKey) -> Patient:
        """An agent's health as the store has it, whoever decides on it."""
        return (await self.seen(key, anew=True)).patient

    async def watch_of(self, key: AgentKey) -> Watch:
        """An agent that is watched from now on."""
        watch = await self.seen(key)
        if watch.patient.version == 0:
            await self.ward.admit([key])
            watch = await self.ward.reload(key)
        assert watch is not None, "it was admitted a moment ago"
        return watch

    async def seen(self, key: AgentKey, *, anew: bool = False) -> Watch:
        """An agent as it is known; one that nobody has watched yet is a newcomer, and nothing is written.

        With `anew` as the store has it: who decides may not have heard yet of an order that was given elsewhere.
        """
        if not self._knows(key):
            await self._catch_up()  # another process may have registered it a moment ago
            if not self._knows(key):
                raise AgentUnknown(agent_id=key[1], project=key[0])
        watch = self.ward.watches.get(key)
        if anew or watch is None or watch.stale or not self.leading:
            watch = await self.ward.reload(key)
        return watch or self.ward.newcomer(key)

    def _knows(self, key: AgentKey) -> bool:
        return self._roster(key) is not None or key in self.ward.watches
