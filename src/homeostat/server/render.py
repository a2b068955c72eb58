"""Records as JSON: the one place where what is stored becomes what is shown."""

from collections.abc import Sequence

import msgspec

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.codec import Json
from homeostat.core.machines.turn import ItemStatus
from homeostat.core.records.card import Card
from homeostat.core.records.turn import Grant, OpenTurn, Turn, Wait
from homeostat.core.records.view import Deliverable, Edge, HeadView, Hydration, TurnView
from homeostat.core.records.work import Fence
from homeostat.core.wire import answers as a
from homeostat.core.wire import workers as w
from homeostat.core.wire.fields import NO_VALUE


def value(text: Json) -> msgspec.Raw:
    """A payload as a JSON value, not as a string that holds one."""
    return msgspec.Raw(text.encode())


def optional_value(text: Json | None) -> msgspec.Raw:
    return NO_VALUE if text is None else value(text)


def instant(moment: Millis | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def _facts(turn: Turn) -> dict[str, object]:
    return {
        "turn_id": turn.turn_id,
        "inbox_id": turn.inbox_id,
        "project": turn.project,
        "agent_id": turn.agent_id,
        "seq": turn.seq,
        "type": turn.type,
        "payload": value(turn.payload),
        "correlation_id": turn.correlation_id,
        "source_agent_id": turn.source,
        "parent_turn_id": turn.parent_turn_id,
        "parent_step_id": turn.parent_step_id,
        "reply_call_id": turn.reply_call_id,
        "trace_id": turn.trace_id,
        "depth": turn.depth,
        "run_id": turn.run_id,
        "context_box_id": turn.context_box_id,
        "output_box_id": turn.output_box,
        "result_fields": optional_value(turn.result_fields),
        "previous_turn_id": turn.previous_turn_id,
        "created_at": rfc3339(turn.created_at_ms),
    }


def facts(turn: Turn) -> a.TurnFacts:
    return a.TurnFacts(**_facts(turn))  # pyright: ignore[reportArgumentType] - one table of facts


def turn(view: TurnView) -> a.TurnShape:
    return a.TurnShape(
        **_facts(view.turn),  # pyright: ignore[reportArgumentType] - one table of facts
        status=view.status,
        item_status=view.item_status,
        epoch=view.epoch,
        starts=view.starts,
        losses=view.losses,
        worker_id=view.worker_id,
        lease_expires_at=instant(view.lease_expires_at_ms),
        waits=tuple(map(wait, view.waits)),
        deliverable=None if view.deliverable is None else deliverable(view.deliverable),
    )


def wait(record: Wait) -> a.WaitShape:
    return a.WaitShape(
        tool_call_id=record.call_id,
        tool=record.tool,
        status=record.status,
        after_execution=record.after_execution,
        step_id=record.step_id,
        call_card_id=record.call_card_id,
        result_card_id=record.result_card_id,
        created_at=rfc3339(record.created_at_ms),
        deadline_at=rfc3339(record.deadline_ms),
        answered_at=instant(record.answered_at_ms),
    )


def deliverable(record: Deliverable) -> a.DeliverableShape:
    return a.DeliverableShape(
        turn_id=record.turn_id,
        agent_id=record.agent_id,
        card_id=record.card_id,
        output_box_id=record.output_box_id,
        status=record.status,
        result=value(record.result),
        error=optional_value(record.error),
        epoch=record.epoch,
        finished_at=rfc3339(record.finished_at_ms),
    )


def head(view: HeadView) -> a.HeadShape:
    record = view.head
    return a.HeadShape(
        project=record.project,
        agent_id=record.agent_id,
        status=record.status,
        epoch=record.epoch,
        version=record.version,
        turn_id=record.turn_id,
        worker_id=record.worker_id,
        lease_expires_at=instant(view.lease_expires_at_ms),
        gate=record.gate,
        gate_reason=record.gate_reason,
        queued=record.queued,
        waiting_tool_count=record.waiting,
        resume_deadline=instant(record.deadline_ms),
        starts=record.starts,
        losses=record.losses,
        cards=record.cards,
        tail_seq=record.tail_seq,
        last_turn_id=record.last_turn_id,
        since=rfc3339(record.since_ms),
    )


def queued(entry: OpenTurn) -> a.InboxItem:
    return _item(entry.turn, ItemStatus.QUEUED, entry.starts, entry.losses)


def active(view: TurnView) -> a.InboxItem:
    return _item(view.turn, view.item_status, view.starts, view.losses)


def _item(turn: Turn, status: ItemStatus, starts: int, losses: int) -> a.InboxItem:
    return a.InboxItem(**_facts(turn), status=status, starts=starts, losses=losses)  # pyright: ignore[reportArgumentType] - one table of facts


def card(record: Card) -> a.CardShape:
    return a.CardShape(
        card_id=record.card_id,
        project=record.project,
        scope=record.scope,
        position=record.position,
        type=record.type,
        content=value(record.content or Json("null")),
        digest=record.digest,
        author=record.author,
        created_at=rfc3339(record.created_at_ms),
        reference=record.reference,
    )


def edge(record: Edge) -> a.EdgeShape:
    return a.EdgeShape(
        edge_id=record.edge_id,
        project=record.project,
        primitive=record.primitive,
        phase=record.phase,
        source_agent_id=record.source_agent_id,
        target_agent_id=record.target_agent_id,
        turn_id=record.turn_id,
        parent_turn_id=record.parent_turn_id,
        tool_call_id=record.call_id,
        correlation_id=record.correlation_id,
        trace_id=record.trace_id,
        depth=record.depth,
        created_at=rfc3339(record.created_at_ms),
    )


def grant(record: Grant) -> w.GrantShape:
    return w.GrantShape(
        turn=facts(record.turn),
        epoch=record.epoch,
        worker_id=record.worker_id,
        fresh=record.fresh,
        waits=tuple(map(wait, record.waits)),
    )


def held(fences: Sequence[Fence]) -> tuple[w.HeldTurn, ...]:
    return tuple(
        w.HeldTurn(project=fence.key[0], agent_id=fence.key[1], turn_id=fence.turn_id, epoch=fence.epoch)
        for fence in fences
    )


def hydration(record: Hydration) -> w.HydrationShape:
    return w.HydrationShape(
        steps={name: value(outcome) for name, outcome in record.steps.items()},
        context=tuple(map(card, record.context)),
        output=tuple(map(card, record.output)),
        context_gone=record.context_gone,
    )
