"""Questions to operators over HTTP: what would be done to whom and why, and the answers."""

from homeostat.core.clock import rfc3339
from homeostat.core.enforcement_errors import AgentKilled
from homeostat.core.errors import Forbidden, IllegalTransition, Unauthenticated
from homeostat.core.records.immune import Approval, ApprovalId, ApprovalStatus
from homeostat.core.wire import immune as w
from homeostat.immune.errors import ApprovalSettled, ApprovalUnknown
from homeostat.server import identity
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.immune import word_of
from homeostat.server.render import instant
from homeostat.server.sifting import asked, sifted

routes = Routes("immune system")


@routes.taking("GET", "/v1/immune/approvals", w.ApprovalsQuery, gives=w.ApprovalsPage)
async def list_approvals(call: Call, query: w.ApprovalsQuery) -> w.ApprovalsPage:
    """Questions to operators, newest first."""
    store = call.system.immune.store

    async def read(before: ApprovalId | None, limit: int) -> list[w.ApprovalShape]:
        found = await store.approvals(call.project, status=query.status, before=before, limit=limit)
        return [approval_shape(one) for one in found]

    found, following = await sifted(
        asked(call, "approvals", query.q),
        read,
        lambda one: ApprovalId(one.approval_id),
        cursor=None if query.cursor is None else ApprovalId(query.cursor),
        limit=query.limit,
    )
    return w.ApprovalsPage(approvals=found, next_cursor=following)


@routes.plain("GET", "/v1/immune/approvals/{approval_id}", gives=w.ApprovalShape, errors=(ApprovalUnknown,))
async def read_approval(call: Call) -> w.ApprovalShape:
    """One question, and its answer."""
    approval_id = ApprovalId(word_of(call, "approval_id"))
    found = await call.system.immune.store.approval(call.project, approval_id)
    if found is None:
        raise ApprovalUnknown(approval_id=approval_id)
    return approval_shape(found)


@routes.taking(
    "POST",
    "/v1/immune/approvals/approve-all",
    w.ReasonBody,
    gives=w.Answered,
    errors=(Forbidden, Unauthenticated),
)
async def approve_all(call: Call, body: w.ReasonBody) -> w.Answered:
    """Say yes to every question that is open now."""
    await identity.require_operator(call, verb="answer", what="approvals")
    immune = call.system.immune
    pending = await immune.store.approvals(call.project, status=ApprovalStatus.PENDING, before=None, limit=500)
    approved: list[w.ApprovalShape] = []
    settled: list[str] = []
    for one in reversed(pending):
        try:
            answer = await immune.approvals.approve(
                call.project, one.approval_id, reason=body.reason, actor=call.actor(body.actor)
            )
            approved.append(approval_shape(answer))
        except (ApprovalSettled, IllegalTransition, AgentKilled):
            settled.append(one.approval_id)
    return w.Answered(approved=approved, settled=settled)


@routes.taking(
    "POST",
    "/v1/immune/approvals/{approval_id}/approve",
    w.ApproveBody,
    gives=w.ApprovalShape,
    errors=(ApprovalUnknown, ApprovalSettled, Forbidden, Unauthenticated),
)
async def approve(call: Call, body: w.ApproveBody) -> w.ApprovalShape:
    """Say yes: it is tried once, on what was asked about; for `hours` also without asking when the same comes again."""
    await identity.require_operator(call, verb="answer", what="approvals")
    approval_id = ApprovalId(word_of(call, "approval_id"))
    answer = await call.system.immune.approvals.approve(
        call.project, approval_id, reason=body.reason, actor=call.actor(body.actor), hours=body.hours
    )
    return approval_shape(answer)


@routes.taking(
    "POST",
    "/v1/immune/approvals/{approval_id}/reject",
    w.ReasonBody,
    gives=w.ApprovalShape,
    errors=(ApprovalUnknown, ApprovalSettled, Forbidden, Unauthenticated),
)
async def reject(call: Call, body: w.ReasonBody) -> w.ApprovalShape:
    """Say no: the agent stays isolated until somebody heals or releases it."""
    await identity.require_operator(call, verb="answer", what="approvals")
    approval_id = ApprovalId(word_of(call, "approval_id"))
    answer = await call.system.immune.approvals.reject(
        call.project, approval_id, reason=body.reason, actor=call.actor(body.actor)
    )
    return approval_shape(answer)


def approval_shape(approval: Approval) -> w.ApprovalShape:
    return w.ApprovalShape(
        approval_id=approval.approval_id,
        agent_id=approval.agent_id,
        incident_id=approval.incident_id,
        action=approval.action,
        diagnosis=approval.diagnosis,
        sigma=approval.sigma,
        evidence_digest=approval.evidence_digest,
        why=approval.why,
        status=approval.status,
        asked_at=rfc3339(approval.asked_at_ms),
        expires_at=rfc3339(approval.expires_at_ms),
        answered_at=instant(approval.answered_at_ms),
        answered_by=approval.answered_by,
        reason=approval.reason,
        stands_until=instant(approval.stands_until_ms),
    )
