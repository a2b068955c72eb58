"""What operators did, over HTTP: read it, prove it, take it along."""

from typing import Final

import msgspec

from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, Unauthenticated
from homeostat.core.records.access import AuditEntry
from homeostat.core.wire import access as w
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.sifting import asked, sifted

routes = Routes("audit")

FIRST: Final = 1  # behind the first act there is nothing
EXPORTED_MAX: Final = 10_000
NDJSON: Final = b"application/x-ndjson"
_encode = msgspec.json.Encoder().encode


@routes.taking("GET", "/v1/audit", w.AuditQuery, gives=w.AuditPage, errors=(Forbidden, Unauthenticated))
async def list_audit(call: Call, query: w.AuditQuery) -> w.AuditPage:
    """What operators did, newest first: who, what, when, why, and what changed by it.

    An act is written down before it is tried (`requested`), and again when its end is known (`of_seq` says which).
    """

    async def read(before: int | None, limit: int) -> list[w.ActShape]:
        return [_act(entry) for entry in await call.system.access.store.audit(before=before, limit=limit)]

    scope = call.principal.project
    acts, following = await sifted(
        asked(call, "audit", query.q),
        read,
        lambda act: act.seq,
        cursor=query.cursor,
        limit=query.limit,
        visible=None if scope is None else lambda act: act.project == scope,
    )
    return w.AuditPage(items=acts, next_cursor=None if following == FIRST else following)


@routes.plain("GET", "/v1/audit/verify", gives=w.VerdictShape, errors=(Forbidden, Unauthenticated))
async def verify_audit(call: Call) -> w.VerdictShape:
    """Read the whole log and say whether it is as it was written."""
    verdict = await call.system.access.verify()
    return w.VerdictShape(
        valid=verdict.broken_at is None,
        entries=verdict.entries,
        head=verdict.head,
        broken_at=verdict.broken_at,
        problem=verdict.problem,
    )


@routes.taking(
    "GET", "/v1/audit/export", w.ExportQuery, errors=(Forbidden, Unauthenticated), media_type=NDJSON.decode()
)
async def export_audit(call: Call, query: w.ExportQuery) -> Answer:
    """The log, oldest first, an entry a line. Where there is more, the Link header has the next part."""
    entries = await call.system.access.store.audit_from(query.after, EXPORTED_MAX)
    lines = b"".join(_encode(_act(entry)) + b"\n" for entry in entries if _visible(call, entry))
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if len(entries) == EXPORTED_MAX:
        headers = ((b"link", f'</v1/audit/export?after={entries[-1].seq}>; rel="next"'.encode()),)
    return Answer(200, lines, NDJSON, headers)


def _visible(call: Call, entry: AuditEntry) -> bool:
    return call.principal.project in (None, entry.act.project)


def _act(entry: AuditEntry) -> w.ActShape:
    act = entry.act
    return w.ActShape(
        seq=entry.seq,
        at=rfc3339(act.at_ms),
        actor=act.actor,
        verb=act.verb,
        object=act.object,
        project=act.project,
        outcome=act.outcome,
        reason=act.reason,
        changes=msgspec.Raw(act.changes.encode()),
        trace_id=act.trace_id,
        of_seq=act.of_seq,
        previous=entry.previous,
        digest=entry.digest,
    )
