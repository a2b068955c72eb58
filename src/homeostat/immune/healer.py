"""Treats isolated agents: drains, asks where it has to, tries remedies in order, and lets probation judge them."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.errors import Unavailable
from homeostat.core.ids import Ids
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.ports.immune import Remedies
from homeostat.core.records.immune import (
    IMMUNE_ACTOR,
    NEVER,
    Applied,
    Chart,
    Diagnosis,
    Incident,
    IncidentId,
    Lesson,
    Treatment,
    Veto,
)
from homeostat.core.records.turn import AgentKey
from homeostat.immune.baseline import Baselines
from homeostat.immune.deciding import Deciding
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.enforcement import Enforcement
from homeostat.immune.ladder import Experience, Step
from homeostat.immune.questions import Questions
from homeostat.immune.treating import Heard, Treating
from homeostat.immune.ward import Move, Ward
from homeostat.immune.watch import Watch

log = logging.getLogger(__name__)
HOUR_MS: Final = 3_600_000
REMEDIES_PER_TICK_MAX: Final = 32  # what cannot be applied costs nothing; the ladders are shorter than this


class Healer:
    """Moves agents on from DRAINING to HEALTHY or EXHAUSTED, one bounded step per tick."""

    def __init__(
        self,
        *,
        ward: Ward,
        deciding: Deciding,
        enforcement: Enforcement,
        remedies: Remedies,
        baselines: Baselines,
        doctrine: Doctrine,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._ward = ward
        self._enforcement = enforcement
        self._remedies = remedies
        self._baselines = baselines
        self._doctrine = doctrine
        self._clock = clock
        self._ids = ids
        self.experience = Experience()
        self._questions = Questions(ward=ward, enforcement=enforcement, doctrine=doctrine, clock=clock, ids=ids)
        self._treating = Treating(ward=ward, deciding=deciding, remedies=remedies, clock=clock)
        self._under_way: set[AgentKey] = set()

    async def step(self, watch: Watch) -> None:
        """Do what is due for an agent in its phase."""
        match watch.phase:
            case Phase.DRAINING:
                await self._drain(watch)
            case Phase.QUARANTINED:
                await self._decide(watch)
            case Phase.HEALING:
                await self._treat(watch, self._climb)
            case Phase.PROBATION:
                await self._judge(watch)
            case _:
                pass

    # --- isolation -----------------------------------------------------------------------------------------

    async def _drain(self, watch: Watch) -> None:
        """Counted, not timed: it is over when nothing is in flight, or when the time is.

        A time further away than a drain can last was set by a clock that ran ahead, and is not waited for.
        """
        busy = await self._enforcement.in_flight(watch.key)
        left_ms = watch.patient.drain_until_ms - self._clock.now_ms()
        if busy and 0 < left_ms <= self._doctrine.drain_seconds * 1000:
            return
        cause = (
            f"the drain time was over with {busy} in flight, which was preempted" if busy else "nothing is in flight"
        )
        # Why it is isolated stays what it was; that it is drained is a step on the way.
        kept = {"cause": watch.patient.cause, "actor": watch.patient.actor}
        if await self._ward.move(Move(watch=watch, event=PhaseEvent.DRAINED, cause=cause, changes=kept)):
            await self._enforcement.bring(watch.patient)
            await self._empty(watch)

    async def _empty(self, watch: Watch) -> None:
        """Take away what is in hand, now that the gates are shut: something may have begun since that was counted."""
        await self._enforcement.preempt(watch.key)
        watch.held_before = await self._enforcement.waiting(watch.key)
        watch.emptied_ms = watch.patient.quarantined_at_ms

    async def _decide(self, watch: Watch) -> None:
        """Treat at once what is mild, ask about what is grave, leave alone what an operator isolated."""
        patient = watch.patient
        if watch.emptied_ms != patient.quarantined_at_ms:  # whoever shut its gates did not live to do so
            await self._empty(watch)
        least_ms = max(0, patient.not_before_ms - patient.quarantined_at_ms)
        if 0 < patient.not_before_ms - self._clock.now_ms() <= least_ms or self._isolated_by_hand(watch):
            return
        incident = watch.incident
        if incident is None or watch.patient.sigma < self._doctrine.approval_sigma:
            cause = f"{watch.patient.sigma:.1f} sigma is mild enough to treat without asking"
            await self._ward.move(Move(watch=watch, event=PhaseEvent.HEAL, cause=cause))
            return
        await self._questions.ask(watch, incident, lambda: self._next(watch, incident))

    def _isolated_by_hand(self, watch: Watch) -> bool:
        incident = watch.incident
        return incident is not None and incident.cohort in LEFT_ALONE

    def ask_again(self, incident_id: IncidentId) -> None:
        """A question has run out: whoever waits for its answer is not left alone with it."""
        self._questions.ask_again(incident_id)

    def think_again(self, experience: Experience) -> None:
        """What is known of remedies, or allowed, is otherwise now."""
        self.experience = experience
        self._questions.think_again()

    # --- treatment -----------------------------------------------------------------------------------------

    async def _next(self, watch: Watch, incident: Incident) -> tuple[Step | None, tuple[Veto, ...]]:
        """What is tried next, and the vetoes that were in the way.

        They are read where a remedy is chosen: one that was given at any process, a moment ago, holds at this one.
        """
        vetoes = {one.step: one for one in await self._ward.store.vetoes_on(watch.key)}
        passed: list[Veto] = []
        for step in self._left(watch, incident):
            if step not in vetoes:
                return step, tuple(passed)
            passed.append(vetoes[step])
        return None, tuple(passed)

    def _left(self, watch: Watch, incident: Incident) -> Iterator[Step]:
        """What can still be tried, best first. What cannot be done, or may have been, is left out for any diagnosis."""
        if watch.patient.bound is not None:
            yield watch.patient.bound
        since = watch.patient.forgiven_at_ms
        recent = [one for one in incident.treatments if one.at_ms > since]
        useless = {one.action for one in recent if one.applied is not Applied.APPLIED}
        tried = [(one.diagnosis, one.action) for one in recent]
        tried += [(diagnosis, action) for diagnosis in Diagnosis for action in useless]
        yield from self.experience.rungs(watch.key, incident.hypotheses, tried, since=since)

    async def _treat(self, watch: Watch, how: Callable[[Watch], Awaitable[object]]) -> None:
        """One treatment of an agent at a time: others may decide while one lasts."""
        if watch.key in self._under_way:
            return
        self._under_way.add(watch.key)
        try:
            await how(watch)
        finally:
            self._under_way.discard(watch.key)

    async def _climb(self, watch: Watch) -> None:
        """Remedy by remedy, until one is applied or none is left."""
        if watch.key in self._treating.heard:
            return  # the store knows nothing yet of the last one, which may have been enough
        seen = watch.patient.version
        await self._enforcement.bring(watch.patient)  # what is stopped cannot be treated; its gates stay shut
        for _ in range(REMEDIES_PER_TICK_MAX):
            incident, now = watch.incident, self._clock.now_ms()
            if incident is None:
                return  # another process has discharged it
            applied = [one for one in incident.treatments if one.applied is Applied.APPLIED]
            if sum(abs(now - one.at_ms) < HOUR_MS for one in applied) >= self._doctrine.attempts_per_hour:
                return
            step, passed = await self._next(watch, incident)
            if watch.patient.version != seen:
                return  # another process has moved it meanwhile, and may have treated it: all is decided anew
            vetoed = dict.fromkeys(one.words for one in passed)
            incident = replace(incident, passed_over=tuple(dict.fromkeys((*incident.passed_over, *vetoed))))
            if step is None:
                ended = replace(incident, outcome="exhausted")
                cause = "; ".join(("every remedy of every hypothesis was tried or did not apply", *vetoed))
                if await self._ward.move(Move(watch=watch, event=PhaseEvent.EXHAUST, cause=cause, incident=ended)):
                    await self._enforcement.bring(watch.patient)
                return
            begun = self._treating.begun(watch, step)
            if not await self._treating.claim(watch, replace(incident, treatments=(*incident.treatments, begun))):
                return
            await self._treating.give(watch, begun)
            if not await self._write_down(watch):
                return
            seen = watch.patient.version

    async def _write_down(self, watch: Watch) -> bool:
        """Write down what became of a remedy, which is kept until the store has it; whether the next one is tried."""
        heard = self._treating.heard[watch.key]
        applied = heard.treatment.applied is Applied.APPLIED
        tell = self._treated if applied else self._failed
        told = watch.patient.version == heard.version and await tell(watch, heard)
        if not told:
            await self._note(watch, heard)
        del self._treating.heard[watch.key]
        return told and not applied

    async def _note(self, watch: Watch, heard: Heard) -> None:
        """An operator was quicker than a treatment: whatever the agent is now, what was done to it is written down.

        Unless it is in treatment: what another process has begun meanwhile could be written over.
        """
        incident = watch.incident
        if watch.phase is not Phase.HEALING and incident is not None and heard.begun in incident.treatments:
            told = heard.told_in(incident)
            if await self._ward.store.save(Chart(incidents=(told,))):
                watch.incident = told

    async def _treated(self, watch: Watch, heard: Heard) -> bool:
        assert watch.incident is not None, "nobody is treated without an incident"
        treatment = heard.treatment
        cause = f"{treatment.action.words}: {treatment.note}"
        return await self._let_out(watch, heard.told_in(watch.incident), PhaseEvent.TREATED, cause)

    async def _failed(self, watch: Watch, heard: Heard) -> bool:
        assert watch.incident is not None, "nobody is treated without an incident"
        treatment, incident = heard.treatment, heard.told_in(watch.incident)
        useless = treatment.applied is Applied.NOT_APPLICABLE
        lessons = () if useless else (self._lesson(watch, treatment, cured=False),)
        patient = replace(watch.patient, version=watch.patient.version + 1)
        if not await self._ward.store.save(Chart(patients=(patient,), incidents=(incident,), lessons=lessons)):
            await self._ward.reload(watch.key)
            return False
        watch.patient, watch.incident = patient, incident
        for lesson in lessons:
            self.experience.learn(lesson)
        return True

    async def tell_late(self) -> None:
        """Write down what the store did not take in time, also where this process decides no more."""
        for key in self._treating.heard.keys() - self._under_way:
            try:
                if (watch := await self._ward.reload(key)) is None:
                    del self._treating.heard[key]
                else:
                    await self._treat(watch, self._write_down)
            except Unavailable as error:
                log.warning("what was done to %s is written down later: %s", key[1], error)

    async def end(self, watch: Watch, incident: Incident, *, cause: str, actor: str) -> bool:
        """An operator ends an agent, whatever its phase: nothing is waited for, and nothing treats it any more.

        False where somebody else has moved it meanwhile.
        """
        incident = replace(watch.incident or incident, cohort=BY_HAND)
        now = self._clock.now_ms()
        asked = {"killed": True, "bound": None, "approval_id": None, "drain_until_ms": now, "quarantined_at_ms": now}
        events = {Phase.DRAINING: (PhaseEvent.DRAINED,), Phase.QUARANTINED: (), Phase.EXHAUSTED: ()}
        steps = events.get(watch.phase, (PhaseEvent.ORDER_QUARANTINE, PhaseEvent.DRAINED))
        if not steps:
            patient = replace(
                watch.patient, version=watch.patient.version + 1, killed=True, cause=cause, actor=actor, bound=None
            )
            if not await self._ward.store.save(Chart(patients=(patient,), incidents=(incident,))):
                return False
            watch.patient, watch.incident = patient, incident
        moves = [
            Move(watch=watch, event=event, cause=cause, actor=actor, incident=incident, changes=asked)
            for event in steps
        ]
        if moves and not await self._ward.move_through(moves):
            return False
        await self._enforcement.bring(watch.patient)
        await self._empty(watch)
        return True

    async def take_over(self, watch: Watch, *, cause: str, actor: str) -> bool:
        """Whom a drill isolated stays so on an operator's word; False where somebody else has moved it meanwhile."""
        assert watch.incident is not None, "a drill is one"
        incident = replace(watch.incident, cohort=BY_HAND)
        patient = replace(watch.patient, version=watch.patient.version + 1, cause=cause, actor=actor)
        if not await self._ward.store.save(Chart(patients=(patient,), incidents=(incident,))):
            return False
        watch.patient, watch.incident = patient, incident
        return True

    async def let_out(self, watch: Watch, *, cause: str, actor: str) -> bool:
        """An operator, or the end of an outage, lets an agent out untreated."""
        return await self._let_out(watch, watch.incident, PhaseEvent.RELEASE, cause, actor=actor)

    async def _let_out(
        self, watch: Watch, incident: Incident | None, event: PhaseEvent, cause: str, *, actor: str = IMMUNE_ACTOR
    ) -> bool:
        self._treating.let_go(watch.key)
        waiting = await self._enforcement.waiting(watch.key)
        if incident is not None:
            lost = max(0, watch.held_before - waiting)
            incident = replace(incident, held=waiting, resumed=waiting, lost=incident.lost + lost)
        watch.calm()
        self._baselines.settle(list(watch.rows.values()))
        changes = {"bound": None, "approval_id": None, "killed": False}
        moved = await self._ward.move(
            Move(watch=watch, event=event, cause=cause, actor=actor, incident=incident, changes=changes)
        )
        if moved:
            await self._enforcement.bring(watch.patient)
        return moved

    # --- probation -----------------------------------------------------------------------------------------

    async def _judge(self, watch: Watch) -> None:
        """Fresh vitals alone decide; too few of them decide nothing."""
        doctrine = self._doctrine
        if watch.bad >= doctrine.suspect_ticks or (watch.bad and watch.sigma > doctrine.severe_sigma):
            await self._relapse(watch)
        elif watch.fresh >= doctrine.probation_ticks and watch.streak == 0:
            await self._discharge(watch)

    def _lesson(self, watch: Watch, treatment: Treatment, *, cured: bool) -> Lesson:
        return Lesson(
            project=watch.key[0],
            agent_id=watch.key[1],
            diagnosis=treatment.diagnosis,
            action=treatment.action,
            cured=int(cured),
            failed=int(not cured),
            failed_at_ms=NEVER if cured else self._clock.now_ms(),
        )

    def _told(self, watch: Watch, *, cured: bool) -> tuple[Incident | None, tuple[Lesson, ...]]:
        """What probation says of the last remedy, if it was applied and nothing has been said of it yet."""
        incident = watch.incident
        if incident is None or not incident.treatments:
            return incident, ()
        last = incident.treatments[-1]
        if last.applied is not Applied.APPLIED or last.cured is not None:
            return incident, ()
        last = replace(last, cured=cured)
        lesson = self._lesson(watch, last, cured=cured)
        self.experience.learn(lesson)
        self._ward.counts.judged[last.action, cured] += 1
        return replace(incident, treatments=(*incident.treatments[:-1], last)), (lesson,)

    async def _relapse(self, watch: Watch) -> None:
        incident, lessons = self._told(watch, cured=False)
        cause = f"{watch.bad} of {watch.fresh} fresh samples are still anomalous"
        if incident is None:
            return
        if not await self._ward.move(
            Move(
                watch=watch,
                event=PhaseEvent.PROBATION_FAILED,
                cause=cause,
                incident=incident,
                chart=Chart(lessons=lessons),
            )
        ):
            return
        await self._enforcement.bring(watch.patient)
        await self._empty(watch)
        await self._remedies.undo(watch.key)

    async def _discharge(self, watch: Watch) -> None:
        incident, lessons = self._told(watch, cured=True)
        cause = f"{watch.fresh} fresh samples are normal"
        if incident is not None:
            applied = [one for one in incident.treatments if one.cured]
            outcome = f"cured by {applied[-1].action}" if applied else "well without treatment"
            incident = replace(incident, closed_at_ms=self._clock.now_ms(), outcome=outcome)
        moved = await self._ward.move(
            Move(
                watch=watch,
                event=PhaseEvent.PROBATION_PASSED,
                cause=cause,
                incident=incident,
                changes={"incident_id": None, "sigma": 0.0},
                chart=Chart(lessons=lessons),
            )
        )
        if moved:
            watch.calm()
            self._baselines.accelerate(list(watch.rows.values()))
            watch.dirty = True


BY_HAND: Final = "by hand"
FIRE_DRILL: Final = "fire drill"
LEFT_ALONE: Final = frozenset({BY_HAND, FIRE_DRILL})
"""Why somebody may be isolated without being treated."""
