"""Entering a turn: a lost race is a value."""

from homeostat.core.machines.turn import HeadStatus, TurnEvent
from homeostat.core.records.head import Gate, Mailbox
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
    moved = plan.move(mailbox, TurnEvent.CLAIM, worker_id=command.worker_id, starts=started.starts)
    plan.lease(command.worker_id)
    plan.put(Mailbox(moved, started, mailbox.queue))
    return Grant(entry.turn, head.epoch, command.worker_id, entry.fresh, entry.waits)
