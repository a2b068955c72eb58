"""Which rule decides which command."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from homeostat.core.records.work import Suspended
from homeostat.kernel import commands as c
from homeostat.kernel.deliver import Followups, deliver, enter, recover, redispatch, stop
from homeostat.kernel.dispatch import preempt, release, set_gate
from homeostat.kernel.enqueue import enqueue, enqueue_all, register
from homeostat.kernel.plan import Plan
from homeostat.kernel.steps import put_cards, store_step, swap_boxes, write_cards
from homeostat.kernel.waits import close_call, report, suspend

Rule = Callable[[Plan, Any, Followups], object]


def _renew(plan: Plan, command: c.Renew) -> bool:
    plan.renew(command.worker_id)
    return True


def _end_lease(plan: Plan, command: c.EndLease) -> bool:
    """A worker that shows itself is alive, whatever was seen before; one that says goodbye is gone in any case."""
    writes, worker_id = plan.writes, command.worker_id
    if command.over is None:
        writes.leases.pop(worker_id, None)
        writes.leases_ended[worker_id] = None
    elif worker_id in writes.leases:
        return False
    else:
        writes.leases_ended.setdefault(worker_id, command.over)
    return True


def _published(plan: Plan, command: c.Published) -> bool:
    plan.writes.outbox_drop.update(command.outbox_ids)
    return True


def _plain(rule: Callable[[Plan, Any], object]) -> Rule:
    return lambda plan, command, _: rule(plan, command)


RULES: Mapping[type, Rule] = {
    c.Register: _plain(register),
    c.Enqueue: _plain(enqueue),
    c.EnqueueAll: _plain(enqueue_all),
    c.Claim: enter,
    c.Dispatch: redispatch,
    c.Suspend: suspend,
    c.Report: report,
    c.CloseCall: _plain(close_call),
    c.Deliver: deliver,
    c.Stop: stop,
    c.Recover: recover,
    c.Release: _plain(release),
    c.SetGate: _plain(set_gate),
    c.Preempt: _plain(preempt),
    c.StoreStep: _plain(store_step),
    c.WriteCards: _plain(write_cards),
    c.SwapBoxes: _plain(swap_boxes),
    c.PutCards: _plain(put_cards),
    c.Renew: _plain(_renew),
    c.EndLease: _plain(_end_lease),
    c.Published: _plain(_published),
}

ANSWERS: Mapping[type, Callable[[Any], object]] = {
    c.Enqueue: lambda stored: c.Enqueued(**stored),
    c.Report: lambda stored: c.Reported(**stored, repeated=True),
    c.Stop: lambda stored: c.Stopped(**stored),
    c.Register: bool,
    c.WriteCards: tuple,
    c.Suspend: lambda stored: msgspec.convert(stored, Suspended),
    c.Release: bool,
    c.PutCards: str,
}
"""Commands that may carry an idempotency key, and how their first answer is read back."""
