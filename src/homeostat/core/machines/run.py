"""A run: a goal on its way from plan to outcome."""

from enum import StrEnum

from homeostat.core.machines.table import Machine, Row


class RunStatus(StrEnum):
    """Where a run stands."""

    PLANNING = "planning"
    PLANNED = "planned"
    APPLYING = "applying"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"


class RunEvent(StrEnum):
    """What can happen to a run."""

    PLAN_READY = "plan_ready"
    APPLY = "apply"
    PAUSE = "pause"
    RESUME = "resume"
    COMPLETE = "complete"
    FAIL = "fail"
    KILL = "kill"


S, E = RunStatus, RunEvent

RUN = Machine(
    "run",
    initial=S.PLANNING,
    final=[S.COMPLETED, S.FAILED, S.KILLED],
    rows=[
        Row(S.PLANNING, E.PLAN_READY, S.PLANNED, "the goal became tasks"),
        Row(S.PLANNING, E.FAIL, S.FAILED, "no plan could be made"),
        Row(S.PLANNING, E.KILL, S.KILLED, "killed before there was a plan"),
        Row(S.PLANNED, E.APPLY, S.APPLYING, "the plan may be carried out"),
        Row(S.PLANNED, E.PAUSE, S.PAUSED, "held before its first task"),
        Row(S.PLANNED, E.KILL, S.KILLED, "killed before its first task"),
        Row(S.APPLYING, E.COMPLETE, S.COMPLETED, "every task succeeded"),
        Row(S.APPLYING, E.FAIL, S.FAILED, "a task failed for good, or a policy blocked it"),
        Row(S.APPLYING, E.PAUSE, S.PAUSED, "an operator, a budget or a gate holds it"),
        Row(S.APPLYING, E.KILL, S.KILLED, "an operator or governance ended it"),
        Row(S.PAUSED, E.RESUME, S.APPLYING, "it goes on after its last completed task"),
        Row(S.PAUSED, E.KILL, S.KILLED, "ended while it was held"),
    ],
)
