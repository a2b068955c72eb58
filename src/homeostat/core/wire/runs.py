"""Runs, plans and budgets as they are sent."""

from typing import Annotated, Any

import msgspec

from homeostat.core.limits import (
    BUDGET_MAX,
    CURSOR_MAX,
    GOAL_CHARS_MAX,
    PAGE_DEFAULT,
    TASK_BACKOFF_SECONDS_MAX,
    TASK_DEPENDENCIES_MAX,
    TASK_RETRIES_MAX,
    TASK_SECONDS_MAX,
    TASKS_PARALLEL_DEFAULT,
    TASKS_PARALLEL_MAX,
    TASKS_PER_RUN_MAX,
)
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.budget import BudgetLimit
from homeostat.core.records.run import OnBudget, OnFailure, PauseCause, PlannerKind, TaskStanding
from homeostat.core.wire.bodies import Cursor, Limit
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape, Value, absent

Reason = Annotated[str, msgspec.Meta(max_length=1_000)]
Goal = Annotated[str, msgspec.Meta(min_length=1, max_length=GOAL_CHARS_MAX)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=BUDGET_MAX)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class TaskBody(Body, frozen=True, kw_only=True):
    """One task. It is carried out by `agent`, or by any agent of a `type` or with a `tag`: name one of the three.

    `{"$result": "other task"}` anywhere in the input becomes what that task delivered.
    """

    name: Name
    agent: Name | None = None
    type: Name | None = None
    tag: Name | None = None
    input: Value = absent()
    after: Annotated[tuple[Name, ...], msgspec.Meta(max_length=TASK_DEPENDENCIES_MAX)] = ()
    retries: Annotated[int, msgspec.Meta(ge=0, le=TASK_RETRIES_MAX)] = 0
    backoff_seconds: Annotated[float, msgspec.Meta(ge=0, le=TASK_BACKOFF_SECONDS_MAX)] = 1.0
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=TASK_SECONDS_MAX)] | None = None
    on_failure: OnFailure = OnFailure.FAIL
    approval: bool = False


class PlanBody(Body, frozen=True, kw_only=True):
    """What a planning agent delivers."""

    tasks: Annotated[tuple[TaskBody, ...], msgspec.Meta(max_length=TASKS_PER_RUN_MAX)]


class RunBudgetBody(Body, frozen=True, kw_only=True):
    """What a run may use; what is left out is not bounded. Seconds count only while it is applied."""

    tokens: Tokens | None = None
    usd: Amount | None = None
    seconds: Amount | None = None


class PlannerBody(Body, frozen=True, kw_only=True):
    """Who makes the plan: an agent, or a function that the server's setting `planners` names."""

    agent: Name | None = None
    function: Name | None = None


class RunPolicyBody(Body, frozen=True, kw_only=True):
    """How a run is carried out. `apply: manual` has it wait once it is planned."""

    apply: Annotated[str, msgspec.Meta(pattern="^(auto|manual)$")] = "auto"
    parallel: Annotated[int, msgspec.Meta(ge=1, le=TASKS_PARALLEL_MAX)] = TASKS_PARALLEL_DEFAULT
    on_budget: OnBudget = OnBudget.PAUSE
    pause_on_warning: bool = False


class RunBody(Body, frozen=True, kw_only=True):
    """A goal, and how to get there: tasks, or somebody who plans them."""

    goal: Goal
    tasks: Annotated[tuple[TaskBody, ...], msgspec.Meta(max_length=TASKS_PER_RUN_MAX)] | None = None
    planner: PlannerBody | None = None
    budget: RunBudgetBody | None = None
    policy: RunPolicyBody = RunPolicyBody()
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] | None = None
    replay: Annotated[
        bool,
        msgspec.Meta(
            description="Whether it can be replayed. Without it the ledger leaves out what only a replay needs: the "
            "steps of agents' own code and the cards they wrote. Calls of models and tools are told all the same."
        ),
    ] = True
    actor: Name = "operator"
    reason: Reason = ""


class ActBody(Body, frozen=True, kw_only=True):
    """Why, and on whose word."""

    reason: Reason = ""
    actor: Name = "operator"


class PlanRunBody(ActBody, frozen=True, kw_only=True):
    """A plan that an operator makes, instead of the run's planner."""

    tasks: Annotated[tuple[TaskBody, ...], msgspec.Meta(max_length=TASKS_PER_RUN_MAX)]


class PauseBody(ActBody, frozen=True, kw_only=True):
    """With `force` running turns are taken from their workers and go back to the queue."""

    force: bool = False


class ResumeBody(ActBody, frozen=True, kw_only=True):
    """What is said of the budget replaces that part of it."""

    budget: RunBudgetBody | None = None


class ButtonBody(ActBody, frozen=True, kw_only=True):
    """Which project; none is the whole system."""

    project: Name | None = None


class LiftQuery(ActBody, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Whose red button is lifted; without a project it is that of the whole system."""

    project: Annotated[
        Name | None, msgspec.Meta(description="The project whose button is meant; none is the whole system's.")
    ] = None


class RunsQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Which runs."""

    status: RunStatus | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class TasksQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Which tasks."""

    status: TaskStanding | None = None
    cursor: Annotated[
        int, msgspec.Meta(ge=-1, le=CURSOR_MAX, description="The number of the last task that was seen.")
    ] = -1
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class BudgetShape(Shape, frozen=True, kw_only=True):
    """What a run may use and has used, bounded or not, and when that ends at the pace so far."""

    tokens_max: int | None
    tokens_spent: int
    tokens_held: int
    usd_max: float | None
    usd_spent: float
    usd_held: float
    seconds_max: float | None
    seconds_spent: float
    warned: bool
    warned_of: tuple[BudgetLimit, ...]
    forecast: str | None
    reached_in_seconds: float | None


class MovedShape(Shape, frozen=True, kw_only=True):
    """The last transition."""

    actor: str
    reason: str
    at: Instant


class RunShape(Shape, frozen=True, kw_only=True):
    """A run as it stands.

    `waits_for` names the agents that have to work again before anything of it goes on: all that it has in hand waits
    for agents that are quarantined, drained or cordoned, or left. It is empty where a run gets on, and agents are
    told of those that left alone.
    """

    run_id: str
    goal: str
    status: RunStatus
    moved: MovedShape
    version: int
    trace_id: str
    seed: int
    replay: bool
    planner: PlannerKind
    planner_name: str
    paused_by: PauseCause | None
    at_rest: bool
    tasks: dict[str, int]
    waits_for: tuple[str, ...] = ()
    parallel: int
    budget: BudgetShape
    driver: str | None
    epoch: int
    created_at: Instant
    created_by: str
    ledger_entries: int
    ledger_hash: str
    error: Any


class RunsPage(Shape, frozen=True, kw_only=True):
    """Runs, newest first."""

    runs: list[RunShape]
    next_cursor: str | None


class TaskShape(Shape, frozen=True, kw_only=True):
    """A task and how far it is."""

    name: str
    number: int
    status: TaskStanding
    target: str
    after: tuple[str, ...]
    attempt: int
    retries: int
    turn_id: str | None
    agent_id: str | None
    not_before: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    approval: bool
    approved_by: str | None
    on_failure: OnFailure
    timeout_seconds: float | None
    error: Any


class TaskEndShape(TaskShape, frozen=True, kw_only=True):
    """A task with what it delivered, if it has."""

    result: Any


class TasksPage(Shape, frozen=True, kw_only=True):
    """A run's tasks, in their order; what each delivered is shown where it is asked for alone."""

    tasks: list[TaskShape]
    next_cursor: int | None


class ButtonShape(Shape, frozen=True, kw_only=True):
    """A red button that is pressed. Without a project it is that of the whole system."""

    project: str | None
    actor: str
    reason: str
    pressed_at: Instant


class ButtonsShape(Shape, frozen=True, kw_only=True):
    """The red buttons that are pressed."""

    pressed: list[ButtonShape]


class PressedShape(Shape, frozen=True, kw_only=True):
    """The button, and the runs that were killed by it."""

    button: ButtonShape
    killed: list[str]
    finished: list[str]
