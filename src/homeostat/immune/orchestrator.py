"""The immune loop: observe, suspect, correlate before anybody is isolated, treat, and keep decisions in force."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import IllegalTransition, Unavailable
from homeostat.core.ids import Ids, ProjectId
from homeostat.core.machines.phase import MONITORED, Phase, PhaseEvent
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.immune import Chart, Evidence, Incident, IncidentId, Patient, Spread
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.immune.archive import Archive
from homeostat.immune.baseline import Baselines, Rows
from homeostat.immune.behaviour import OBEYS
from homeostat.immune.correlator import EVERYBODY, HOST, Cohort, Correlator, Verdict
from homeostat.immune.deciding import Deciding
from homeostat.immune.diagnostician import Diagnostician
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.enforcement import Enforcement
from homeostat.immune.healer import FIRE_DRILL, LEFT_ALONE, Healer
from homeostat.immune.intake import CALL, DRILL, GATEWAY, HEARSAY, Intake
from homeostat.immune.observer import Observer, stream_of
from homeostat.immune.ward import ISOLATED, Move, Roster, Ward
from homeostat.immune.watch import BEHAVIOUR_SIGMA, Watch, in_words

log = logging.getLogger(__name__)

AGENTS_NAMED_MAX: Final = 100


class Orchestrator:
    """One tick over the fleet. Only the process that holds the lease ticks."""

    def __init__(
        self,
        *,
        ward: Ward,
        deciding: Deciding,
        intake: Intake,
        observer: Observer,
        baselines: Baselines,
        archive: Archive,
        diagnostician: Diagnostician,
        healer: Healer,
        enforcement: Enforcement,
        doctrine: Doctrine,
        roster: Roster,
        fleet_size: Callable[[ProjectId], int],
        clock: Clock,
        ids: Ids,
        min_samples: int,
    ) -> None:
        self._ward = ward
        self._deciding = deciding
        self._intake = intake
        self._observer = observer
        self._baselines = baselines
        self._archive = archive
        self._diagnostician = diagnostician
        self._healer = healer
        self._enforcement = enforcement
        self._doctrine = doctrine
        self._roster = roster
        self._fleet_size = fleet_size
        self._clock = clock
        self._ids = ids
        self._min_samples = min_samples
        self._correlator = Correlator(
            window_seconds=doctrine.correlation_seconds, share=doctrine.fleet_share, least=doctrine.fleet_agents
        )
        self._alerts: dict[tuple[ProjectId, str, str], tuple[Incident, float]] = {}

    async def tick(self) -> int:
        """One pass; returns how many samples were looked at."""
        for key in [key for key, watch in self._ward.watches.items() if watch.stale]:
            await self._ward.reload(key)
        for watch in [watch for watch in self._ward.watches.values() if watch.unlearn]:
            await self._archive.unlearn(watch)
        waiting = self._intake.drain()
        await self._ward.admit([key for key, samples in waiting.items() if self._watched(key, samples)])
        for key, samples in waiting.items():
            if (watch := self._ward.watches.get(key)) is not None:
                self._meet(watch, samples)
        scored = self._observer.rounds(waiting, self._ward.watches)
        seen = [watch for key in waiting if (watch := self._ward.watches.get(key)) is not None]
        self._correlate(seen)
        await self._shift_phases(seen)
        await self._isolate([watch for watch in seen if watch.wanted_at is not None], self._clock.monotonic())
        await self._isolate(self._waiting_to_be_isolated(seen), self._clock.monotonic())
        for key in list(self._ward.unsettled):
            await self._deciding.give_way()
            try:
                if (watch := self._ward.watches.get(key)) is not None:
                    await self._healer.step(watch)
            except (Unavailable, IllegalTransition) as error:  # the latter of one whom another process moved meanwhile
                log.warning("%s is left as it is for now: %s", key[1], error)
        await self._close_alerts()
        await self._deciding.give_way()
        await self._archive.tick()
        return scored

    def _watched(self, key: AgentKey, samples: Iterable[Vitals]) -> bool:
        """Only agents the fleet knows are watched, and those whose calls the gateway itself has seen."""
        if self._roster(key) is not None or any(sample.source == GATEWAY for sample in samples):
            return True
        self._intake.refused["foreign"] += 1
        return False

    def _meet(self, watch: Watch, samples: deque[Vitals]) -> None:
        """Learn where an agent belongs, and drop what it says of itself while the gateway measures it."""
        kept: list[Vitals] = []
        model = provider = None
        for sample in samples:
            if sample.source == GATEWAY:
                watch.gateway_at_ms = max(watch.gateway_at_ms, sample.at_ms)
            outranked = sample.at_ms - watch.gateway_at_ms < self._doctrine.self_report_seconds * 1000
            measured = sample.source not in (GATEWAY, HEARSAY, DRILL) and stream_of(sample) == CALL
            if measured and watch.gateway_at_ms and outranked:
                self._intake.refused["outranked"] += 1
                continue
            if watch.phase in MONITORED or watch.phase is Phase.INITIALIZING:
                kept.append(sample)
            model, provider = sample.model or model, sample.provider or provider
        samples.clear()
        samples.extend(kept)
        watch.heard_at = self._clock.monotonic()
        member = self._roster(watch.key)
        names = [EVERYBODY]
        if member is not None:
            names += [f"type {member.agent_type}", *(f"tag {tag}" for tag in member.tags)]
            names += [HOST + member.hostname] if member.hostname else []  # what stands still takes all on it along
        cohorts = [Cohort(name, watch.key[0]) for name in names]
        for what, called in (("model ", model), ("provider ", provider)):
            known = [one for one in watch.cohorts if one.project is None and one.name.startswith(what)]
            cohorts += [Cohort(what + called)] if called else known
        watch.cohorts = tuple(cohorts)

    # --- suspicion -----------------------------------------------------------------------------------------

    def _correlate(self, seen: list[Watch]) -> None:
        now, doctrine = self._clock.monotonic(), self._doctrine
        for watch in seen:
            if watch.phase in MONITORED:
                self._correlator.active(watch.key, watch.cohorts, now)
                # Also who is well again by now: for what it showed, another would be isolated whose pass ended sooner.
                passed = watch.worst > doctrine.severe_sigma or watch.longest >= doctrine.suspect_ticks
                if watch.streak or passed:
                    self._correlator.affected(watch.key, watch.cohorts, watch.kinds, now)
        for watch in seen:
            if watch.phase is Phase.PROBATION and watch.bad and self._everybodys(watch, now):
                watch.overlook()  # it says nothing of the remedy: probation begins anew

    def _everybodys(self, watch: Watch, now: float) -> bool:
        """Whether all that an agent shows is the fleet's trouble."""
        spreads = [self._correlator.verdict(watch.cohorts, [kind], now).spread for kind in watch.kinds]
        return all(spread is Spread.FLEET_WIDE for spread in spreads)

    async def _shift_phases(self, seen: list[Watch]) -> None:
        """Becoming known, suspected and cleared: what needs no action of anybody."""
        doctrine, now = self._doctrine, self._clock.monotonic()
        moves: list[Move] = []
        cleared: list[Watch] = []
        for watch in seen:
            if watch.phase is Phase.INITIALIZING:
                if self._baselines.ready(_rows(watch), self._min_samples).any():
                    cause = f"{self._min_samples} samples tell what is normal"
                    moves.append(Move(watch=watch, event=PhaseEvent.BASELINE_READY, cause=cause))
                watch.overlook()
            elif watch.phase in (Phase.HEALTHY, Phase.SUSPECTED):
                severe = watch.sigma > doctrine.severe_sigma
                if watch.streak >= doctrine.suspect_ticks or severe:
                    watch.wanted_at = now if watch.wanted_at is None else watch.wanted_at
                elif watch.streak == 0 and watch.wanted_at is not None and not severe:
                    watch.wanted_at = None
                noticed = watch.streak > 0 or watch.flared
                if watch.phase is Phase.HEALTHY and noticed and not severe:
                    moves.append(Move(watch=watch, event=PhaseEvent.ANOMALY, cause=in_words(watch.evidence)))
                if watch.streak == 0 and watch.wanted_at is None and (watch.flared or watch.phase is Phase.SUSPECTED):
                    cleared.append(watch)
            watch.flared, watch.worst, watch.longest = False, 0.0, 0
        await self._ward.move_all(moves)
        clear = [watch for watch in cleared if watch.phase is Phase.SUSPECTED]
        cause = "the anomaly went away within the window"
        await self._ward.move_all([Move(watch=watch, event=PhaseEvent.CLEAR, cause=cause) for watch in clear])
        for watch in clear:
            watch.calm()

    # --- isolation -----------------------------------------------------------------------------------------

    def _waiting_to_be_isolated(self, seen: list[Watch]) -> list[Watch]:
        known = {watch.key for watch in seen}
        return [watch for key, watch in self._ward.watches.items() if watch.wanted_at is not None and key not in known]

    async def _isolate(self, wanted: list[Watch], now: float) -> None:
        """Whom to isolate. What others show as well is the fleet's trouble, and nobody is isolated for it: but whoever
        obeys a tool at such a time is.
        """
        for watch in sorted(wanted, key=lambda watch: -watch.sigma):
            verdict = self._correlator.verdict(watch.cohorts, watch.kinds, now)
            if verdict.spread is Spread.FLEET_WIDE and (own := self._obeyed(watch, watch.evidence, now)):
                verdict = self._correlator.verdict(watch.cohorts, own, now)
            if verdict.spread is Spread.FLEET_WIDE:
                watch.wanted_at = None
                await self._alert(watch, verdict, now)
                if watch.phase is Phase.HEALTHY:
                    await self._ward.move(
                        Move(watch=watch, event=PhaseEvent.ANOMALY, cause=f"{verdict.kind} in {verdict.cohort.name}")
                    )
            elif watch.wanted_at is not None and now - watch.wanted_at >= self._doctrine.settle_seconds:
                await self._escalate(watch, verdict)

    def _obeyed(self, watch: Watch, evidence: Iterable[Evidence], now: float) -> list[str]:
        """What shows that an agent is led by its tools, and few others are: no provider and no machine does that."""
        shown = dict.fromkeys(one.kind for one in evidence if one.kind in OBEYS and one.sigma >= BEHAVIOUR_SIGMA)
        spreads = {kind: self._correlator.verdict(watch.cohorts, [kind], now).spread for kind in shown}
        return [kind for kind, spread in spreads.items() if spread is not Spread.FLEET_WIDE]

    async def _escalate(self, watch: Watch, verdict: Verdict) -> None:
        project = watch.key[0]  # each is a fleet of its own: who isolates many of his own spares no one else's
        isolated = sum(one.key[0] == project and not self._archive.gone(one) for one in self._ward.isolated)
        size = max(self._fleet_size(project), self._correlator.heard(project, self._clock.monotonic()), isolated)
        if isolated >= max(1, int(self._doctrine.isolated_share * size)):
            if not watch.capped:
                watch.capped = True
                self._ward.counts.capped += 1
                problem = f"{isolated} of {size} agents are isolated, which is the most"
                await self._tell(project, watch.key[1], "cap", {"problem": problem, "sigma": watch.sigma})
            return
        cause = in_words(watch.evidence)
        cohort = FIRE_DRILL if watch.drill else verdict.cohort.name
        incident = replace(self.diagnose(watch, verdict.spread), cohort=cohort)
        if await self.order(watch, PhaseEvent.ESCALATE, incident=incident, cause=cause):
            log.warning("%s is isolated: %s", watch.key[1], cause)

    async def order(
        self, watch: Watch, event: PhaseEvent, *, incident: Incident, cause: str, actor: str | None = None
    ) -> bool:
        """Begin to isolate an agent: the phase is stored first, then its gates are narrowed."""
        now, patient, doctrine = self._clock.now_ms(), watch.patient, self._doctrine
        recent = now - patient.quarantined_at_ms < doctrine.quarantine_memory_seconds * 1000
        times = patient.quarantines if recent else 0
        least = doctrine.quarantine_seconds * 2 ** min(times - 1, 10) if times else 0.0
        changes = {
            "sigma": watch.sigma,
            "drain_until_ms": Millis(now + int(doctrine.drain_seconds * 1000)),
            "not_before_ms": Millis(now + int(least * 1000)),
            "quarantines": times if watch.drill else times + 1,
            "quarantined_at_ms": patient.quarantined_at_ms if watch.drill else now,
        }
        move = Move(watch=watch, event=event, cause=cause, incident=incident, changes=changes)
        if not await self._ward.move(move if actor is None else replace(move, actor=actor)):
            return False
        await self._enforcement.bring(watch.patient)
        await self._healer.step(watch)
        return True

    def diagnose(self, watch: Watch, spread: Spread = Spread.AGENT_SPECIFIC) -> Incident:
        """An incident out of what was seen."""
        evidence = tuple(watch.evidence)
        return Incident(
            incident_id=IncidentId(f"inc_{self._ids.scope()}"),
            project=watch.key[0],
            agent_id=watch.key[1],
            opened_at_ms=self._clock.now_ms(),
            spread=spread,
            sigma=watch.sigma,
            evidence=evidence,
            hypotheses=self._diagnostician.diagnose(evidence, spread=spread),
        )

    # --- the fleet's own trouble ---------------------------------------------------------------------------

    async def _alert(self, watch: Watch, verdict: Verdict, now: float) -> None:
        """Say it once, name the cohort, and let out whoever was isolated for it before it was understood."""
        project, cohort = watch.key[0], verdict.cohort.name  # each project is told of its own agents
        place = (project, cohort, verdict.kind)
        explained = any((owner, name) == (project, cohort) for owner, name, _ in self._alerts)
        hit, comparable = self._correlator.agents(verdict, project)
        if place in self._alerts:
            self._alerts[place] = (self._alerts[place][0], now)
            return
        incident = Incident(
            incident_id=IncidentId(f"inc_{self._ids.scope()}"),
            project=project,
            agent_id=None,
            opened_at_ms=self._clock.now_ms(),
            spread=Spread.FLEET_WIDE,
            cohort=cohort,
            agents=tuple(hit[:AGENTS_NAMED_MAX]),
            sigma=watch.sigma,
            evidence=tuple(watch.evidence)[-8:],
            hypotheses=self._diagnostician.diagnose(tuple(watch.evidence), spread=Spread.FLEET_WIDE),
            outcome="alerted",
        )
        self._alerts[place] = (incident, now)
        if explained:
            return  # another side of the same trouble
        self._ward.counts.alerts += 1
        await self._ward.store.save(Chart(incidents=(incident,)))
        said = {"incident_id": incident.incident_id, "kind": verdict.kind, "affected": len(hit)}
        await self._tell(project, cohort, "fleet_wide", {**said, "comparable": comparable})
        await self._let_victims_out(verdict, incident, now)

    async def _let_victims_out(self, verdict: Verdict, incident: Incident, now: float) -> None:
        for key in list(self._ward.unsettled):
            watch = self._ward.watches[key]
            own = watch.incident
            if own is None or watch.phase is not Phase.QUARANTINED or own.cohort in LEFT_ALONE:
                continue
            known = watch.cohorts or key[0] != incident.project  # one that was not heard since a restart has none
            if (known and verdict.cohort not in watch.cohorts) or self._obeyed(watch, own.evidence, now):
                continue
            age_ms = incident.opened_at_ms - own.opened_at_ms
            kinds = {one.kind for one in own.evidence}
            if verdict.kind in kinds and age_ms <= self._doctrine.correlation_seconds * 1000:
                cause = f"it was {verdict.cohort.name}'s trouble"
                await self._healer.let_out(watch, cause=cause, actor="immune system")

    async def _close_alerts(self) -> None:
        now = self._clock.monotonic()
        for place, (incident, seen_at) in list(self._alerts.items()):
            if now - seen_at > self._doctrine.correlation_seconds:
                del self._alerts[place]
                closed = replace(incident, closed_at_ms=self._clock.now_ms(), outcome="passed")
                if await self._ward.store.incident(incident.project, incident.incident_id) is not None:
                    await self._ward.store.save(Chart(incidents=(closed,)))

    async def _tell(self, project: ProjectId, target: str, what: str, said: dict[str, object]) -> None:
        event_id = f"alr_{self._ids.scope()}"
        payload = to_json({"alert": what, "about": target, **said})
        await self._ward.publish(Event(event_id, project, Channel.EVT, "immune", target, "alert", payload))

    # --- keeping it so -------------------------------------------------------------------------------------

    def to_be_held(self) -> list[Patient]:
        """Everybody who is isolated, and those of whom it is not known that they are let out."""
        isolated = {key for key in self._ward.unsettled if self._ward.watches[key].phase in ISOLATED}
        keys = isolated | (self._enforcement.unsettled & self._ward.watches.keys())
        return [self._ward.watches[key].patient for key in sorted(keys)]


def _rows(watch: Watch) -> Rows:
    return np.fromiter(watch.rows.values(), np.intp)
