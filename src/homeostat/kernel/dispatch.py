"""Giving an idle agent its next message, and taking an active one away again."""

from msgspec.structs import replace

from homeostat.core.ids import TurnId
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn
from homeostat.kernel.commands import Fence, Preempt, Release, SetGate
from homeostat.kernel.plan import Plan


def lease(
    plan: Plan,
    mailbox: Mailbox,
    entry: OpenTurn,
    *,
    queued: int | None = None,
    tail_seq: int | None = None,
    last_turn_id: TurnId | None = None,
) -> Mailbox:
    """Make a turn the active one, under the next epoch, if its run may begin it: in line it is in nobody's way."""
    head = mailbox.head
    plan.starts(entry.turn.run_id)
    moved = Head(  # by its places: this is done once for every turn
        head.project,
        head.agent_id,
        plan.base[head.project, head.agent_id] + 1,
        HEAD.next(head.status, TurnEvent.LEASE),
        head.epoch + 1,
        entry.turn.turn_id,
        None,
        entry.starts,
        entry.losses,
        entry.cards,
        head.gate,
        head.gate_reason,
        head.queued if queued is None else queued,
        head.tail_seq if tail_seq is None else tail_seq,
        last_turn_id or head.last_turn_id,
        head.waiting,
        head.deadline_ms,
        plan.now,
    )
    return Mailbox(moved, entry, mailbox.queue)


def can_dispatch(head: Head) -> bool:
    return head.status is HeadStatus.IDLE and head.gate is Gate.OPEN


def dispatch(plan: Plan, key: AgentKey) -> bool:
    """Give an agent the front of its queue, if it can take it."""
    mailbox = plan.mailbox(key)
    leased = lease_front(plan, mailbox)
    if leased is mailbox:
        return False
    plan.put(leased)
    return True


def lease_front(plan: Plan, mailbox: Mailbox) -> Mailbox:
    """Lease the front of the queue if the agent is idle and its gate open, passing over what its run may not begin."""
    head, line = mailbox.head, mailbox.queue
    if not line or not can_dispatch(head):
        return mailbox
    entry, queue = line[0], line[1:]
    if not plan.may_begin(entry.turn.run_id):
        behind = next((waiting for waiting in queue if plan.may_begin(waiting.turn.run_id)), None)
        if behind is None:
            return mailbox
        entry, queue = behind, tuple(other for other in line if other is not behind)
    plan.dequeue_row(entry)
    return lease(plan, Mailbox(head, mailbox.active, queue), entry, queued=head.queued - 1)


def set_gate(plan: Plan, command: SetGate) -> Gate:
    """Turn the gate; opening it dispatches what waited. Returns where it stood before."""
    mailbox = plan.mailbox(command.key)
    before = mailbox.head.gate
    if command.mandate is not None:
        plan.require(command.mandate)
    if before is not command.gate or mailbox.head.gate_reason != command.reason:
        plan.put(replace(mailbox, head=plan.move(mailbox, None, gate=command.gate, gate_reason=command.reason)))
        dispatch(plan, command.key)
    return before


def preempt(plan: Plan, command: Preempt) -> TurnId | None:
    """Fence the active turn off and put it back to the front: its sequence number is its place in line."""
    mailbox = plan.mailbox(command.key)
    head, entry = mailbox.head, mailbox.active
    if entry is None or (command.turn_id is not None and command.turn_id != entry.turn.turn_id):
        return None
    revoke(plan, mailbox)
    moved = plan.move(
        mailbox,
        TurnEvent.PREEMPT,
        epoch=head.epoch + 1,
        turn_id=None,
        worker_id=None,
        queued=head.queued + 1,
        waiting=0,
        deadline_ms=None,
    )
    plan.enqueue_row(entry)
    # One that had passed over others whose run is held may belong behind what is at hand: then that is read again.
    first = mailbox.queue_complete or (mailbox.queue and entry.turn.seq < mailbox.queue[0].turn.seq)
    queue = sorted((entry, *mailbox.queue), key=lambda other: other.turn.seq) if first else ()
    plan.put(Mailbox(moved, None, tuple(queue)))
    dispatch(plan, command.key)
    return entry.turn.turn_id


def release(plan: Plan, command: Release) -> bool:
    """A leaving worker gives its turn back; nothing was lost, so it costs no attempt."""
    mailbox = plan.held(command.fence)
    moved = plan.move(mailbox, TurnEvent.RELEASE, epoch=mailbox.head.epoch + 1, worker_id=None)
    plan.put(replace(mailbox, head=moved))
    return True


def revoke(plan: Plan, mailbox: Mailbox) -> None:
    """Note that a worker must stop at once; it is told after the commit."""
    head = mailbox.head
    if head.worker_id is not None and head.turn_id is not None:
        plan.revoked.append(Fence(head.key, head.turn_id, head.epoch, head.worker_id))
