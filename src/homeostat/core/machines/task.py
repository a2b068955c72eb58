"""A task: one piece of a run, carried out as one turn of one agent."""

from enum import StrEnum

from homeostat.core.machines.table import Machine, Row


class TaskStatus(StrEnum):
    """Where a task stands."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"


class TaskEvent(StrEnum):
    """What can happen to a task."""

    ASK = "ask"
    APPROVE = "approve"
    REJECT = "reject"
    START = "start"
    RETURN = "return"
    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY = "retry"
    SKIP = "skip"
    STOP = "stop"


S, E = TaskStatus, TaskEvent

TASK = Machine(
    "task",
    initial=S.WAITING,
    final=[S.SUCCEEDED, S.FAILED, S.SKIPPED, S.STOPPED],
    rows=[
        Row(S.WAITING, E.ASK, S.HELD, "what it waited for is done, and somebody has to allow it"),
        Row(S.WAITING, E.START, S.RUNNING, "its turn is about to be enqueued"),
        Row(S.WAITING, E.FAIL, S.FAILED, "nobody can carry it out"),
        Row(S.WAITING, E.SKIP, S.SKIPPED, "what it waited for failed"),
        Row(S.WAITING, E.STOP, S.STOPPED, "its run ended before it began"),
        Row(S.HELD, E.APPROVE, S.WAITING, "somebody allowed it"),
        Row(S.HELD, E.REJECT, S.FAILED, "somebody forbade it"),
        Row(S.HELD, E.SKIP, S.SKIPPED, "what it waited for failed after all"),
        Row(S.HELD, E.STOP, S.STOPPED, "its run ended before anybody allowed it"),
        Row(S.RUNNING, E.SUCCEED, S.SUCCEEDED, "its turn delivered"),
        Row(S.RUNNING, E.FAIL, S.FAILED, "its turn failed, and it is not tried again"),
        Row(S.RUNNING, E.RETRY, S.WAITING, "its turn failed, and it is tried again"),
        Row(S.RUNNING, E.RETURN, S.WAITING, "its turn never began, because its run was held first"),
        Row(S.RUNNING, E.STOP, S.STOPPED, "its run ended, and its turn with it"),
    ],
)
