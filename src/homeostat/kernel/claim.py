"""Entering a turn: a lost race is a value."""

from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.turn import Grant, OpenTurn
from homeostat.kernel.commands import Claim
from homeostat.kernel.plan import Plan


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
