"""Questions to operators: asked about one action on one body of evidence, answered once, by the first who does."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from homeostat.core.clock import Clock, Millis
from homeostat.core.enforcement_errors import AgentKilled
from homeostat.core.ids import ProjectId
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.immune import Approval, ApprovalId, ApprovalStatus, Chart
from homeostat.core.records.turn import AgentKey
from homeostat.immune.deciding import Deciding
from homeostat.immune.errors import ApprovalSettled, ApprovalUnknown
from homeostat.immune.healer import Healer
from homeostat.immune.questions import evidence_digest
from homeostat.immune.ward import Move, Ward
from homeostat.immune.watch import Watch


class Approvals:
    """Takes answers. What is answered moves the agent in the same commit, or nothing happens."""

    def __init__(
        self,
        *,
        ward: Ward,
        healer: Healer,
        watch_of: Callable[[AgentKey], Awaitable[Watch]],
        deciding: Deciding,
        clock: Clock,
    ) -> None:
        self._ward = ward
        self._healer = healer
        self._watch_of = watch_of
        self._deciding = deciding
        self._clock = clock

    async def approve(
        self, project: ProjectId, approval_id: ApprovalId, *, reason: str, actor: str, hours: float = 0.0
    ) -> Approval:
        """Say yes to one action on one body of evidence. The first answer stands, and is used once.

        With `hours` the same question about the same agent is not asked again for so long, and taken as answered.
        """
        async with self._deciding:
            answer, watch = await self._answer(project, approval_id, ApprovalStatus.APPROVED, reason, actor)
            if hours > 0:
                answer = replace(answer, stands_until_ms=Millis(self._clock.now_ms() + int(hours * 3_600_000)))
            changes = {"bound": (answer.diagnosis, answer.action), "approval_id": approval_id}
            move = Move(
                watch=watch,
                event=PhaseEvent.HEAL,
                cause=f"{actor} approved {answer.action.words}" + (f": {reason}" if reason else ""),
                actor=actor,
                changes=changes,
                chart=Chart(answered=(answer,)),
            )
            if not await self._ward.move(move):
                raise ApprovalSettled(approval_id=approval_id, state="answered meanwhile")
            self._ward.counts.approvals[answer.status] += 1
            await self._healer.step(watch)
            return answer

    async def reject(self, project: ProjectId, approval_id: ApprovalId, *, reason: str, actor: str) -> Approval:
        """Say no: the agent stays isolated until somebody heals or releases it."""
        async with self._deciding:
            answer, watch = await self._answer(project, approval_id, ApprovalStatus.REJECTED, reason, actor)
            move = Move(
                watch=watch,
                event=PhaseEvent.REJECT,
                cause=f"{actor} refused {answer.action.words}" + (f": {reason}" if reason else ""),
                actor=actor,
                chart=Chart(answered=(answer,)),
            )
            if not await self._ward.move(move):
                raise ApprovalSettled(approval_id=approval_id, state="answered meanwhile")
            self._ward.counts.approvals[answer.status] += 1
            return answer

    async def _answer(
        self, project: ProjectId, approval_id: ApprovalId, status: ApprovalStatus, reason: str, actor: str
    ) -> tuple[Approval, Watch]:
        approval = await self._ward.store.approval(project, approval_id)
        if approval is None:
            raise ApprovalUnknown(approval_id=approval_id)
        now = self._clock.now_ms()
        if approval.status is not ApprovalStatus.PENDING or approval.expires_at_ms <= now:
            settled = approval.status if approval.status is not ApprovalStatus.PENDING else ApprovalStatus.EXPIRED
            raise ApprovalSettled(approval_id=approval_id, state=settled)
        watch = await self._watch_of((project, approval.agent_id))
        if watch.patient.killed:
            raise AgentKilled(agent_id=approval.agent_id)
        incident = watch.incident
        current = incident is not None and evidence_digest(incident) == approval.evidence_digest
        if watch.phase is not Phase.QUARANTINED or not current:
            raise ApprovalSettled(approval_id=approval_id, state=f"about what is no longer so ({watch.phase})")
        if status is ApprovalStatus.APPROVED:
            for veto in await self._ward.store.vetoes_on(watch.key):
                if veto.step == approval.step:
                    raise ApprovalSettled(approval_id=approval_id, state=f"moot, as {veto.words}")
        answer = replace(approval, status=status, answered_at_ms=now, answered_by=actor, reason=reason)
        return answer, watch

    async def expire(self) -> None:
        """End questions that are about what is no longer so, that somebody vetoed, or that nobody answered.

        Whoever is still isolated is asked about again, after a veto with another remedy.
        """
        now = self._clock.now_ms()
        pending = await self._ward.store.approvals(None, status=ApprovalStatus.PENDING, before=None, limit=500)
        vetoes = await self._ward.store.vetoes() if pending else []
        for approval in pending:
            key = (approval.project, approval.agent_id)
            watch = self._ward.watches.get(key)
            moot = watch is None or watch.phase is not Phase.QUARANTINED or watch.patient.killed
            veto = next((one for one in vetoes if one.forbids(key, approval.step)), None)
            if approval.expires_at_ms <= now or moot or veto is not None:
                expired = replace(approval, status=ApprovalStatus.EXPIRED, answered_at_ms=now)
                if veto is not None:
                    expired = replace(expired, answered_by=veto.actor, reason=veto.words)
                if await self._ward.note(Chart(answered=(expired,))):
                    self._ward.counts.approvals[ApprovalStatus.EXPIRED] += 1
                    if not moot:
                        self._healer.ask_again(approval.incident_id)
