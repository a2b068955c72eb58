"""Asks operators before what is grave is treated: once for each incident, and again where nobody answered."""

from collections.abc import Awaitable, Callable

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import to_json
from homeostat.core.ids import Ids, digest_of
from homeostat.core.machines.phase import PhaseEvent
from homeostat.core.records.immune import (
    Approval,
    ApprovalId,
    ApprovalStatus,
    Chart,
    Incident,
    IncidentId,
    Veto,
)
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.enforcement import Enforcement
from homeostat.immune.ladder import Step
from homeostat.immune.ward import Move, Ward
from homeostat.immune.watch import Watch

NextStep = Callable[[], Awaitable[tuple[Step | None, tuple[Veto, ...]]]]
"""What would be tried next, and what is passed over on the way to it."""


class Questions:
    """What was asked about whom, as far as this process knows."""

    def __init__(self, *, ward: Ward, enforcement: Enforcement, doctrine: Doctrine, clock: Clock, ids: Ids) -> None:
        self._ward = ward
        self._enforcement = enforcement
        self._doctrine = doctrine
        self._clock = clock
        self._ids = ids
        self._asked: set[str] = set()

    async def ask(self, watch: Watch, incident: Incident, next_step: NextStep) -> None:
        """Ask about the next remedy, unless that was done, or somebody has allowed it for a while."""
        if incident.incident_id in self._asked:
            return
        if await self._ask(watch, incident, next_step):
            self._asked.add(incident.incident_id)

    async def _ask(self, watch: Watch, incident: Incident, next_step: NextStep) -> bool:
        """Whether nothing more is to be asked now; what could not be stored is."""
        asked = await self._ward.store.approvals(watch.key[0], status=None, before=None, limit=500)
        before = [one for one in asked if one.incident_id == incident.incident_id]
        if any(one.status is not ApprovalStatus.EXPIRED for one in before):
            return True
        unanswered = sum(not one.answered_by for one in before)
        if unanswered >= self._doctrine.approval_rounds:
            await self._rest(watch, incident, f"nobody answered {unanswered} times")
            return True
        step, passed = await next_step()
        vetoed = "".join(f"; {one.words}" for one in passed)
        if step is None:
            await self._rest(watch, incident, f"no remedy is left to ask about{vetoed}")
            return True
        now = self._clock.now_ms()
        diagnosis, action = step
        standing = next((one for one in asked if one.covers(watch.key[1], diagnosis, action, now)), None)
        if standing is not None:
            cause = f"{standing.answered_by} approved {action.words} for a while" + (
                f": {standing.reason}" if standing.reason else ""
            )
            changes = {"bound": step, "approval_id": standing.approval_id}
            return await self._ward.move(
                Move(watch=watch, event=PhaseEvent.HEAL, cause=cause, actor=standing.answered_by, changes=changes)
            )
        approval = Approval(
            approval_id=ApprovalId(f"apr_{self._ids.scope()}"),
            project=watch.key[0],
            agent_id=watch.key[1],
            incident_id=incident.incident_id,
            action=action,
            diagnosis=diagnosis,
            sigma=incident.sigma,
            evidence_digest=evidence_digest(incident),
            why=f"{incident.sigma:.1f} sigma: {watch.patient.cause}{vetoed}"
            + (f" (asked {unanswered} times before, and nobody answered)" if unanswered else ""),
            asked_at_ms=now,
            expires_at_ms=Millis(now + int(self._doctrine.approval_seconds * 1000)),
        )
        stored = await self._ward.note(Chart(asked=(approval,)))
        self._ward.counts.approvals[ApprovalStatus.PENDING] += stored
        return stored

    async def _rest(self, watch: Watch, incident: Incident, why: str) -> None:
        why += "; it stays isolated until it is healed or released"
        await self._enforcement.tell(watch.key, "approval", {"why": why, "incident_id": incident.incident_id})

    def ask_again(self, incident_id: IncidentId) -> None:
        """A question has run out."""
        self._asked.discard(incident_id)

    def think_again(self) -> None:
        """A veto may have been lifted, or a question have run out while another process decided; the store knows."""
        self._asked.clear()


def evidence_digest(incident: Incident) -> str:
    """What an approval is bound to."""
    return digest_of(to_json([incident.incident_id, incident.evidence]))
