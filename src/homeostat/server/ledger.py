"""Ledgers over HTTP: read by pages or as they grow, sealed, checked, replayed and taken along."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from homeostat.adapters.upstreams.simulated import SimulatedUpstream
from homeostat.app.inner_gateway import InnerGateway
from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import CURSOR_MAX, EVENT_BEAT_SECONDS, NAME_CHARS_MAX, PAGE_MAX
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.provenance import Entry
from homeostat.core.records.run import Run
from homeostat.core.run_errors import LedgerSwept, RunNotRecorded, RunUnknown
from homeostat.core.wire import ledger as w
from homeostat.runs.bundle import SUFFIX
from homeostat.runs.ledgers import Ledgers
from homeostat.runs.replaying.casting import cast_from
from homeostat.runs.replaying.changes import Changes, replay_changed
from homeostat.runs.replaying.journal import Mode
from homeostat.runs.shapes import replay_shape, verdict_shape
from homeostat.runs.verify import LedgerBroken
from homeostat.server import identity
from homeostat.server.answers import Answer, StreamedAnswer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.sifting import asked, sifted

routes = Routes("runs")

STREAM: Final = "text/event-stream"
BUNDLE: Final = "application/gzip"
LIVE_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
LOOK_SECONDS: Final = 0.25
CURSOR_DIGITS: Final = len(str(CURSOR_MAX)) + 1  # of more, so many are beyond it already

_encode = msgspec.json.Encoder().encode


@routes.taking("GET", "/v1/runs/{run_id}/ledger", w.LedgerQuery, gives=w.LedgerPage, errors=(RunUnknown, LedgerSwept))
async def read_ledger(call: Call, query: w.LedgerQuery) -> w.LedgerPage:
    """What happened in a run: transitions, tasks, calls of models and tools, and acts of operators."""
    project, run_id, ledgers = await _ledger(call)

    async def read(seen: int | None, limit: int) -> list[w.EntryShape]:
        if query.order == "oldest":
            found = await ledgers.entries(project, run_id, after=seen or 0, limit=limit)
        else:
            end = (await _run(call)).tip.next_seq
            before = min(seen or end, end)  # it is counted down from there
            found = await ledgers.newest(project, run_id, before=before, limit=limit)
        return [_entry(one) for one in found]

    found, following = await sifted(
        asked(call, "ledger", query.q), read, lambda one: one.seq, cursor=query.cursor, limit=query.limit
    )
    return w.LedgerPage(entries=found, next_cursor=following)


@routes.taking("GET", "/v1/runs/{run_id}/ledger/live", w.LiveQuery, media_type=STREAM, errors=(RunUnknown, LedgerSwept))
async def follow_ledger(call: Call, query: w.LiveQuery) -> Answer:
    """The same as server-sent events, as it grows; it ends with the run.

    An event's id is its number: come back with the last one (`Last-Event-ID`, or `cursor`) and nothing is missed.
    """
    project, run_id, _ = await _ledger(call)
    shown = next((value for name, value in call.scope["headers"] if name == b"last-event-id"), b"")
    after = min(int(shown[:CURSOR_DIGITS]), CURSOR_MAX) if shown.isdigit() else query.cursor
    return StreamedAnswer(
        200, b"", STREAM.encode(), LIVE_HEADERS, parts=_live(call, project, run_id, after), close=lambda: None
    )


@routes.plain("GET", "/v1/runs/{run_id}/export", media_type=BUNDLE, errors=(RunUnknown, LedgerBroken, LedgerSwept))
async def export_run(call: Call) -> Answer:
    """The run as one file: its signed heads, then its ledger line by line, packed with gzip.

    `homeostat verify FILE` and `homeostat replay FILE` read it, on any machine and without a server.
    """
    project, run_id, ledgers = await _ledger(call)
    await ledgers.heads(run_id)  # one that cannot be read is told of before a file is begun
    name = f'attachment; filename="{run_id}{SUFFIX}"'.encode()
    headers = ((b"content-disposition", name), (b"cache-control", b"no-store"))
    parts = ledgers.export(project, run_id)
    return StreamedAnswer(200, b"", BUNDLE.encode(), headers, parts=parts, close=lambda: None)


@routes.plain("GET", "/v1/runs/{run_id}/head", gives=w.HeadShape, errors=(RunUnknown, LedgerBroken, LedgerSwept))
async def read_ledger_head(call: Call) -> w.HeadShape:
    """The ledger's head, signed: keep it somewhere else, and no change of the ledger goes unnoticed."""
    run, ledgers = await _run(call), call.system.runs.ledgers
    head = None if run.swept_at_ms is None else await ledgers.last_head(run.run_id)
    if head is None:
        project, run_id, _ = await _ledger(call)
        head = await ledgers.seal(project, run_id)
    return msgspec.convert(head, w.HeadShape, from_attributes=True)


@routes.plain("GET", "/v1/runs/{run_id}/verify", gives=w.VerdictShape, errors=(RunUnknown, LedgerSwept))
async def verify_run(call: Call) -> w.VerdictShape:
    """Read the whole ledger and say whether it is as it was written and signed.

    It is this server that says so; `homeostat verify` checks for itself.
    """
    project, run_id, ledgers = await _ledger(call)
    return verdict_shape(await ledgers.verify(project, run_id))


@routes.taking(
    "POST",
    "/v1/runs/{run_id}/replay",
    w.ReplayBody,
    gives=w.ReplayShape,
    errors=(RunUnknown, LedgerSwept, RunNotRecorded, InvalidRequest, Forbidden, Unauthenticated),
    examples={
        "as it was recorded": {"mode": "exact"},
        "models asked anew": {"mode": "re-model"},
        "another prompt": {"mode": "what-if", "prompt": "Answer in one sentence.", "model": "gpt-5-mini"},
        "another policy": {
            "mode": "what-if",
            "policy": {"models": {"deny": ["gpt-*"]}, "tools": {"deny": ["delete_*"]}},
        },
    },
)
async def replay_run(call: Call, body: w.ReplayBody) -> w.ReplayShape:
    """Run the agents' code again on what was recorded, and say where it differs.

    An `exact` replay asks nobody. `re-model` and `what-if` send model calls through this server's gateway in the
    agents' names, so their policies and budgets hold, and the calls are in the log; they count for no run.

    The server imports no code but Homeostat's own and that of modules its setting `replay_modules` names; for agents
    whose code is elsewhere, `homeostat replay RUN` does the same where that code is.
    """
    await identity.require_operator(call, verb="replay", what="runs")
    project, run_id, ledgers = await _ledger(call)
    modules, policy, mode = call.system.settings.replay_modules, body.policy, Mode(body.mode)
    changes = Changes(
        prompt=body.prompt,
        model=body.model,
        allow_models=policy.models.allow,
        deny_models=policy.models.deny,
        allow_tools=policy.tools.allow,
        deny_tools=policy.tools.deny,
    )
    if changes and mode is Mode.EXACT:
        raise InvalidRequest(problem="an exact replay changes nothing; say mode what-if with a prompt, model or policy")

    def allowed(module: str) -> bool:
        return module.partition(".")[0] == "homeostat" or module in modules

    report = await replay_changed(
        await ledgers.bundle(project, run_id),
        cast_from(body.agents, allowed, setting="replay_modules"),
        changes,
        mode=mode,
        upstream=None if mode is Mode.EXACT else _models(call, project, simulate=body.simulate_models),
    )
    return replay_shape(report)


def _models(call: Call, project: ProjectId, *, simulate: bool) -> Upstream:
    """Who answers model calls that are made anew."""
    return SimulatedUpstream() if simulate else InnerGateway(call.system.gateway.application, project)


async def _run(call: Call) -> Run:
    return await call.system.runs.get(call.project, RunId(call.parameters["run_id"][:NAME_CHARS_MAX]))


async def _ledger(call: Call) -> tuple[ProjectId, RunId, Ledgers]:
    run = await _run(call)
    if run.swept_at_ms is not None:
        raise LedgerSwept(run_id=run.run_id, at=rfc3339(run.swept_at_ms))
    return run.project, run.run_id, call.system.runs.ledgers


async def _live(call: Call, project: ProjectId, run_id: RunId, after: int) -> AsyncIterator[bytes]:
    runs, quiet = call.system.runs, 0.0
    yield b": the ledger as it grows\n\n"
    while True:
        run = await runs.get(project, run_id)
        found = await runs.ledgers.entries(project, run_id, after=after, limit=PAGE_MAX)
        if found:
            after, quiet = found[-1].seq, 0.0
            yield b"".join(b"id: %d\nevent: entry\ndata: %b\n\n" % (one.seq, _encode(_entry(one))) for one in found)
        elif run.final and not run.live:
            yield b"event: end\ndata: {}\n\n"
            return
        else:
            await asyncio.sleep(LOOK_SECONDS)
            quiet += LOOK_SECONDS
            if quiet >= EVENT_BEAT_SECONDS:
                quiet = 0.0
                yield b"event: beat\ndata: {}\n\n"


def _entry(entry: Entry) -> w.EntryShape:
    return w.EntryShape(
        seq=entry.seq,
        kind=entry.kind,
        at=rfc3339(entry.at_ms),
        payload=msgspec.Raw(entry.payload.encode()),
        hash=entry.hash,
    )
