"""A run: a goal, its tasks, what it may spend, and how far it is."""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, TraceId, TurnId
from homeostat.core.limits import TASKS_PARALLEL_DEFAULT
from homeostat.core.machines.run import RUN, RunStatus
from homeostat.core.machines.task import TASK, TaskStatus
from homeostat.core.records.budget import BudgetLimit, Limits
from homeostat.core.records.provenance import START, Tip


class TargetKind(StrEnum):
    """How a task says who should carry it out."""

    AGENT = "agent"
    TYPE = "type"
    TAG = "tag"


class OnFailure(StrEnum):
    """What a failed task means for its run."""

    FAIL = "fail"  # the run fails
    CONTINUE = "continue"  # what depends on the task is skipped, the rest goes on
    RETRY = "retry"  # it is tried a few times more, and then the run fails


class PlannerKind(StrEnum):
    """Who makes the plan."""

    GIVEN = "given"  # the request has it
    AGENT = "agent"  # an agent, in a turn
    FUNCTION = "function"  # a Python function of the server's process


class OnBudget(StrEnum):
    """What happens to a run that has used up what it may spend."""

    PAUSE = "pause"
    FAIL = "fail"


class PauseCause(StrEnum):
    """What holds a run."""

    OPERATOR = "operator"
    WARNING = "warning"  # most of a budget is spent
    BUDGET = "budget"  # all of it is
    GATE = "gate"  # nothing can go on until somebody approves a task


class TaskStanding(StrEnum):
    """A task as one word, as it is shown. It is running while its turn is worked on, or waits for tools; before that,
    once its turn is made, it is queued.
    """

    WAITING = TaskStatus.WAITING.value
    HELD = TaskStatus.HELD.value
    QUEUED = "queued"
    RUNNING = TaskStatus.RUNNING.value
    SUCCEEDED = TaskStatus.SUCCEEDED.value
    FAILED = TaskStatus.FAILED.value
    SKIPPED = TaskStatus.SKIPPED.value
    STOPPED = TaskStatus.STOPPED.value


class Target(Struct, frozen=True, gc=False):
    """Who should carry a task out: one agent, or any of a type or with a tag."""

    kind: TargetKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind is TargetKind.AGENT else f"{self.kind}:{self.name}"


class TaskSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A task as it was planned; never changed afterwards. What nobody asked for is not written, in rows and in ledgers:
    so a default of one of these can never be another one.
    """

    name: str
    target: Target
    input: msgspec.Raw
    after: tuple[str, ...] = ()
    retries: int = 0
    backoff_seconds: float = 1.0
    timeout_seconds: float | None = None
    on_failure: OnFailure = OnFailure.FAIL
    approval: bool = False


class Task(Struct, frozen=True, gc=False):
    """A task and how far it is. `attempt` counts from 1 once it has been started. `noted` says what of its turn is in
    the ledger already, though it has not ended. `result` is what it delivered, if another task asks for it: that of any
    other is its turn's.
    """

    number: int
    spec: TaskSpec
    status: TaskStatus = TaskStatus.WAITING
    attempt: int = 0
    turn_id: TurnId | None = None
    agent_id: AgentId | None = None
    not_before_ms: Millis | None = None
    started_at_ms: Millis | None = None
    ended_at_ms: Millis | None = None
    approved_by: str | None = None
    error: Json | None = None
    result: Json | None = None
    noted: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        return self.status in TASK.final


class Bounds(Struct, frozen=True, kw_only=True):
    """What a run may use. Money is in micro-dollars, seconds are those in which it is applied."""

    tokens: int | None = None
    micros: int | None = None
    seconds: float | None = None

    def most(self, limit: BudgetLimit) -> float | None:
        """A bound, by its name."""
        match limit:
            case BudgetLimit.TOKENS:
                return self.tokens
            case BudgetLimit.USD:
                return self.micros
            case BudgetLimit.SECONDS:
                return self.seconds


class RunPolicy(Struct, frozen=True, kw_only=True):
    """How a run is to be carried out."""

    wait_for_apply: bool = False
    parallel: int = TASKS_PARALLEL_DEFAULT
    on_budget: OnBudget = OnBudget.PAUSE
    pause_on_warning: bool = False


class RunConfig(Struct, frozen=True, kw_only=True):
    """What somebody asked for; never changed afterwards. `replay` says that its code can be run again on its ledger."""

    goal: str
    seed: int
    planner: PlannerKind = PlannerKind.GIVEN
    planner_name: str = ""
    bounds: Bounds = Bounds()
    policy: RunPolicy = RunPolicy()
    replay: bool = True


class Move(Struct, frozen=True):
    """The last transition: by whom, why and when."""

    actor: str
    reason: str
    at_ms: Millis


class Outlived(Struct, frozen=True):
    """A turn that has ended before all that it asked of others, and what is told of those already."""

    turn_id: TurnId
    noted: tuple[str, ...]


class Run(Struct, frozen=True, kw_only=True):
    """A run as it stands. Whatever changes it swaps the version, and carries on its ledger from the tip.

    `live` says that some process has to look after it: to plan, to apply, or to bring to rest what still runs.
    `applied_ms` is how long it was applied before `applying_since_ms`. `keys` are the last requests that changed it.
    Of the `calls_noted` that are in its ledger, `tokens_noted` and `micros_noted` are what they took.
    """

    run_id: RunId
    project: ProjectId
    trace_id: TraceId
    config: RunConfig
    version: int = 1
    status: RunStatus = RunStatus.PLANNING
    moved: Move
    created_at_ms: Millis
    created_by: str
    live: bool = True
    driver: str | None = None
    epoch: int = 0
    tip: Tip = START
    bounds: Bounds = Bounds()
    applied_ms: int = 0
    applying_since_ms: Millis | None = None
    paused: PauseCause | None = None
    forced: bool = False
    warned: bool = False
    warned_of: Limits = ()
    plan_turn_id: TurnId | None = None
    plan_told: bool | None = None
    outlived: tuple[Outlived, ...] = ()
    calls_after: str = ""
    calls_noted: int = 0
    tokens_noted: int = 0
    micros_noted: int = 0
    swept_at_ms: Millis | None = None
    counts: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    error: Json | None = None
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def final(self) -> bool:
        return self.status in RUN.final

    @property
    def plan_untold(self) -> bool:
        """Whether its ledger has yet to tell of the turn that was asked for its plan. A run that does not remember that
        began before runs did: it told of it with the plan.
        """
        told = bool(self.counts) if self.plan_told is None else self.plan_told
        return self.plan_turn_id is not None and not told

    @property
    def held(self) -> bool:
        """Whether it was paused by force: none of its turns is given out."""
        return self.status is RunStatus.PAUSED and self.forced

    def elapsed_ms(self, now: Millis) -> int:
        """For how long it has been applied, pauses not counted."""
        return self.applied_ms + (0 if self.applying_since_ms is None else max(0, now - self.applying_since_ms))


class GateState(StrEnum):
    """What a run may start."""

    OPEN = "open"
    HOLDING = "holding"  # turns that its tasks ask of other agents, and no task
    HELD = "held"  # none is given out: what its tasks ask of other agents waits in line
    CLOSED = "closed"  # nothing


class Start(IntEnum):
    """What is started of a run. Each asks more of its gate than those before."""

    CHILD = 0  # a turn is made that another of its turns asks for; it may have to wait
    TURN = 1  # a turn is given out, or a worker enters it
    TASK = 2  # a turn is made that nothing asked for but the run


GATES: Final = {
    RunStatus.PLANNING: GateState.OPEN,
    RunStatus.PLANNED: GateState.HOLDING,
    RunStatus.APPLYING: GateState.OPEN,
    RunStatus.PAUSED: GateState.HOLDING,
    RunStatus.COMPLETED: GateState.CLOSED,
    RunStatus.FAILED: GateState.CLOSED,
    RunStatus.KILLED: GateState.CLOSED,
}
"""By status; a run that was paused by force is held."""

SHUT: Final = {GateState.HOLDING: Start.TASK, GateState.HELD: Start.TURN, GateState.CLOSED: Start.CHILD}
"""From what on a gate refuses."""


def gate_of(run: Run) -> GateState:
    """What a run that stands like this may start."""
    return GateState.HELD if run.held else GATES[run.status]


class RunChange(Struct, frozen=True, kw_only=True):
    """What one transaction makes of a run. `lines` are what its ledger goes on with, `cleared` tasks of which nothing
    is told any more. `epoch` is that of the driver who writes; others write without.
    """

    run: Run
    tasks: tuple[Task, ...] = ()
    new_tasks: tuple[Task, ...] = ()
    cleared: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()
    gate: GateState | None = None
    epoch: int | None = None

    @property
    def first_seq(self) -> int:
        """The number of the first of its lines."""
        return self.run.tip.next_seq - len(self.lines)


class RedButton(Struct, frozen=True):
    """A project, or with an empty name the whole system, in which no run may begin."""

    project: str
    actor: str
    reason: str
    pressed_at_ms: Millis
