"""Planning: an agent, a function of this process or the request itself turns a goal into tasks."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from homeostat.core.codec import to_json
from homeostat.core.errors import HomeostatError, TurnUnknown, Unavailable
from homeostat.core.gateway_errors import BudgetExceeded
from homeostat.core.ids import AgentId, turn_of
from homeostat.core.machines.run import RunEvent
from homeostat.core.ports.runs import PlanFunction
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import Bounds, PlannerKind, Run, RunConfig, Task, TaskSpec
from homeostat.core.records.turn import MessageType
from homeostat.core.run_errors import PlannerUnknown, RunClosed, RunHeld, TurnExists
from homeostat.kernel.commands import Enqueue
from homeostat.runs.chronicle import Chronicle
from homeostat.runs.desk import Desk
from homeostat.runs.draft import DRIVER, Draft
from homeostat.runs.outcomes import KILLER, TIMEKEEPER, stopped_by
from homeostat.runs.plan import check_plan, read_plan
from homeostat.runs.stopping import stop_turn
from homeostat.runs.timekeeping import Timekeeper

TIMED_OUT: Final = "planner_timed_out"
PLAN_NUMBER: Final = -1  # a plan is looked after as a task is, and is none


class Planning:
    """Brings a run from planning to planned, in as many steps as it takes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._asked = False
        self._calling: asyncio.Task[Sequence[TaskSpec] | PlanProblem] | None = None
        self._until = 0.0
        self._timekeeper = Timekeeper(desk)
        self._left = False

    async def advance(self, draft: Draft, *, woken: Callable[[], None]) -> bool:
        """Take the next step, if there is one to take now."""
        run = draft.run
        try:
            if run.config.planner is PlannerKind.FUNCTION:
                found = self._call(run, woken)
            elif run.plan_turn_id is None:
                draft.set(plan_turn_id=turn_of(self._desk.ids.scope()), plan_told=False)
                return True
            else:
                found = await self._ask(run, woken)
            if found is None:
                return False
            await adopt_plan(self._desk, draft, found, actor=run.config.planner_name)
        except PlanProblem as problem:
            error = to_json({"code": problem.code, "message": problem.message})
            draft.move(RunEvent.FAIL, actor=DRIVER, reason=problem.message[:1000], error=error)
        return True

    def _call(self, run: Run, woken: Callable[[], None]) -> Sequence[TaskSpec] | None:
        """The plan a function made; None while it is at it."""
        name, seconds = run.config.planner_name, self._desk.planner_seconds
        if self._calling is None:
            function = self._desk.planners.get(name)
            if function is None:
                raise PlanProblem.of(PlannerUnknown(planner=name))
            self._calling = asyncio.get_running_loop().create_task(
                _made(function, run.config), name=f"plan {run.run_id}"
            )
            self._calling.add_done_callback(lambda _: woken())
            self._until = self._desk.clock.monotonic() + seconds
        if not self._calling.done():
            if self._desk.clock.monotonic() < self._until:
                return None
            self.leave()
            raise PlanProblem(TIMED_OUT, f"the planning function {name!r} took longer than {seconds:g} s")
        made = (
            PlanProblem("planner_failed", "it was cancelled") if self._calling.cancelled() else self._calling.result()
        )
        if isinstance(made, PlanProblem):
            raise made
        return made

    @property
    def left_seconds(self) -> float | None:
        """How long whoever is at it may still take."""
        clock = self._desk.clock
        if (due := self._timekeeper.due_ms) is not None:
            return max(0.0, (due - clock.now_ms()) / 1000)
        if self._calling is None or self._calling.done():
            return None
        return max(0.0, self._until - clock.monotonic())

    def leave(self) -> None:
        """Give up the function that is at it: nobody needs its plan any more."""
        if self._calling is not None:
            self._calling.cancel()

    async def leave_to(self, run: Run) -> None:
        """Give up whoever is at it: the run has its plan. A turn that was asked for one, and did not make it, ends."""
        self.leave()
        turn_id, kernel = run.plan_turn_id, self._desk.kernel
        if turn_id is None or self._left or run.final:  # whoever ended it says why
            return
        if await kernel.deliverables.get(run.project, turn_id) is None:
            with suppress(TurnUnknown):  # it was named, and never made
                reason = f"run {run.run_id} has its plan"
                await stop_turn(self._desk, run.project, turn_id, reason=reason, actor=KILLER)
        self._left = True

    async def _ask(self, run: Run, woken: Callable[[], None]) -> Sequence[TaskSpec] | None:
        """The plan an agent delivered; None while it is at it. Its turn is named before it is made."""
        kernel, turn_id = self._desk.kernel, run.plan_turn_id
        agent_id, seconds = AgentId(run.config.planner_name), self._desk.planner_seconds
        assert turn_id is not None
        if not self._asked:
            payload = to_json({"goal": run.config.goal, "seed": run.config.seed, "asks": "plan"})
            try:
                await kernel.enqueue(
                    Enqueue(
                        key=(run.project, agent_id),
                        type=MessageType.TURN,
                        payload=payload,
                        turn_id=turn_id,
                        correlation_id=f"{run.run_id}/plan/{run.config.seed}",
                        trace_id=run.trace_id,
                        run_id=run.run_id,
                    )
                )
            except TurnExists:
                pass
            except (RunClosed, RunHeld):
                return None
            self._asked = True
            self._timekeeper.mind_turn(PLAN_NUMBER, turn_id, agent_id, seconds, asked_ms=run.created_at_ms)
        watching = kernel.deliverables.watch(turn_id)
        watching.add_done_callback(lambda _: woken())
        end = await kernel.deliverables.get(run.project, turn_id)
        if end is None:
            await self._timekeeper.enforce(run, self._desk.clock.now_ms(), {PLAN_NUMBER: turn_id})
            return None
        if stopped_by(end) == TIMEKEEPER:
            raise PlanProblem(TIMED_OUT, f"the planning agent {agent_id!r} took longer than {seconds:g} s")
        if not end.succeeded:
            refused = run.bounds != Bounds() and await self._desk.purse.refused(run, agent_id, since=run.created_at_ms)
            if refused:
                problem = f"planning took more than the budget has: a call of the planning turn {turn_id} was refused"
                raise PlanProblem(BudgetExceeded.code, problem)
            raise PlanProblem("planner_failed", f"the planning turn {turn_id} ended with {end.status}: {end.error}")
        try:
            return read_plan(end.result)
        except HomeostatError as problem:
            raise PlanProblem.of(problem) from problem


async def _made(function: PlanFunction, config: RunConfig) -> "Sequence[TaskSpec] | PlanProblem":
    try:
        return await function(config)
    except HomeostatError as problem:
        return PlanProblem.of(problem)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the run says so
        return PlanProblem("planner_failed", f"{type(problem).__name__}: {problem}"[:1000])


class PlanProblem(Exception):
    """No plan could be made."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @classmethod
    def of(cls, error: HomeostatError) -> "PlanProblem":
        return cls(error.code, error.message)


async def adopt_plan(desk: Desk, draft: Draft, specs: Sequence[TaskSpec], *, actor: str) -> None:
    """Check a plan and make it the run's; where nobody has to say so, it is applied at once."""
    run = draft.run
    try:
        await check_plan(specs, lambda target: desk.agents.find(run.project, target))
    except Unavailable:
        raise  # it is looked at again
    except HomeostatError as problem:
        raise PlanProblem.of(problem) from problem
    await Chronicle(desk).plan_ended(draft)
    install_plan(draft, specs, actor=actor)


def install_plan(draft: Draft, specs: Sequence[TaskSpec], *, actor: str, reason: str = "") -> None:
    """Write a checked plan into a run."""
    draft.plan(tuple(Task(number, spec) for number, spec in enumerate(specs)))
    draft.note(EntryKind.PLAN_MADE, {"by": actor, "tasks": list(specs)})
    draft.move(RunEvent.PLAN_READY, actor=actor, reason=reason or f"{len(specs)} tasks")
    if not draft.run.config.policy.wait_for_apply:
        draft.move(RunEvent.APPLY, actor=DRIVER, reason="nobody has to say so")
