"""What a server sent, as the records everybody else works with."""

import msgspec

from homeostat.core.clock import Millis, parse_rfc3339
from homeostat.core.codec import Json
from homeostat.core.ids import (
    AgentId,
    BoxId,
    CardId,
    ProjectId,
    RunId,
    Scope,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    box_of,
)
from homeostat.core.records.card import Card
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AgentKey, Grant, Turn, Wait
from homeostat.core.records.view import Deliverable, Edge, HeadView, Hydration, TurnView
from homeostat.core.records.work import Fence
from homeostat.core.wire import answers as a
from homeostat.core.wire import workers as w
from homeostat.core.wire.fields import NO_VALUE


def text(raw: msgspec.Raw) -> Json:
    return Json(bytes(raw).decode())


def optional_text(raw: msgspec.Raw) -> Json | None:
    return None if raw == NO_VALUE else text(raw)


def instant(moment: str | None) -> Millis | None:
    return None if moment is None else parse_rfc3339(moment)


def turn(shape: a.TurnFacts) -> Turn:
    turn_id = TurnId(shape.turn_id)
    box_id = BoxId(shape.output_box_id)
    return Turn(
        turn_id=turn_id,
        project=ProjectId(shape.project),
        agent_id=AgentId(shape.agent_id),
        seq=shape.seq,
        type=shape.type,
        payload=text(shape.payload),
        correlation_id=shape.correlation_id,
        source=None if shape.source_agent_id is None else AgentId(shape.source_agent_id),
        parent_turn_id=None if shape.parent_turn_id is None else TurnId(shape.parent_turn_id),
        parent_step_id=shape.parent_step_id,
        reply_call_id=None if shape.reply_call_id is None else ToolCallId(shape.reply_call_id),
        trace_id=TraceId(shape.trace_id),
        depth=shape.depth,
        run_id=None if shape.run_id is None else RunId(shape.run_id),
        context_box_id=None if shape.context_box_id is None else BoxId(shape.context_box_id),
        # A turn that was given no box of its own writes to the one that shares its name.
        output_box_id=None if box_id == box_of(turn_id) else box_id,
        result_fields=optional_text(shape.result_fields),
        previous_turn_id=None if shape.previous_turn_id is None else TurnId(shape.previous_turn_id),
        created_at_ms=parse_rfc3339(shape.created_at),
    )


def wait(shape: a.WaitShape, turn_id: TurnId, key: AgentKey) -> Wait:
    return Wait(
        turn_id=turn_id,
        call_id=ToolCallId(shape.tool_call_id),
        project=key[0],
        agent_id=key[1],
        tool=shape.tool,
        status=shape.status,
        after_execution=shape.after_execution,
        step_id=shape.step_id,
        call_card_id=None if shape.call_card_id is None else CardId(shape.call_card_id),
        result_card_id=None if shape.result_card_id is None else CardId(shape.result_card_id),
        created_at_ms=parse_rfc3339(shape.created_at),
        deadline_ms=parse_rfc3339(shape.deadline_at),
        answered_at_ms=instant(shape.answered_at),
    )


def deliverable(shape: a.DeliverableShape) -> Deliverable:
    return Deliverable(
        turn_id=TurnId(shape.turn_id),
        agent_id=AgentId(shape.agent_id),
        card_id=CardId(shape.card_id),
        output_box_id=BoxId(shape.output_box_id),
        status=shape.status,
        result=text(shape.result),
        error=optional_text(shape.error),
        epoch=shape.epoch,
        finished_at_ms=parse_rfc3339(shape.finished_at),
    )


def turn_view(shape: a.TurnShape) -> TurnView:
    read = turn(shape)
    return TurnView(
        turn=read,
        status=shape.status,
        item_status=shape.item_status,
        epoch=shape.epoch,
        starts=shape.starts,
        losses=shape.losses,
        worker_id=None if shape.worker_id is None else WorkerId(shape.worker_id),
        lease_expires_at_ms=instant(shape.lease_expires_at),
        waits=tuple(wait(one, read.turn_id, read.key) for one in shape.waits),
        deliverable=None if shape.deliverable is None else deliverable(shape.deliverable),
    )


def head(shape: a.HeadShape) -> HeadView:
    record = Head(
        project=ProjectId(shape.project),
        agent_id=AgentId(shape.agent_id),
        version=shape.version,
        status=shape.status,
        epoch=shape.epoch,
        turn_id=None if shape.turn_id is None else TurnId(shape.turn_id),
        worker_id=None if shape.worker_id is None else WorkerId(shape.worker_id),
        starts=shape.starts,
        losses=shape.losses,
        cards=shape.cards,
        gate=shape.gate,
        gate_reason=shape.gate_reason,
        queued=shape.queued,
        tail_seq=shape.tail_seq,
        last_turn_id=None if shape.last_turn_id is None else TurnId(shape.last_turn_id),
        waiting=shape.waiting_tool_count,
        deadline_ms=instant(shape.resume_deadline),
        since_ms=parse_rfc3339(shape.since),
    )
    return HeadView(record, instant(shape.lease_expires_at))


def card(shape: a.CardShape) -> Card:
    return Card(
        project=ProjectId(shape.project),
        scope=Scope(shape.scope),
        position=shape.position,
        type=shape.type,
        content=text(shape.content),
        digest=shape.digest,
        author=None if shape.author is None else AgentId(shape.author),
        created_at_ms=parse_rfc3339(shape.created_at),
        reference=None if shape.reference is None else CardId(shape.reference),
    )


def edge(shape: a.EdgeShape) -> Edge:
    return Edge(
        edge_id=shape.edge_id,
        project=ProjectId(shape.project),
        primitive=shape.primitive,
        phase=shape.phase,
        source_agent_id=None if shape.source_agent_id is None else AgentId(shape.source_agent_id),
        target_agent_id=AgentId(shape.target_agent_id),
        turn_id=TurnId(shape.turn_id),
        parent_turn_id=None if shape.parent_turn_id is None else TurnId(shape.parent_turn_id),
        call_id=None if shape.tool_call_id is None else ToolCallId(shape.tool_call_id),
        correlation_id=shape.correlation_id,
        trace_id=TraceId(shape.trace_id),
        depth=shape.depth,
        created_at_ms=parse_rfc3339(shape.created_at),
    )


def grant(shape: w.GrantShape) -> Grant:
    read = turn(shape.turn)
    return Grant(
        turn=read,
        epoch=shape.epoch,
        worker_id=WorkerId(shape.worker_id),
        fresh=shape.fresh,
        waits=tuple(wait(one, read.turn_id, read.key) for one in shape.waits),
    )


def fence(shape: w.HeldTurn, worker_id: WorkerId) -> Fence:
    key = (ProjectId(shape.project), AgentId(shape.agent_id))
    return Fence(key, TurnId(shape.turn_id), shape.epoch, worker_id)


def hydration(shape: w.HydrationShape) -> Hydration:
    return Hydration(
        steps={name: text(outcome) for name, outcome in shape.steps.items()},
        context=tuple(map(card, shape.context)),
        output=tuple(map(card, shape.output)),
        context_gone=shape.context_gone,
    )
