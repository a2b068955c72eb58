"""Accepting messages: one enqueue is one turn."""

from homeostat.core.errors import AgentBusy, BoxReadOnly, DepthExceeded, GateClosed, QueueFull, UnknownMessageType
from homeostat.core.ids import TraceId, inbox_of, scope_of, turn_of
from homeostat.core.limits import DEPTH_MAX, QUEUE_FRONT, QUEUE_PER_AGENT_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.run import Start
from homeostat.core.records.turn import OPENS_A_TURN, MessageType, OpenTurn, Turn
from homeostat.core.run_errors import RunClosed, RunHeld
from homeostat.kernel.commands import Enqueue, EnqueueAll, Enqueued, Register
from homeostat.kernel.dispatch import can_dispatch, lease, lease_front
from homeostat.kernel.plan import Plan


def register(plan: Plan, command: Register) -> bool:
    """Create an agent's head; False if it has one."""
    if plan.mailboxes[command.key] is not None:
        return False
    head = Head.new(*command.key, plan.now)
    plan.base[command.key] = 0
    plan.writes.new_heads[command.key] = head
    plan.put(Mailbox(head))
    return True


def enqueue(plan: Plan, command: Enqueue) -> Enqueued:
    """Write the turn, and lease it at once if the agent is free; otherwise it waits in line.

    The head is swapped in every case: an enqueue that saw a busy agent and a delivery that saw an empty queue
    cannot both succeed.
    """
    mailbox = admit(plan, command)
    if command.output_box_id is not None:
        plan.own_box(command.key, command.output_box_id)
    mailbox, turn = _accept(plan, mailbox, command)
    plan.put(mailbox)
    return Enqueued(inbox_of(turn.turn_id), turn.turn_id, turn.trace_id)


def enqueue_all(plan: Plan, command: EnqueueAll) -> int:
    """The same for several messages to one agent, which is swapped once for all of them; returns how many there were.

    They differ in what they say and in the turns they name, so that what holds for one of them holds for all.
    """
    messages = command.messages
    mailbox = admit(plan, messages[0], count=len(messages))
    for message in messages:
        mailbox, _ = _accept(plan, mailbox, message)
    plan.put(mailbox)
    return len(messages)


def _accept(plan: Plan, mailbox: Mailbox, command: Enqueue) -> tuple[Mailbox, Turn]:
    """Write the turn of a message that was admitted, and take it in."""
    head = mailbox.head
    scope = plan.ids.scope() if command.turn_id is None else scope_of(command.turn_id)
    turn = Turn(
        turn_of(scope),
        head.project,
        head.agent_id,
        head.tail_seq + 1,
        command.type,
        command.payload,
        command.correlation_id,
        command.source,
        command.parent_turn_id,
        command.parent_step_id,
        command.reply_call_id,
        command.trace_id or root_trace(scope),
        command.depth,
        command.run_id,
        command.context_box_id,
        command.output_box_id,
        command.result_fields,
        head.last_turn_id,
        plan.now,
        command.context_until,
    )
    plan.writes.turns[turn.turn_id] = turn
    if turn.run_id is not None:
        plan.starts(turn.run_id, Start.TASK if turn.parent_turn_id is None else Start.CHILD)
    entry = OpenTurn(turn)
    if can_dispatch(head) and not head.queued and plan.may_begin(turn.run_id):
        return lease(plan, mailbox, entry, tail_seq=turn.seq, last_turn_id=turn.turn_id), turn
    plan.enqueue_row(entry)
    return lease_front(plan, line_up(plan, mailbox, entry)), turn


def line_up(plan: Plan, mailbox: Mailbox, entry: OpenTurn) -> Mailbox:
    """Put a turn behind all others; it is kept at hand as long as it stands near the front."""
    head, queue = mailbox.head, mailbox.queue
    moved = Head(  # by its places: this is done once for every turn of an agent that is busy
        head.project,
        head.agent_id,
        plan.base[head.project, head.agent_id] + 1,
        head.status,
        head.epoch,
        head.turn_id,
        head.worker_id,
        head.starts,
        head.losses,
        head.cards,
        head.gate,
        head.gate_reason,
        head.queued + 1,
        entry.turn.seq,
        entry.turn.turn_id,
        head.waiting,
        head.deadline_ms,
        head.since_ms,
    )
    near = len(queue) == head.queued and len(queue) < QUEUE_FRONT
    return Mailbox(moved, mailbox.active, (*queue, entry) if near else queue)


def admit(plan: Plan, command: Enqueue, *, count: int = 1) -> Mailbox:
    """See whether a message can be accepted, or so many of its kind; nothing is written yet."""
    mailbox = plan.mailbox(command.key)
    head = mailbox.head
    if command.type not in OPENS_A_TURN:
        allowed = ", ".join(sorted(OPENS_A_TURN))
        raise UnknownMessageType(message_type=command.type.value, allowed=allowed)
    if command.depth > DEPTH_MAX:
        raise DepthExceeded(depth=command.depth, limit=DEPTH_MAX)
    if head.queued + count > QUEUE_PER_AGENT_MAX:
        raise QueueFull(agent_id=head.agent_id, queued=head.queued)
    if command.run_id is not None:
        if command.run_id in plan.closed_runs:
            raise RunClosed(run_id=command.run_id)
        if command.run_id in plan.holding_runs and command.parent_turn_id is None:
            raise RunHeld(run_id=command.run_id)
    if command.type is MessageType.UI_ACTION:
        if head.gate is not Gate.OPEN:
            raise GateClosed(agent_id=head.agent_id, gate=head.gate.value)
        if head.status is not HeadStatus.IDLE or head.queued:
            raise AgentBusy(agent_id=head.agent_id, turn_id=head.turn_id)
    if command.output_box_id is not None or command.context_box_id is not None:
        _admit_boxes(plan, command)
    return mailbox


def _admit_boxes(plan: Plan, command: Enqueue) -> None:
    """See whether a turn may read and write the boxes its message names, which have to stay until it is written."""
    if command.output_box_id is not None:
        if command.output_box_id == command.context_box_id:
            raise BoxReadOnly(box_id=command.output_box_id)
        plan.may_own(command.key, command.output_box_id)
    if command.context_box_id is not None:
        plan.name_box(command.key[0], command.context_box_id)


def root_trace(scope: str) -> TraceId:
    """The trace of a turn nobody caused: its own scope, so that no index is needed to find it."""
    return TraceId("00000000" + scope)


def is_root_trace(turn: Turn) -> bool:
    return turn.trace_id == root_trace(scope_of(turn.turn_id))
