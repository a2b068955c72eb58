"""Turns over HTTP: send a message, follow its turn, read what came of it."""

from collections.abc import Awaitable, Callable

from homeostat.core.codec import take_json
from homeostat.core.errors import (
    AgentBusy,
    AgentUnknown,
    BoxInUse,
    BoxNotYours,
    BoxOfTurn,
    BoxReadOnly,
    BoxReferred,
    BoxUnknown,
    CardUnknown,
    DepthExceeded,
    Forbidden,
    GateClosed,
    IdempotencyKeyReused,
    InvalidRequest,
    QueueFull,
    TurnUnfinished,
    TurnUnknown,
    Unauthenticated,
    UnknownMessageType,
)
from homeostat.core.ids import RunId, ToolCallId, TraceId, TurnId
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.card import EMPTY_BOX, CardDraft
from homeostat.core.records.turn import OPENS_A_TURN, WaitStatus
from homeostat.core.records.view import HeadView, TurnView
from homeostat.core.run_errors import RunUnknown
from homeostat.core.wire import answers as a
from homeostat.core.wire import bodies as b
from homeostat.core.wire.orders import OrderBody
from homeostat.kernel.decide import first_answer
from homeostat.kernel.errors import TurnInactive
from homeostat.server import identity, messages, names, render
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.sifting import asked, sifted

routes = Routes("turns")


async def _turn(call: Call, turn_id: TurnId) -> TurnView:
    view = await call.system.kernel.store.turn(call.project, turn_id)
    if view is None:
        raise TurnUnknown(turn_id=turn_id)
    return view


# --- sending ---------------------------------------------------------------------------------------------------


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/inbox",
    b.Message,
    gives=a.Accepted,
    status=202,
    errors=(
        AgentUnknown,
        TurnUnknown,
        BoxUnknown,
        BoxNotYours,
        BoxReadOnly,
        UnknownMessageType,
        DepthExceeded,
        AgentBusy,
        GateClosed,
        QueueFull,
        RunUnknown,
        IdempotencyKeyReused,
    ),
    examples={
        "a turn": {"type": "turn", "payload": {"question": "How many people live in Lisbon?"}},
        "with required fields": {
            "type": "turn",
            "payload": "Summarise the report",
            "result_fields": [{"name": "summary"}, {"name": "sources", "required": False}],
        },
        "a tool's result": {
            "type": "tool_result",
            "payload": {"turn_id": "turn_0123456789abcdef01234567", "tool_call_id": "call_1", "result": 42},
        },
    },
)
async def send_message(call: Call, message: b.Message) -> a.Accepted:
    """Put a message into an agent's inbox.

    It is durable when this answers. One message is one turn, unless its type is about a turn that exists.
    """
    key = names.agent_key(call)
    kind = messages.message_type(message.type)
    idempotency = call.idempotency
    if kind not in OPENS_A_TURN:
        await identity.require_operator_or(call, key[1], verb="speak of the turns of")
        accepted = await messages.forward(call.system.kernel, key, kind, message, idempotency)
        call.trace_id = TraceId(accepted.trace_id)
        return accepted
    source = await identity.speaker(call, message.source_agent_id)
    kernel, parent = call.system.kernel, None
    try:
        if message.parent_turn_id is not None:
            parent = (await _turn(call, names.turn_id(message.parent_turn_id))).turn
            await identity.require_operator_or(call, parent.agent_id, verb="send messages of a turn of")
        if message.run_id is not None:
            run = await call.system.runs.get(call.project, RunId(message.run_id))
            identity.require_own_run(call, run.run_id, parent)
    except (TurnUnknown, RunUnknown):  # it may have been accepted before what it names was forgotten
        said = messages.enqueue_of(key, kind, message, call.trace_id, idempotency, source=source, parent=None)
        if (enqueued := await first_answer(kernel.store, said)) is None:
            raise
    else:
        command = messages.enqueue_of(key, kind, message, call.trace_id, idempotency, source=source, parent=parent)
        enqueued = await kernel.enqueue(command)
    call.trace_id = enqueued.trace_id
    return a.Accepted(inbox_id=enqueued.inbox_id, turn_id=enqueued.turn_id, trace_id=enqueued.trace_id)


@routes.taking(
    "POST",
    "/v1/turns/{turn_id}/results",
    b.ToolResult,
    gives=a.ReportedShape,
    errors=(TurnUnknown, IdempotencyKeyReused),
    examples={"success": {"tool_call_id": "call_1", "status": "success", "result": {"population": 545_000}}},
)
async def report(call: Call, result: b.ToolResult) -> a.ReportedShape:
    """Bring a tool's result to the turn that waits for it.

    A late, repeated or foreign result is acknowledged and changes nothing.
    """
    reported = await call.system.kernel.report(
        call.project,
        names.turn_id(call.parameters["turn_id"]),
        ToolCallId(result.tool_call_id),
        status=WaitStatus(result.status),
        result=take_json(bytes(result.result), what="result"),
        after_execution=result.after_execution,
        idempotency=call.idempotency,
    )
    return a.ReportedShape(accepted=reported.accepted, result_card_id=reported.result_card_id)


@routes.taking(
    "POST",
    "/v1/turns/{turn_id}/stop",
    b.StopOrder,
    gives=a.StoppedShape,
    errors=(TurnUnknown, IdempotencyKeyReused),
    examples={"stop": {"reason": "the customer hung up"}},
)
async def stop_turn(call: Call, order: b.StopOrder) -> a.StoppedShape:
    """End a turn at once, with a deliverable that says so. One that has ended keeps its end."""
    stopped = await call.system.kernel.stop(
        call.project,
        names.turn_id(call.parameters["turn_id"]),
        reason=order.reason,
        actor=call.actor(order.actor),
        idempotency=call.idempotency,
    )
    return a.StoppedShape(stopped=stopped.stopped, card_id=stopped.card_id)


@routes.taking(
    "POST",
    "/v1/turns/{turn_id}/requeue",
    OrderBody,
    gives=a.RequeuedShape,
    errors=(TurnUnknown, TurnInactive, Forbidden, Unauthenticated),
    examples={"requeue": {"reason": "its worker hangs"}},
)
async def requeue_turn(call: Call, order: OrderBody) -> a.RequeuedShape:
    """Take a turn away from whoever works on it and put it back to the front of its agent's line, under a new epoch.

    What the worker still says under the old one is refused. Steps it had stored are not repeated.
    """
    await identity.require_operator(call, verb="requeue", what="turns")
    call.actor(order.actor)
    kernel = call.system.kernel
    view = await _turn(call, names.turn_id(call.parameters["turn_id"]))
    turn = view.turn
    if await kernel.preempt(turn.key, turn.turn_id) is None:
        raise TurnInactive(turn_id=turn.turn_id, state="ended" if view.deliverable is not None else view.status)
    head = await kernel.store.head(*turn.key)
    assert head is not None
    return a.RequeuedShape(turn_id=turn.turn_id, agent_id=turn.agent_id, epoch=head.head.epoch, gate=head.head.gate)


# --- reading ---------------------------------------------------------------------------------------------------


@routes.plain("GET", "/v1/turns/{turn_id}", gives=a.TurnShape, errors=(TurnUnknown,))
async def read_turn(call: Call) -> a.TurnShape:
    """A turn as it stands now."""
    view = await _turn(call, names.turn_id(call.parameters["turn_id"]))
    return render.turn(view)


@routes.taking(
    "GET",
    "/v1/turns/{turn_id}/deliverable",
    b.Patience,
    gives=a.DeliverableShape,
    errors=(TurnUnknown, TurnUnfinished),
)
async def read_deliverable(call: Call, patience: b.Patience) -> a.DeliverableShape:
    """How a turn ended; with `wait` the answer comes the moment it does."""
    project, turn_id = call.project, names.turn_id(call.parameters["turn_id"])
    kernel = call.system.kernel
    found = await kernel.deliverables.get(project, turn_id)
    if found is None:
        if await kernel.store.turn(project, turn_id) is None:
            raise TurnUnknown(turn_id=turn_id)
        if patience.wait > 0:
            await call.read()
            waiting = kernel.deliverables.wait(project, turn_id, patience.wait)
            found = await call.patience.wait(waiting, call.hung_up())
    if found is None:
        raise TurnUnfinished(turn_id=turn_id)
    return render.deliverable(found)


async def _head(call: Call) -> HeadView:
    key = names.agent_key(call)
    view = await call.system.kernel.store.head(*key)
    if view is None:
        raise AgentUnknown(agent_id=key[1], project=key[0])
    return view


@routes.plain("GET", "/v1/agents/{agent_id}/head", gives=a.HeadShape, errors=(AgentUnknown,))
async def read_head(call: Call) -> a.HeadShape:
    """An agent's active turn, its gate, and how much waits."""
    return render.head(await _head(call))


@routes.taking("GET", "/v1/agents/{agent_id}/inbox", b.Page, gives=a.InboxPage, errors=(AgentUnknown,))
async def read_inbox(call: Call, page: b.Page) -> a.InboxPage:
    """What an agent has before it: the active item, then the line in order."""
    view = await _head(call)
    head, store = view.head, call.system.kernel.store
    after = names.number(page.cursor, default=-1)
    line = await store.inbox(*head.key, after_seq=after, limit=page.limit)
    active = await store.turn(head.project, head.turn_id) if head.turn_id is not None else None
    return a.InboxPage(
        agent_id=head.agent_id,
        queued=head.queued,
        active=None if active is None or active.deliverable is not None else render.active(active),
        items=tuple(map(render.queued, line)),
        next_cursor=str(line[-1].turn.seq) if len(line) == page.limit else None,
    )


@routes.taking(
    "GET", "/v1/agents/{agent_id}/turns", b.SoughtPage, gives=a.TurnsPage, errors=(AgentUnknown, TurnUnknown)
)
async def read_turns(call: Call, page: b.SoughtPage) -> a.TurnsPage:
    """An agent's turns, newest first."""
    head = (await _head(call)).head

    async def read(before: TurnId | None, limit: int) -> list[TurnView]:
        return await call.system.kernel.store.history(*head.key, before=before, limit=limit)

    return await _turns(call, page, read)


@routes.taking("GET", "/v1/turns", b.SoughtPage, gives=a.TurnsPage, errors=(TurnUnknown,))
async def list_turns(call: Call, page: b.SoughtPage) -> a.TurnsPage:
    """The turns of all agents, newest first."""

    async def read(before: TurnId | None, limit: int) -> list[TurnView]:
        return await call.system.kernel.store.recent(call.project, before=before, limit=limit)

    return await _turns(call, page, read)


async def _turns(
    call: Call, page: b.SoughtPage, read: Callable[[TurnId | None, int], Awaitable[list[TurnView]]]
) -> a.TurnsPage:
    async def shown(before: TurnId | None, limit: int) -> list[a.TurnShape]:
        return list(map(render.turn, await read(before, limit)))

    items, following = await sifted(
        asked(call, "turns", page.q),
        shown,
        lambda turn: TurnId(turn.turn_id),
        cursor=None if page.cursor is None else names.turn_id(page.cursor),
        limit=page.limit,
    )
    return a.TurnsPage(items=tuple(items), next_cursor=following)


@routes.taking("GET", "/v1/edges", b.EdgeQuery, gives=a.EdgesPage, errors=(InvalidRequest, TurnUnknown))
async def read_edges(call: Call, query: b.EdgeQuery) -> a.EdgesPage:
    """Who caused what, within a trace or around a turn."""
    if (query.trace_id is None) == (query.turn_id is None):
        raise InvalidRequest(problem="ask for the edges of one trace_id or of one turn_id")
    edges = await call.system.kernel.store.edges(
        call.project,
        trace_id=None if query.trace_id is None else TraceId(query.trace_id),
        turn_id=None if query.turn_id is None else names.turn_id(query.turn_id),
        after=query.cursor,
        limit=query.limit,
    )
    more = len(edges) == query.limit
    return a.EdgesPage(items=tuple(map(render.edge, edges)), next_cursor=edges[-1].edge_id if more else None)


# --- cards and boxes -------------------------------------------------------------------------------------------


@routes.plain("GET", "/v1/cards/{card_id}", gives=a.CardShape, errors=(CardUnknown,))
async def read_card(call: Call) -> a.CardShape:
    """One card."""
    card_id = names.card_id(call.parameters["card_id"])
    card = await call.system.kernel.store.card(call.project, card_id)
    if card is None:
        raise CardUnknown(card_id=card_id)
    return render.card(card)


@routes.taking("GET", "/v1/boxes/{box_id}", b.Page, gives=a.BoxPage, errors=(BoxUnknown,))
async def read_box(call: Call, page: b.Page) -> a.BoxPage:
    """The cards of a box, in order."""
    box_id = names.box_id(call.parameters["box_id"])
    after = names.number(page.cursor, default=-1)
    cards = await call.system.kernel.store.box(call.project, box_id, after=after, limit=page.limit)
    if cards is None:
        raise BoxUnknown(box_id=box_id)
    more = len(cards) == page.limit
    shown = tuple(render.card(card) for card in cards if card.type != EMPTY_BOX)
    return a.BoxPage(box_id=box_id, items=shown, next_cursor=str(cards[-1].position) if more else None)


@routes.taking(
    "POST",
    "/v1/boxes",
    b.BoxBody,
    gives=a.BoxMade,
    status=201,
    errors=(IdempotencyKeyReused,),
    examples={"a context": {"cards": [{"type": "note", "content": "The customer prefers e-mail."}]}},
)
async def create_box(call: Call, box: b.BoxBody) -> a.BoxMade:
    """Make a box, for use as a turn's context or as an agent's rolling memory."""
    author = await identity.speaker(call, box.author)
    made = await call.system.kernel.create_box(call.project, drafts(box.cards), author, idempotency=call.idempotency)
    return a.BoxMade(box_id=made)


@routes.plain("POST", "/v1/boxes/{box_id}/fork", gives=a.BoxMade, status=201, errors=(BoxUnknown, IdempotencyKeyReused))
async def fork_box(call: Call) -> a.BoxMade:
    """Copy a box: the new one has the same cards, and no writer yet."""
    await call.read()
    box_id = names.box_id(call.parameters["box_id"])
    return a.BoxMade(box_id=await call.system.kernel.fork_box(call.project, box_id, idempotency=call.idempotency))


@routes.plain(
    "DELETE",
    "/v1/boxes/{box_id}",
    status=204,
    errors=(BoxUnknown, BoxInUse, BoxOfTurn, BoxReferred, Forbidden, Unauthenticated),
)
async def end_box(call: Call) -> Answer:
    """End a box that was made or forked: its cards leave the store.

    It is refused, and nothing changes, while a turn that has not ended reads it or writes to it, and while another box
    refers to its cards. The box a turn was born with leaves with its turn. An agent ends only what it writes to itself.
    """
    box_id, kernel = names.box_id(call.parameters["box_id"]), call.system.kernel
    if call.principal.kind is PrincipalKind.AGENT:
        owner = await kernel.store.box_owner(call.project, box_id)
        if await kernel.store.box_length(call.project, box_id) is None:
            raise BoxUnknown(box_id=box_id)
        if owner is None or owner[1] != call.principal.agent_id:
            raise Forbidden(verb="end", object=box_id)
    await kernel.end_box(call.project, box_id)
    return NOTHING


def drafts(cards: tuple[b.CardBody, ...]) -> tuple[CardDraft, ...]:
    """Cards as a caller sends them, checked."""
    return tuple(
        CardDraft(card.type, take_json(bytes(card.content), what=f"cards[{place}].content"))
        for place, card in enumerate(cards)
    )
