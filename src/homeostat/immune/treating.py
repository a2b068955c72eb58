"""Gives one remedy at a time: claimed before it is given, and what became of it kept until the store has it."""

from dataclasses import dataclass, replace
from typing import Final

from homeostat.core.clock import Clock, Millis
from homeostat.core.ports.immune import Remedies
from homeostat.core.records.immune import Applied, Chart, Incident, Treatment
from homeostat.core.records.turn import AgentKey
from homeostat.immune.deciding import Deciding
from homeostat.immune.ladder import Step
from homeostat.immune.ward import Ward
from homeostat.immune.watch import Watch

TREATMENT_MS: Final = 60_000  # how long a treatment is left to the process that has begun it


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a treatment that is written down as begun, in an agent of this version."""

    version: int
    begun: Treatment
    treatment: Treatment

    def told_in(self, incident: Incident) -> Incident:
        told = tuple(self.treatment if one == self.begun else one for one in incident.treatments)
        return replace(incident, treatments=told)


class Treating:
    """Whom this process treats, and what it has heard of treatments that the store has not."""

    def __init__(self, *, ward: Ward, deciding: Deciding, remedies: Remedies, clock: Clock) -> None:
        self._ward = ward
        self._deciding = deciding
        self._remedies = remedies
        self._clock = clock
        self._claims: dict[AgentKey, Millis] = {}
        self.heard: dict[AgentKey, Heard] = {}

    async def claim(self, watch: Watch, incident: Incident) -> bool:
        """Whether this process is the one that treats: who approves may do so at another than the one that decides.

        An approval is used up by it, and what is begun is written down as such: whoever takes over from one that died
        in the middle, after a while as it may only be slow, goes on with what was not tried, and repeats nothing.
        """
        now, patient = self._clock.now_ms(), watch.patient
        own = self._claims.get(watch.key) == patient.treated_until_ms
        if not own and 0 < patient.treated_until_ms - now <= TREATMENT_MS:
            return False
        until = Millis(now + TREATMENT_MS)
        claimed = replace(patient, version=patient.version + 1, treated_until_ms=until, bound=None, approval_id=None)
        if not await self._ward.store.save(Chart(patients=(claimed,), incidents=(incident,))):
            await self._ward.reload(watch.key)
            return False
        watch.patient, watch.incident = claimed, incident
        self._claims[watch.key] = claimed.treated_until_ms
        return True

    def let_go(self, key: AgentKey) -> None:
        """An agent is treated no more."""
        self._claims.pop(key, None)

    def begun(self, watch: Watch, step: Step) -> Treatment:
        """A treatment as it is written down before it is given."""
        diagnosis, action = step
        return Treatment(
            action=action,
            diagnosis=diagnosis,
            applied=Applied.FAILED,
            note="it was begun, and nobody knows how it ended",
            at_ms=Millis(max(self._clock.now_ms(), watch.patient.forgiven_at_ms + 1)),  # it counts from then on
            approval_id=watch.patient.approval_id,
        )

    async def give(self, watch: Watch, begun: Treatment) -> None:
        """What became of it is kept from then on, as the store may be away when it is to be told."""
        action, why, version = begun.action, f"{begun.diagnosis}: {watch.patient.cause}"[:500], watch.patient.version
        async with self._deciding.lent():  # it may take seconds, and the agent is claimed
            applied, note = await self._remedies.apply(watch.key, action, why)
            at_ms = max(begun.at_ms, self._clock.now_ms())
            treatment = replace(begun, applied=applied, note=note, at_ms=at_ms)
            self.heard[watch.key] = Heard(version, begun, treatment)
        self._ward.counts.treated[action, applied] += 1
