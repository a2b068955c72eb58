"""Ending turns: every way out writes a deliverable, and there is one terminal event."""

from typing import Final, cast

from msgspec.structs import replace

from homeostat.core.codec import NULL, Json, from_json, to_json
from homeostat.core.errors import ResultFieldsMissing
from homeostat.core.ids import CardId
from homeostat.core.limits import ATTEMPTS_MAX, LEFT_CHARS_MAX, RERING_SECONDS
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.card import DELIVERABLE, DELIVERABLE_POSITION
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Head, Mailbox
from homeostat.core.records.recording import RECORDING, Worked
from homeostat.core.records.turn import Grant, MessageType, OpenTurn, Step, WaitStatus
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.core.records.work import Delivered
from homeostat.kernel.claim import claim, hand_on
from homeostat.kernel.commands import Claim, Deliver, Dispatch, Recover, Report, Stop, Stopped
from homeostat.kernel.dispatch import dispatch, lease_front, revoke
from homeostat.kernel.plan import Plan

Followups = list[Report]

KERNEL: Final = "kernel"
"""In whose name turns are stopped that nobody else stops."""


def deliver(plan: Plan, command: Deliver, followups: Followups) -> Delivered:
    """A worker ends its turn; the agent's next message may go to the same worker in the same breath."""
    mailbox = plan.held(command.fence)
    entry = cast(OpenTurn, mailbox.active)
    if command.status is Outcome.SUCCESS and entry.turn.result_fields is not None:
        check_result_fields(entry.turn.result_fields, command.result)
    plan.rolling(entry)
    if command.cards:
        plan.admit_cards(command.cards)
        entry, _ = plan.append(entry, command.cards)
        mailbox = Mailbox(mailbox.head, entry, mailbox.queue)
    card_id = conclude(
        plan,
        entry,
        mailbox.head.epoch,
        status=command.status,
        result=command.result,
        error=command.error,
        followups=followups,
        worked_ms=plan.now - mailbox.head.since_ms,
    )
    steps: tuple[Step, ...] = ()
    if command.recording is not None:
        steps = (Step(entry.turn.project, entry.turn.turn_id, RECORDING, command.recording, plan.now),)
        plan.writes.steps += steps
    if entry.turn.run_id is not None:
        _leave(plan, entry, steps)
    if not command.claim_next or not mailbox.head.queued:
        _free(plan, mailbox, TurnEvent.DELIVER)
        return Delivered(card_id, None)
    worker_id = command.fence.worker_id
    following = hand_on(plan, mailbox, worker_id)
    if following is None:
        _free(plan, mailbox, TurnEvent.DELIVER)
        following = claim(plan, Claim(key=command.fence.key, worker_id=worker_id))
    return Delivered(card_id, following)


def _leave(plan: Plan, entry: OpenTurn, steps: tuple[Step, ...]) -> None:
    """Keep at hand what a short turn of a run left behind: whoever writes its ledger asks for it at once."""
    turn = entry.turn
    if entry.cards or entry.waits or turn.context_box_id is not None or turn.output_box_id is not None:
        return
    card = plan.writes.cards[-1]  # the deliverable was written last
    size = len(turn.payload) + len(card.content)
    if steps:
        size += sum(len(step.outcome) for step in steps)
    if size <= LEFT_CHARS_MAX:
        plan.left.append(Worked(turn, steps, (), (card,), plan.ends[-1][1]))


def stop(plan: Plan, command: Stop, followups: Followups) -> Stopped:
    """End a turn from outside, wherever it is: on the head, in line, or not at all because it ended before."""
    mailbox = plan.mailbox(command.key)
    turn = command.turn
    error = to_json({"code": "stopped", "message": command.reason, "actor": command.actor})
    if mailbox.head.turn_id == turn.turn_id and mailbox.active is not None:
        plan.rolling(mailbox.active)
        revoke(plan, mailbox)
        card_id = finish(
            plan, mailbox, TurnEvent.STOP, status=Outcome.STOP, result=NULL, error=error, followups=followups
        )
        return Stopped(stopped=True, card_id=card_id)
    entry = plan.in_line(mailbox, turn.turn_id)
    if entry is None:
        return Stopped(stopped=False, card_id=None)
    plan.rolling(entry)
    plan.dequeue_row(entry)
    queue = tuple(other for other in mailbox.queue if other.turn.turn_id != turn.turn_id)
    moved = plan.move(mailbox, None, queued=mailbox.head.queued - 1)
    plan.put(replace(mailbox, head=moved, queue=queue))
    card_id = conclude(plan, entry, moved.epoch, status=Outcome.STOP, result=NULL, error=error, followups=followups)
    dispatch(plan, command.key)  # it may have been what others waited behind: a turn of a run that may begin nothing
    return Stopped(stopped=True, card_id=card_id)


def enter(plan: Plan, command: Claim, followups: Followups) -> Grant | None:
    """Let a worker enter a turn. One that its run left behind is ended, for it would keep its agent for good."""
    grant = claim(plan, command)
    mailbox = plan.mailbox(command.key)
    head, entry = mailbox.head, mailbox.active
    if grant is None and entry is not None and head.status is HeadStatus.DISPATCHED and _left_behind(plan, head, entry):
        stop(plan, _as_left(entry), followups)
    return grant


def redispatch(plan: Plan, command: Dispatch, followups: Followups) -> bool:
    """The watchdog's version: an idle agent with mail should not exist, and is helped if it does. What runs left
    behind in its line is ended.
    """
    mailbox = plan.mailbox(command.key)
    head = mailbox.head
    left = [entry for entry in mailbox.queue if head.status is HeadStatus.IDLE and _left_behind(plan, head, entry)]
    for entry in left:
        plan.rolling(entry)
    for entry in left:
        stop(plan, _as_left(entry), followups)
    return dispatch(plan, command.key) or bool(left)


def _left_behind(plan: Plan, head: Head, entry: OpenTurn) -> bool:
    """Whether a turn's run is over, and whoever ended that has had the time to stop the turn and to say why."""
    run_id = entry.turn.run_id
    over = run_id in plan.closed_runs and run_id not in plan.held_runs
    return over and plan.now - head.since_ms >= RERING_SECONDS * 1000


def _as_left(entry: OpenTurn) -> Stop:
    return Stop(turn=entry.turn, reason=f"run {entry.turn.run_id} is over", actor=KERNEL)


def recover(plan: Plan, command: Recover, followups: Followups) -> bool:
    """Take a turn from a dead worker: dispatched again under a new epoch, or failed once attempts are used up."""
    fence = command.fence
    mailbox = plan.mailbox(fence.key)
    head, entry = mailbox.head, mailbox.active
    if (
        entry is None
        or head.turn_id != fence.turn_id
        or head.epoch != fence.epoch
        or head.worker_id != fence.worker_id
        or head.status is not HeadStatus.RUNNING
    ):
        return False
    losses = entry.losses + 1
    if losses >= ATTEMPTS_MAX:
        plan.rolling(entry)
        revoke(plan, mailbox)
        error = to_json({"code": "attempts_exhausted", "message": f"{command.cause}; {losses} attempts were lost"})
        finish(plan, mailbox, TurnEvent.REAP, status=Outcome.FAILED, result=NULL, error=error, followups=followups)
        return True
    revoke(plan, mailbox)
    moved = plan.move(mailbox, TurnEvent.RECOVER, epoch=head.epoch + 1, worker_id=None, losses=losses)
    plan.put(replace(mailbox, head=moved, active=replace(entry, losses=losses)))
    return True


def finish(
    plan: Plan,
    mailbox: Mailbox,
    event: TurnEvent,
    *,
    status: Outcome,
    result: Json,
    error: Json | None,
    followups: Followups,
) -> CardId:
    """End the active turn and dispatch the next one."""
    head = mailbox.head
    worked = plan.now - head.since_ms if head.status is HeadStatus.RUNNING else None
    entry = cast(OpenTurn, mailbox.active)
    card_id = conclude(
        plan, entry, head.epoch, status=status, result=result, error=error, followups=followups, worked_ms=worked
    )
    _free(plan, mailbox, event)
    return card_id


def _free(plan: Plan, mailbox: Mailbox, event: TurnEvent) -> None:
    """Take the active turn off the head, and dispatch the next one."""
    head = mailbox.head
    moved = Head(  # by its places: this is done once for every turn
        head.project,
        head.agent_id,
        plan.base[head.project, head.agent_id] + 1,
        HEAD.next(head.status, event),
        head.epoch,
        None,
        None,
        0,
        0,
        0,
        head.gate,
        head.gate_reason,
        head.queued,
        head.tail_seq,
        head.last_turn_id,
        0,
        None,
        plan.now,
    )
    ended = Mailbox(moved, None, mailbox.queue)
    plan.put(lease_front(plan, ended) if moved.queued else ended)


def conclude(
    plan: Plan,
    entry: OpenTurn,
    epoch: int,
    *,
    status: Outcome,
    result: Json,
    error: Json | None,
    followups: Followups,
    worked_ms: int | None = None,
) -> CardId:
    """Write what the end of any turn consists of: deliverable, cancelled waits, terminal event, reply to a parent."""
    turn = entry.turn
    content = Json(f'{{"status":"{status}","epoch":{epoch},"result":{result},"error":{error or NULL}}}')
    card_id = plan.card(entry, DELIVERABLE_POSITION, DELIVERABLE, content)
    for wait in entry.waits:
        if wait.status is WaitStatus.PENDING:
            plan.wait(replace(wait, status=WaitStatus.CANCELLED, answered_at_ms=plan.now))
    box = turn.output_box
    plan.ends.append(
        (turn.project, Deliverable(turn.turn_id, turn.agent_id, card_id, box, status, result, error, epoch, plan.now))
    )
    asked_by = "" if turn.parent_turn_id is None else f'"parent_turn_id":"{turn.parent_turn_id}",'
    body = Json(
        f'{{"agent_turn_id":"{turn.turn_id}","status":"{status}",'
        f'"output_box_id":"{box}","deliverable_card_id":"{card_id}","trace_id":"{turn.trace_id}",{asked_by}'
        f'"worked_ms":{NULL if worked_ms is None else worked_ms},"steps":{entry.cards},"losses":{entry.losses}}}'
    )
    plan.announce(Event(turn.turn_id, turn.project, Channel.EVT, "agent", turn.agent_id, "task", body))
    if turn.reply_call_id is not None and turn.parent_turn_id is not None and turn.source is not None:
        # A joined turn answers the turn that asked; a parent that moved on acknowledges it without effect.
        answer = Json(
            f'{{"status":"{status.value}","deliverable_card_id":"{card_id}","result":{result},"error":{error or NULL}}}'
        )
        reply = Report(
            key=(turn.project, turn.source),
            turn_id=turn.parent_turn_id,
            call_id=turn.reply_call_id,
            type=MessageType.JOIN_RESPONSE,
            status=WaitStatus.SUCCESS if status is Outcome.SUCCESS else WaitStatus.ERROR,
            result=answer,
        )
        followups.append(reply)
    return card_id


def check_result_fields(schema: Json, result: Json) -> None:
    """See that a deliverable covers what was asked for."""
    fields = cast("list[dict[str, object]]", from_json(schema))
    required = [str(field["name"]) for field in fields if field.get("required", True)]
    value = from_json(result)
    present = set(cast("dict[str, object]", value)) if isinstance(value, dict) else set[str]()
    if isinstance(value, list):
        present = {str(item.get("name")) for item in cast("list[object]", value) if isinstance(item, dict)}  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - as sent
    if missing := [name for name in required if name not in present]:
        raise ResultFieldsMissing(missing=", ".join(missing))
