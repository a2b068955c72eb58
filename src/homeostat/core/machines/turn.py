"""The turn head and the inbox item: two tables moved by the same events."""

from enum import StrEnum

from homeostat.core.machines.table import Machine, Row


class HeadStatus(StrEnum):
    """What the one active turn of an agent is doing."""

    IDLE = "idle"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUSPENDED = "suspended"


class ItemStatus(StrEnum):
    """Where a message stands between being accepted and being done with."""

    QUEUED = "queued"
    PENDING = "pending"
    PROCESSING = "processing"
    CONSUMED = "consumed"
    DEAD = "dead"


class TurnEvent(StrEnum):
    """What can happen to a turn."""

    LEASE = "lease"
    CLAIM = "claim"
    SUSPEND = "suspend"
    RESUME = "resume"
    RELEASE = "release"
    RECOVER = "recover"
    PREEMPT = "preempt"
    DELIVER = "deliver"
    STOP = "stop"
    REAP = "reap"


H, M, E = HeadStatus, ItemStatus, TurnEvent

HEAD = Machine(
    "turn head",
    initial=H.IDLE,
    rows=[
        Row(H.IDLE, E.LEASE, H.DISPATCHED, "dispatch leases the oldest queued item, or a direct action"),
        Row(H.DISPATCHED, E.CLAIM, H.RUNNING, "a worker enters"),
        Row(H.DISPATCHED, E.RECOVER, H.DISPATCHED, "its claim was lost: announced again under a new epoch"),
        Row(H.DISPATCHED, E.PREEMPT, H.IDLE, "the gate closed before anybody came: back to the front of the queue"),
        Row(H.DISPATCHED, E.STOP, H.IDLE, "stopped before it ran, with a stop deliverable"),
        Row(H.DISPATCHED, E.REAP, H.IDLE, "attempts used up: a fallback deliverable ends it"),
        Row(H.RUNNING, E.SUSPEND, H.SUSPENDED, "it waits for tools and holds no worker"),
        Row(H.RUNNING, E.RELEASE, H.DISPATCHED, "the worker is leaving and hands it back unharmed"),
        Row(H.RUNNING, E.RECOVER, H.DISPATCHED, "the worker's lease ended: anybody may continue under a new epoch"),
        Row(H.RUNNING, E.PREEMPT, H.IDLE, "drained too long: fenced off, back to the front of the queue"),
        Row(H.RUNNING, E.DELIVER, H.IDLE, "the worker delivered"),
        Row(H.RUNNING, E.STOP, H.IDLE, "an operator stopped it, with a stop deliverable"),
        Row(H.RUNNING, E.REAP, H.IDLE, "attempts used up: a fallback deliverable ends it"),
        Row(H.SUSPENDED, E.RESUME, H.DISPATCHED, "the last result is in: any worker may continue"),
        Row(H.SUSPENDED, E.DELIVER, H.IDLE, "the last result said terminate: it is the deliverable"),
        Row(H.SUSPENDED, E.RECOVER, H.DISPATCHED, "an operator resumes it without its results, under a new epoch"),
        Row(H.SUSPENDED, E.PREEMPT, H.IDLE, "drained too long: its waits stay, the turn goes back to the queue"),
        Row(H.SUSPENDED, E.STOP, H.IDLE, "an operator stopped it, with a stop deliverable"),
        Row(H.SUSPENDED, E.REAP, H.IDLE, "attempts used up: a fallback deliverable ends it"),
    ],
)

ITEM = Machine(
    "inbox item",
    initial=M.QUEUED,
    final=[M.CONSUMED, M.DEAD],
    rows=[
        Row(M.QUEUED, E.LEASE, M.PENDING, "dispatch gave it the head and an epoch"),
        Row(M.QUEUED, E.STOP, M.CONSUMED, "stopped while it waited"),
        Row(M.PENDING, E.CLAIM, M.PROCESSING, "a worker took it"),
        Row(M.PENDING, E.RECOVER, M.PENDING, "announced again; the row is the same row"),
        Row(M.PENDING, E.PREEMPT, M.QUEUED, "back to the front: its place in line is its sequence number"),
        Row(M.PENDING, E.STOP, M.CONSUMED, "stopped before it ran"),
        Row(M.PENDING, E.REAP, M.DEAD, "attempts used up"),
        Row(M.PROCESSING, E.SUSPEND, M.PROCESSING, "the turn waits for tools; the message is still in work"),
        Row(M.PROCESSING, E.RESUME, M.PENDING, "results are in, a worker is wanted"),
        Row(M.PROCESSING, E.RELEASE, M.PENDING, "handed back by a leaving worker"),
        Row(M.PROCESSING, E.RECOVER, M.PENDING, "its worker died"),
        Row(M.PROCESSING, E.PREEMPT, M.QUEUED, "back to the front of the queue"),
        Row(M.PROCESSING, E.DELIVER, M.CONSUMED, "delivered"),
        Row(M.PROCESSING, E.STOP, M.CONSUMED, "stopped, with a stop deliverable"),
        Row(M.PROCESSING, E.REAP, M.DEAD, "attempts used up"),
    ],
)

ITEM_OF_HEAD = {H.DISPATCHED: M.PENDING, H.RUNNING: M.PROCESSING, H.SUSPENDED: M.PROCESSING}
"""The item a head holds has no status of its own to drift away: it follows the head."""
