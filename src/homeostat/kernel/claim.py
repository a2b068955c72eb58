"""Entering a turn: a lost race is a value."""

from typing import Final

from homeostat.core.ids import WorkerId
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.turn import Grant, OpenTurn
from homeostat.kernel.commands import Claim
from homeostat.kernel.plan import Plan

FREED: Final = HEAD.next(HeadStatus.RUNNING, TurnEvent.DELIVER)
HANDED_ON: Final = HEAD.next(HEAD.next(FREED, TurnEvent.LEASE), TurnEvent.CLAIM)
"""Where a head stands that was freed, leased and entered in one breath."""


def claim(plan: Plan, command: Claim) -> Grant | None:
    """Let a worker enter a dispatched turn; a draining agent may still finish what it began. A turn of a run that is
    over is entered by nobody: it is about to be stopped.
    """
    mailbox = plan.mailbox(command.key)
    head, entry = mailbox.head, mailbox.active
    if head.status is not HeadStatus.DISPATCHED or head.gate is Gate.CLOSED or entry is None:
        return None
    if not plan.may_begin(entry.turn.run_id):
        return None
    plan.starts(entry.turn.run_id)
    started = OpenTurn(entry.turn, entry.starts + 1, entry.losses, entry.cards, entry.waits)
    moved = Head(  # by its places: this is done once for every turn
        head.project,
        head.agent_id,
        plan.base[command.key] + 1,
        HEAD.next(head.status, TurnEvent.CLAIM),
        head.epoch,
        head.turn_id,
        command.worker_id,
        started.starts,
        head.losses,
        head.cards,
        head.gate,
        head.gate_reason,
        head.queued,
        head.tail_seq,
        head.last_turn_id,
        head.waiting,
        head.deadline_ms,
        plan.now,
    )
    plan.lease(command.worker_id)
    plan.put(Mailbox(moved, started, mailbox.queue))
    return Grant(entry.turn, head.epoch, command.worker_id, entry.starts == 0, entry.waits)


def hand_on(plan: Plan, mailbox: Mailbox, worker_id: WorkerId) -> Grant | None:
    """Go on with the front of the line where a turn was delivered: all that freeing the head, leasing it and entering
    the turn do, as one move of it. None where that takes a closer look.
    """
    head, queue = mailbox.head, mailbox.queue
    if not queue or head.gate is not Gate.OPEN or not plan.may_begin(queue[0].turn.run_id):
        return None
    entry = queue[0]
    turn = entry.turn
    plan.starts(turn.run_id)
    plan.dequeue_row(entry)
    started = OpenTurn(turn, entry.starts + 1, entry.losses, entry.cards, entry.waits)
    moved = Head(  # by its places: this is done once for every turn of an agent that is busy
        head.project,
        head.agent_id,
        plan.base[head.project, head.agent_id] + 1,
        HANDED_ON,
        head.epoch + 1,
        turn.turn_id,
        worker_id,
        started.starts,
        entry.losses,
        entry.cards,
        head.gate,
        head.gate_reason,
        head.queued - 1,
        head.tail_seq,
        head.last_turn_id,
        0,
        None,
        plan.now,
    )
    plan.lease(worker_id)
    plan.put(Mailbox(moved, started, queue[1:]))
    return Grant(turn, moved.epoch, worker_id, entry.starts == 0, entry.waits)
