"""The one word for an agent in lists, put together from what the rooms know of it."""

from collections.abc import Mapping, Sequence

import msgspec

from homeostat.core.headline import headline, work_of
from homeostat.core.ids import AgentId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.head import Head
from homeostat.core.records.immune import ApprovalStatus
from homeostat.core.wire.fleet import AgentRow
from homeostat.server.call import Call


async def with_headlines(call: Call, rows: Sequence[AgentRow], *, after: AgentId | None) -> list[AgentRow]:
    """Rows in order of ids, all of them beyond `after`, with their headlines; agents may not know those of others."""
    if not rows or call.principal.kind is PrincipalKind.AGENT:
        return list(rows)
    heads = await _heads(call, after=after, until=rows[-1].agent_id)
    return await headed(call, rows, heads)


async def headed(call: Call, rows: Sequence[AgentRow], heads: Mapping[str, Head]) -> list[AgentRow]:
    """Rows with their headlines, where their heads are known already."""
    open_questions = await call.system.immune.store.approvals(
        call.project, status=ApprovalStatus.PENDING, before=None, limit=PAGE_MAX
    )
    asked = {one.agent_id for one in open_questions}
    return [
        msgspec.structs.replace(
            row, headline=headline(row.presence, row.phase, _work(row, heads), asked=row.agent_id in asked)
        )
        for row in rows
    ]


async def _heads(call: Call, *, after: AgentId | None, until: str) -> dict[str, Head]:
    found: dict[str, Head] = {}
    while True:
        views = await call.system.kernel.store.heads(call.project, after=after, limit=PAGE_MAX)
        found |= {one.head.agent_id: one.head for one in views}
        if len(views) < PAGE_MAX or views[-1].head.agent_id >= until:
            return found
        after = views[-1].head.agent_id


def _work(row: AgentRow, heads: Mapping[str, Head]) -> str:
    head = heads.get(row.agent_id)
    work = "idle" if head is None else work_of(head.gate, head.status, leased=head.worker_id is not None)
    return "registered" if work == "idle" and row.reported_status is None else work
