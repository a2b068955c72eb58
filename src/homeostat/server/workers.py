"""Turns for workers elsewhere: the port that workers see, over HTTP.

Writing cards, suspending and handing back honour an Idempotency-Key. Every other call may simply be repeated: a claim
answered into the void is answered again, a beat is a beat, a step is stored once, and a delivery that is repeated has
happened.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from homeostat.app.sessions import RemoteSession
from homeostat.core.codec import take_json
from homeostat.core.errors import (
    AgentUnknown,
    BoxNotYours,
    BoxReadOnly,
    BoxUnknown,
    DepthExceeded,
    Forbidden,
    IdempotencyKeyReused,
    InvalidRequest,
    Overloaded,
    ResultFieldsMissing,
    StaleEpoch,
    TurnUnknown,
    WorkerUnknown,
)
from homeostat.core.ids import AgentId, ProjectId, ToolCallId, WorkerId, is_within, mark_in
from homeostat.core.records.turn import AgentKey, Grant, ToolCall
from homeostat.core.records.work import Ask, Fence
from homeostat.core.wire import workers as w
from homeostat.core.wire.fields import NO_VALUE
from homeostat.server import identity, names, render
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.messages import result_fields
from homeostat.server.turns import drafts

routes = Routes("workers")

FENCED = (WorkerUnknown, TurnUnknown, AgentUnknown, StaleEpoch, Forbidden)


def _session(call: Call) -> RemoteSession:
    """The session that a path names; a caller with bounds has only its own."""
    worker_id = call.parameters["worker_id"]
    identity.require_own_worker(call, worker_id)
    return call.system.workers.get(worker_id)


def _keys(call: Call, agents: tuple[w.AgentRef, ...], mark: str) -> list[AgentKey]:
    """Whose turns are asked for, wherever the body says they are: no more than the worker's mark allows."""
    keys = [names.key_in(ProjectId(ref.project or call.project), ref.agent_id) for ref in agents]
    for key in keys:
        _require_within(mark, key, verb="take turns of")
    return keys


async def _require_registered(call: Call, keys: list[AgentKey]) -> None:
    """A worker waits for turns of agents that there are: of a name that nobody has it would hear nothing, for ever."""
    known = await call.system.kernel.store.registered(keys) if keys else ()
    for project, agent_id in keys:
        if (project, agent_id) not in known:
            raise AgentUnknown(agent_id=agent_id, project=project)


def _require_within(mark: str, key: AgentKey, *, verb: str) -> None:
    if not is_within(mark, *key):
        raise Forbidden(verb=verb, object=f"agent {key[1]!r} of project {key[0]!r}")


@asynccontextmanager
async def _holding(
    call: Call, body: w.FencedBody, *, repeated: bool = False
) -> AsyncGenerator[tuple[RemoteSession, Grant], None]:
    """The session and the turn that a request is about, which is one of an agent that the session may act for."""
    session = _session(call)
    key = names.key_in(call.project, body.agent_id)
    _require_within(session.mark, key, verb="work on turns of")
    turn_id = names.turn_id(call.parameters["turn_id"])
    with session.presence(), session.writing(turn_id, body.epoch):
        yield session, await session.grant(key, turn_id, body.epoch, repeated=repeated)


# --- coming and going ------------------------------------------------------------------------------------------


@routes.taking(
    "POST", "/v1/workers", w.SessionBody, gives=w.SessionShape, status=201, errors=(AgentUnknown, Forbidden, Overloaded)
)
async def open_session(call: Call, body: w.SessionBody) -> w.SessionShape:
    """Begin to take turns, or come back after the server was restarted.

    A worker that comes back names itself and the turns it works on. What it does not name goes to others; what is no
    longer its own is answered as revoked.
    """
    worker_id, mark = None, identity.mark(call)
    if body.worker_id is not None:
        identity.require_own_worker(call, body.worker_id)
        worker_id, mark = WorkerId(body.worker_id), mark_in(body.worker_id)
    hosted = _keys(call, body.agents, mark)
    holding = _fences(body.holding, worker_id, mark)
    await _require_registered(call, hosted)
    session, revoked = await call.system.workers.open(hosted, worker_id, holding, mark=mark)
    return w.SessionShape(
        worker_id=session.worker_id,
        lease_seconds=session.local.lease_seconds,
        revoked=render.held(revoked),
    )


def _fences(holding: tuple[w.HeldTurn, ...], worker_id: WorkerId | None, mark: str) -> list[Fence]:
    """What a worker brings along; one that has no id yet can hold nothing."""
    fences: list[Fence] = []
    for turn in holding:
        key = names.key_in(ProjectId(turn.project), turn.agent_id)
        _require_within(mark, key, verb="hold turns of")
        if worker_id is not None:
            fences.append(Fence(key, names.turn_id(turn.turn_id), turn.epoch, worker_id))
    return fences


@routes.taking(
    "POST", "/v1/workers/{worker_id}/agents", w.HostBody, status=204, errors=(WorkerUnknown, AgentUnknown, Forbidden)
)
async def host_agents(call: Call, body: w.HostBody) -> Answer:
    """Take turns of more agents. Each of them is registered; one that comes later is hosted later."""
    session = _session(call)
    keys = _keys(call, body.agents, session.mark)
    with session.presence():
        await _require_registered(call, keys)
        await session.local.host(keys)
    return NOTHING


@routes.taking("POST", "/v1/workers/{worker_id}/claim", w.ClaimBody, gives=w.Grants, errors=(WorkerUnknown, Forbidden))
async def claim_turns(call: Call, body: w.ClaimBody) -> w.Grants:
    """Up to `limit` turns; the request is held open until there is one or the time is over."""
    session = _session(call)
    with session.presence():
        grants = await session.claim(body.limit, 0.0, body.holding)
        if not grants and body.wait > 0:
            waiting = session.claim(body.limit, body.wait, body.holding)
            grants = await call.patience.wait(waiting, call.hung_up()) or []
    return w.Grants(grants=tuple(map(render.grant, grants)))


@routes.taking("POST", "/v1/workers/{worker_id}/renew", w.RenewBody, gives=w.Revoked, errors=(WorkerUnknown, Forbidden))
async def renew_lease(call: Call, body: w.RenewBody) -> w.Revoked:
    """Beat; the answer lists turns that are no longer the worker's, and comes at once when there is one."""
    session = _session(call)
    named = _fences(body.held, session.worker_id, session.mark)
    with session.presence():
        if body.wait > 0:
            renewing = session.renew(body.wait, body.holding, named)
            revoked = await call.patience.wait(renewing, call.hung_up()) or []
        else:
            revoked = await session.renew(0.0, body.holding, named)
    return w.Revoked(revoked=render.held(revoked))


@routes.plain("DELETE", "/v1/workers/{worker_id}", status=204, errors=(WorkerUnknown, Forbidden))
async def close_session(call: Call) -> Answer:
    """Leave; turns still held go to others at once, and cost no attempt."""
    await call.system.workers.close(_session(call).worker_id)
    return NOTHING


# --- working ---------------------------------------------------------------------------------------------------


@routes.taking(
    "GET",
    "/v1/workers/{worker_id}/turns/{turn_id}/hydration",
    w.HydrationQuery,
    gives=w.HydrationShape,
    errors=(WorkerUnknown, TurnUnknown, StaleEpoch, Forbidden),
)
async def hydrate(call: Call, query: w.HydrationQuery) -> w.HydrationShape:
    """What a worker needs to begin or continue a turn it holds: stored steps, context, what the turn wrote before."""
    session = _session(call)
    kernel = call.system.kernel
    with session.presence():
        turn_id = names.turn_id(call.parameters["turn_id"])
        view = await kernel.store.turn(call.project, turn_id)
        if view is None:
            raise TurnUnknown(turn_id=turn_id)
        _require_within(session.mark, view.turn.key, verb="work on turns of")
        if view.worker_id != session.worker_id:
            raise StaleEpoch(turn_id=turn_id, worker_id=session.worker_id, epoch=view.epoch or 0)
        return render.hydration(await kernel.store.hydrate(view.turn, fresh=query.fresh))


@routes.taking("POST", "/v1/workers/{worker_id}/turns/{turn_id}/steps", w.StepBody, status=204, errors=FENCED)
async def store_step(call: Call, body: w.StepBody) -> Answer:
    """Remember a step's outcome; the first one stored is the one that is replayed."""
    outcome = take_json(bytes(body.outcome), what="outcome")
    async with _holding(call, body) as (session, grant):
        await session.local.step(grant, body.name, outcome)
    return NOTHING


@routes.taking(
    "POST",
    "/v1/workers/{worker_id}/turns/{turn_id}/cards",
    w.WriteBody,
    gives=w.CardIds,
    status=201,
    errors=(*FENCED, IdempotencyKeyReused),
)
async def write_cards(call: Call, body: w.WriteBody) -> w.CardIds:
    """Append cards to the turn's output."""
    key = call.idempotency
    async with _holding(call, body, repeated=key is not None) as (session, grant):
        ids = await session.local.write(grant, drafts(body.cards), idempotency=key)
    return w.CardIds(card_ids=ids)


@routes.taking(
    "POST",
    "/v1/workers/{worker_id}/turns/{turn_id}/boxes",
    w.SwapBody,
    status=204,
    errors=(*FENCED, BoxUnknown, BoxNotYours, BoxReadOnly),
)
async def swap_boxes(call: Call, body: w.SwapBody) -> Answer:
    """Point the turn at other boxes, as compression does."""
    async with _holding(call, body) as (session, grant):
        await session.local.swap_boxes(
            grant,
            context_box_id=names.optional_box_id(body.context_box_id),
            output_box_id=names.optional_box_id(body.output_box_id),
        )
    return NOTHING


@routes.taking(
    "POST",
    "/v1/workers/{worker_id}/turns/{turn_id}/suspend",
    w.SuspendBody,
    gives=w.SuspendedShape,
    errors=(*FENCED, BoxUnknown, DepthExceeded, InvalidRequest, IdempotencyKeyReused),
)
async def suspend_turn(call: Call, body: w.SuspendBody) -> w.SuspendedShape:
    """Wait for tools and for other agents' turns, holding nothing.

    Unless the answer is `ready` the turn is granted again, to any worker, when the last result is in.
    """
    key = call.idempotency
    async with _holding(call, body, repeated=key is not None) as (session, grant):
        suspended = await session.local.suspend(
            grant,
            tuple(map(_tool_call, body.calls)),
            asks=tuple(map(_ask, body.asks)),
            cards=drafts(body.cards),
            idempotency=key,
        )
        if not suspended.ready:
            session.ended(grant.turn.turn_id, grant.epoch)
    return w.SuspendedShape(waits=tuple(map(render.wait, suspended.waits)), ready=suspended.ready)


@routes.taking(
    "POST",
    "/v1/workers/{worker_id}/turns/{turn_id}/deliver",
    w.DeliverBody,
    gives=w.DeliveredShape,
    errors=(*FENCED, ResultFieldsMissing),
)
async def deliver_turn(call: Call, body: w.DeliverBody) -> w.DeliveredShape:
    """End the turn with its deliverable; with `claim_next` the agent's next turn comes along."""
    async with _holding(call, body) as (session, grant):
        delivered = await session.local.deliver(
            grant,
            status=body.status,
            result=take_json(bytes(body.result), what="result"),
            error=None if body.error == NO_VALUE else take_json(bytes(body.error), what="error"),
            cards=drafts(body.cards),
            recording=None if body.recording == NO_VALUE else take_json(bytes(body.recording), what="recording"),
            claim_next=body.claim_next,
        )
        session.ended(grant.turn.turn_id, grant.epoch, delivered.next)
    following = None if delivered.next is None else render.grant(delivered.next)
    return w.DeliveredShape(card_id=delivered.card_id, next=following)


@routes.taking(
    "POST",
    "/v1/workers/{worker_id}/turns/{turn_id}/release",
    w.FencedBody,
    status=204,
    errors=(*FENCED, IdempotencyKeyReused),
)
async def release_turn(call: Call, body: w.FencedBody) -> Answer:
    """Hand a turn back unharmed; it costs no attempt."""
    key = call.idempotency
    async with _holding(call, body, repeated=key is not None) as (session, grant):
        await session.local.release(grant, idempotency=key)
        session.ended(grant.turn.turn_id, grant.epoch)
    return NOTHING


@routes.taking("POST", "/v1/workers/{worker_id}/turns/{turn_id}/chunks", w.ChunkBody, status=204, errors=FENCED)
async def emit_chunk(call: Call, body: w.ChunkBody) -> Answer:
    """Stream a chunk of output; whoever is not listening misses it."""
    chunk = take_json(bytes(body.chunk), what="chunk")
    async with _holding(call, body) as (session, grant):
        await session.local.emit(grant, chunk)
    return NOTHING


def _tool_call(body: w.CallBody) -> ToolCall:
    return ToolCall(
        ToolCallId(body.tool_call_id),
        body.tool,
        take_json(bytes(body.args), what="args"),
        body.timeout_seconds,
        body.after_execution,
        body.step_id,
    )


def _ask(body: w.AskBody) -> Ask:
    return Ask(
        call_id=ToolCallId(body.tool_call_id),
        agent_id=AgentId(body.agent_id),
        payload=take_json(bytes(body.payload), what="payload"),
        timeout_seconds=body.timeout_seconds,
        step_id=body.step_id,
        context_box_id=names.optional_box_id(body.context_box_id),
        result_fields=result_fields(body.result_fields),
    )
