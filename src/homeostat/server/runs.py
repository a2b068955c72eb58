"""Runs over HTTP: goals in, how they stand out, and what operators may do to them."""

from collections.abc import Sequence

from msgspec.structs import asdict

from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, IdempotencyKeyReused, InvalidRequest, Unauthenticated
from homeostat.core.filter import Filter
from homeostat.core.ids import RunId
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.run import (
    Bounds,
    PlannerKind,
    Run,
    RunConfig,
    RunPolicy,
    Task,
    TaskStanding,
)
from homeostat.core.run_errors import (
    PlanInvalid,
    PlannerUnknown,
    RedButtonPressed,
    RunFinished,
    RunOvertaken,
    RunUnapplied,
    RunUnknown,
    TargetUnknown,
    TaskSettled,
    TaskUnknown,
)
from homeostat.core.wire import runs as w
from homeostat.runs.control import Act, RunKey
from homeostat.runs.plan import spec_of
from homeostat.runs.standing import Stance, kept_as, stances, standings
from homeostat.server import identity, names
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.render import instant, optional_value
from homeostat.server.sifting import asked, sifted

routes = Routes("runs")

MICROS = 1_000_000
SEED_BITS = 53  # readers of JSON that have no other numbers than doubles round whatever is longer

MAKING = (
    PlanInvalid,
    TargetUnknown,
    PlannerUnknown,
    RedButtonPressed,
    IdempotencyKeyReused,
    Forbidden,
    Unauthenticated,
)
ACTING = (RunUnknown, RunFinished, RunOvertaken, IdempotencyKeyReused, Forbidden, Unauthenticated)


# --- making and reading --------------------------------------------------------------------------------------


@routes.taking(
    "POST",
    "/v1/runs",
    w.RunBody,
    gives=w.RunShape,
    status=201,
    errors=MAKING,
    examples={
        "two tasks": {
            "goal": "Summarise the report",
            "tasks": [
                {"name": "read", "agent": "reader-1", "input": {"url": "https://example.com/report"}},
                {"name": "sum up", "agent": "writer-1", "input": {"text": {"$result": "read"}}, "after": ["read"]},
            ],
            "budget": {"usd": 2, "tokens": 50000, "seconds": 600},
        }
    },
)
async def create_run(call: Call, body: w.RunBody) -> w.RunShape:
    """Begin a run: with its tasks, or with somebody who plans them.

    It is applied as soon as it is planned, unless its policy says `apply: manual`.
    """
    await identity.require_operator(call, verb="begin", what="runs")
    control = call.system.runs.control
    specs = None if body.tasks is None else [spec_of(task) for task in body.tasks]
    planner, name = PlannerKind.GIVEN, ""
    if specs is None:
        planner, name = await _planner(call, body.planner)
    elif body.planner is not None:
        raise InvalidRequest(problem="a run has tasks or a planner, not both")
    policy = body.policy
    config = RunConfig(
        goal=body.goal,
        seed=int(call.system.ids.trace(), 16) >> 128 - SEED_BITS if body.seed is None else body.seed,
        planner=planner,
        planner_name=name,
        bounds=_bounds(body.budget),
        replay=body.replay,
        policy=RunPolicy(
            wait_for_apply=policy.apply == "manual",
            parallel=policy.parallel,
            on_budget=policy.on_budget,
            pause_on_warning=policy.pause_on_warning,
        ),
    )
    made = await control.create(
        call.project, config, specs, actor=call.actor(body.actor), reason=body.reason, idempotency=call.idempotency
    )
    return await _run(call, made)


async def _planner(call: Call, body: w.PlannerBody | None) -> tuple[PlannerKind, str]:
    if body is None:
        return PlannerKind.AGENT, await call.system.runs.control.default_planner(call.project)
    if (body.agent is None) == (body.function is None):
        raise InvalidRequest(problem="a planner is an agent or a function")
    if body.agent is not None:
        return PlannerKind.AGENT, body.agent
    return PlannerKind.FUNCTION, body.function or ""


def _bounds(body: w.RunBudgetBody | None) -> Bounds:
    if body is None:
        return Bounds()
    micros = None if body.usd is None else round(body.usd * MICROS)
    return Bounds(tokens=body.tokens, micros=micros, seconds=body.seconds)


@routes.taking("GET", "/v1/runs", w.RunsQuery, gives=w.RunsPage)
async def list_runs(call: Call, query: w.RunsQuery) -> w.RunsPage:
    """Runs, newest first."""
    store = call.system.runs.store

    async def read(before: RunId | None, limit: int) -> list[w.RunShape]:
        found = await store.runs(call.project, status=query.status, before=before, limit=limit)
        return await _shown(call, found)

    found, following = await sifted(
        asked(call, "runs", query.q),
        read,
        lambda one: RunId(one.run_id),
        cursor=names.run_cursor(query.cursor),
        limit=query.limit,
    )
    return w.RunsPage(runs=found, next_cursor=following)


@routes.plain("GET", "/v1/runs/{run_id}", gives=w.RunShape, errors=(RunUnknown,))
async def read_run(call: Call) -> w.RunShape:
    """One run: how it stands, since when and by whom, and what it has used."""
    return await _run(call, await call.system.runs.get(*_key(call)))


@routes.taking("GET", "/v1/runs/{run_id}/tasks", w.TasksQuery, gives=w.TasksPage, errors=(RunUnknown,))
async def list_tasks(call: Call, query: w.TasksQuery) -> w.TasksPage:
    """A run's tasks, in their order."""
    runs, (project, run_id) = call.system.runs, _key(call)
    run = await runs.get(project, run_id)
    wanted = asked(call, "tasks", query.q)
    status = None
    if query.status is not None:
        status = kept_as(run, query.status)
        if status is None or status is TaskStatus.RUNNING:  # the store keeps more under it than is meant
            meant = asked(call, "tasks", f"status:{query.status}")
            wanted = Filter((*wanted.terms, *meant.terms), wanted.fields)

    async def read(after: int | None, limit: int) -> list[w.TaskShape]:
        found = await runs.store.tasks(run_id, after=-1 if after is None else after, status=status, limit=limit)
        shown = zip(found, await standings(runs.store, run, found), strict=True)
        return [_task(task, standing) for task, standing in shown]

    found, following = await sifted(wanted, read, lambda one: one.number, cursor=query.cursor, limit=query.limit)
    return w.TasksPage(tasks=found, next_cursor=following)


@routes.plain("GET", "/v1/runs/{run_id}/tasks/{task}", gives=w.TaskEndShape, errors=(RunUnknown, TaskUnknown))
async def read_task(call: Call) -> w.TaskEndShape:
    """One task, with what it delivered."""
    runs, (project, run_id) = call.system.runs, _key(call)
    run = await runs.get(project, run_id)
    name = names.word_in(call, "task")
    task = await runs.store.task(run_id, name)
    if task is None:
        raise TaskUnknown(run_id=run_id, task=name)
    (standing,) = await standings(runs.store, run, [task])
    return w.TaskEndShape(**asdict(_task(task, standing)), result=optional_value(task.result))


# --- what operators do ---------------------------------------------------------------------------------------


@routes.taking(
    "POST", "/v1/runs/{run_id}/plan", w.PlanRunBody, gives=w.RunShape, errors=(*ACTING, PlanInvalid, TargetUnknown)
)
async def plan_run(call: Call, body: w.PlanRunBody) -> w.RunShape:
    """Give a run that is still being planned its tasks."""
    await identity.require_operator(call, verb="plan", what="runs")
    specs = [spec_of(task) for task in body.tasks]
    return await _run(call, await call.system.runs.control.plan(_key(call), specs, who=acting(call, body)))


@routes.taking("POST", "/v1/runs/{run_id}/apply", w.ActBody, gives=w.RunShape, errors=ACTING)
async def apply_run(call: Call, body: w.ActBody) -> w.RunShape:
    """Carry out a plan that waits for it."""
    await identity.require_operator(call, verb="apply", what="runs")
    return await _run(call, await call.system.runs.control.apply(_key(call), who=acting(call, body)))


@routes.taking("POST", "/v1/runs/{run_id}/pause", w.PauseBody, gives=w.RunShape, errors=ACTING)
async def pause_run(call: Call, body: w.PauseBody) -> w.RunShape:
    """Hold a run. Running tasks end; with `force` their turns are preempted and go back to the queue."""
    await identity.require_operator(call, verb="pause", what="runs")
    control = call.system.runs.control
    return await _run(call, await control.pause(_key(call), force=body.force, who=acting(call, body)))


@routes.taking("POST", "/v1/runs/{run_id}/resume", w.ResumeBody, gives=w.RunShape, errors=(*ACTING, RunUnapplied))
async def resume_run(call: Call, body: w.ResumeBody) -> w.RunShape:
    """Go on after the last completed task, with another budget if one is sent."""
    await identity.require_operator(call, verb="resume", what="runs")
    bounds = None if body.budget is None else _bounds(body.budget)
    control = call.system.runs.control
    return await _run(call, await control.resume(_key(call), bounds=bounds, who=acting(call, body)))


@routes.taking("POST", "/v1/runs/{run_id}/kill", w.ActBody, gives=w.RunShape, errors=ACTING)
async def kill_run(call: Call, body: w.ActBody) -> w.RunShape:
    """End a run for good: no task starts any more, running turns are stopped, model calls are refused."""
    await identity.require_operator(call, verb="kill", what="runs")
    return await _run(call, await call.system.runs.control.kill(_key(call), who=acting(call, body)))


@routes.taking(
    "POST",
    "/v1/runs/{run_id}/tasks/{task}/approve",
    w.ActBody,
    gives=w.RunShape,
    errors=(*ACTING, TaskUnknown, TaskSettled),
)
async def approve_task(call: Call, body: w.ActBody) -> w.RunShape:
    """Allow a task that waits for it."""
    return await _answer(call, body, approve=True)


@routes.taking(
    "POST",
    "/v1/runs/{run_id}/tasks/{task}/reject",
    w.ActBody,
    gives=w.RunShape,
    errors=(*ACTING, TaskUnknown, TaskSettled),
)
async def reject_task(call: Call, body: w.ActBody) -> w.RunShape:
    """Forbid a task that waits for approval: it fails."""
    return await _answer(call, body, approve=False)


async def _answer(call: Call, body: w.ActBody, *, approve: bool) -> w.RunShape:
    await identity.require_operator(call, verb="answer for", what="runs")
    control = call.system.runs.control
    run = await control.answer(_key(call), names.word_in(call, "task"), approve=approve, who=acting(call, body))
    return await _run(call, run)


# --- showing -------------------------------------------------------------------------------------------------


def _key(call: Call) -> RunKey:
    return (call.project, RunId(names.word_in(call, "run_id")))


def acting(call: Call, body: w.ActBody) -> Act:
    """Who does something to a run, and why."""
    return Act(actor=call.actor(body.actor), reason=body.reason, idempotency=call.idempotency)


async def _run(call: Call, run: Run) -> w.RunShape:
    (shown,) = await _shown(call, [run])
    return shown


async def _shown(call: Call, found: Sequence[Run]) -> list[w.RunShape]:
    gates = call.principal.kind is not PrincipalKind.AGENT  # which may not know why others are held
    known = await stances(call.system.runs.store, found, gates=gates)
    return [await _shape(call, run, stance) for run, stance in zip(found, known, strict=True)]


async def _shape(call: Call, run: Run, stance: Stance) -> w.RunShape:
    spending = await call.system.runs.spending(run)
    bounds = run.bounds
    budget = w.BudgetShape(
        tokens_max=bounds.tokens,
        tokens_spent=spending.spent.tokens,
        tokens_held=spending.held.tokens,
        usd_max=None if bounds.micros is None else bounds.micros / MICROS,
        usd_spent=spending.spent.micros / MICROS,
        usd_held=spending.held.micros / MICROS,
        seconds_max=bounds.seconds,
        seconds_spent=spending.elapsed_ms / 1000,
        warned=run.warned,
        warned_of=run.warned_of,
        forecast=spending.forecast,
        reached_in_seconds=spending.reached_in_seconds,
    )
    return w.RunShape(
        run_id=run.run_id,
        goal=run.config.goal,
        status=run.status,
        moved=w.MovedShape(actor=run.moved.actor, reason=run.moved.reason, at=rfc3339(run.moved.at_ms)),
        version=run.version,
        trace_id=run.trace_id,
        seed=run.config.seed,
        replay=run.config.replay,
        planner=run.config.planner,
        planner_name=run.config.planner_name,
        paused_by=run.paused,
        at_rest=not run.live,
        tasks=stance.counts,
        waits_for=stance.waits_for,
        parallel=run.config.policy.parallel,
        budget=budget,
        driver=run.driver if run.live else None,
        epoch=run.epoch,
        created_at=rfc3339(run.created_at_ms),
        created_by=run.created_by,
        ledger_entries=run.tip.next_seq - 1,
        ledger_hash=run.tip.hash,
        error=optional_value(run.error),
    )


def _task(task: Task, standing: TaskStanding) -> w.TaskShape:
    spec = task.spec
    idle = standing in (TaskStanding.QUEUED, TaskStanding.WAITING)
    return w.TaskShape(
        name=spec.name,
        number=task.number,
        status=standing,
        target=str(spec.target),
        after=spec.after,
        attempt=task.attempt,
        retries=spec.retries,
        turn_id=task.turn_id,
        agent_id=task.agent_id,
        not_before=instant(task.not_before_ms),
        started_at=None if idle else instant(task.started_at_ms),
        ended_at=instant(task.ended_at_ms),
        approval=spec.approval,
        approved_by=task.approved_by,
        on_failure=spec.on_failure,
        timeout_seconds=spec.timeout_seconds,
        error=optional_value(task.error),
    )
