"""What operators do to runs: make, plan, apply, pause, resume, kill, approve, and the red button."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from homeostat.core.clock import rfc3339
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError, IdempotencyKeyReused, Overloaded
from homeostat.core.ids import AgentId, ProjectId, RunId
from homeostat.core.limits import PAGE_MAX, RUN_CONFLICTS_MAX, RUN_KEYS_KEPT_MAX
from homeostat.core.machines.run import RUN, RunEvent, RunStatus
from homeostat.core.machines.task import TaskEvent, TaskStatus
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import (
    Bounds,
    Move,
    PauseCause,
    PlannerKind,
    RedButton,
    Run,
    RunConfig,
    Target,
    TargetKind,
    Task,
    TaskSpec,
)
from homeostat.core.run_errors import (
    PlannerUnknown,
    RedButtonPressed,
    RunFinished,
    RunOvertaken,
    RunUnapplied,
    RunUnknown,
    TaskSettled,
    TaskUnknown,
)
from homeostat.kernel.commands import Idempotency
from homeostat.runs.desk import Desk
from homeostat.runs.draft import Draft
from homeostat.runs.plan import check_plan
from homeostat.runs.planning import install_plan
from homeostat.runs.standing import standings
from homeostat.runs.stopping import preempt_turns, stop_turns

log = logging.getLogger(__name__)

ANSWERS: Final = ("approved", "rejected")

Rule = Callable[[Draft], Awaitable[None] | None]
RunKey = tuple[ProjectId, RunId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Who does something, why, and under which key it may be asked for again."""

    actor: str
    reason: str = ""
    idempotency: Idempotency | None = None


class Control:
    """Every act is one compare-and-swap with actor, reason and time. Whoever comes second learns who was first."""

    def __init__(self, desk: Desk, *, changed: Callable[[Run], Awaitable[None]]) -> None:
        self._desk = desk
        self._changed = changed

    # --- making --------------------------------------------------------------------------------------------

    async def create(
        self,
        project: ProjectId,
        config: RunConfig,
        specs: Sequence[TaskSpec] | None,
        *,
        actor: str,
        reason: str = "",
        idempotency: Idempotency | None = None,
    ) -> Run:
        """A new run, planned already if its tasks came along. Nothing is written where anything is wrong."""
        desk = self._desk
        now = desk.clock.now_ms()
        if specs is not None:
            await check_plan(specs, lambda target: desk.agents.find(project, target))
        else:
            await self._check_planner(project, config)
        run = Run(
            run_id=desk.ids.run(),
            project=project,
            trace_id=desk.ids.trace(),
            config=config,
            moved=Move(actor, reason or "it was asked for", now),
            created_at_ms=now,
            created_by=actor,
            bounds=config.bounds,
            keys=() if idempotency is None else ((idempotency.key, idempotency.fingerprint),),
        )
        draft = Draft(run, now)
        said = {"config": config, "actor": actor, "reason": reason, "trace_id": run.trace_id}
        draft.note(EntryKind.RUN_CREATED, said)
        if specs is not None:
            install_plan(draft, specs, actor=actor)
        made = await desk.store.create(draft.birth(), request_key=None if idempotency is None else idempotency.key)
        if isinstance(made, RedButton):
            raise pressed(made)
        if idempotency is not None and (idempotency.key, idempotency.fingerprint) not in made.keys:
            raise IdempotencyKeyReused(key=idempotency.said)
        if made.run_id == run.run_id and draft.new_tasks:
            desk.remember(made, draft.new_tasks)
        await self._changed(made)
        return made

    async def _check_planner(self, project: ProjectId, config: RunConfig) -> None:
        if config.planner is PlannerKind.FUNCTION:
            known = config.planner_name in self._desk.planners
        else:
            known = bool(await self._desk.agents.find(project, Target(TargetKind.AGENT, config.planner_name)))
        if not known:
            raise PlannerUnknown(planner=config.planner_name)

    async def default_planner(self, project: ProjectId) -> AgentId:
        """The agent that plans where nobody was named: one of the type `planner`."""
        found = await self._desk.agents.find(project, Target(TargetKind.TYPE, "planner"))
        if not found:
            raise PlannerUnknown(planner="type:planner")
        return found[0]

    async def plan(self, run: RunKey, specs: Sequence[TaskSpec], *, who: Act) -> Run:
        """Give a run that is being planned its tasks."""
        await check_plan(specs, lambda target: self._desk.agents.find(run[0], target))

        def rule(draft: Draft) -> None:
            install_plan(draft, specs, actor=who.actor, reason=who.reason)

        return await self._act(run, "be planned", RunEvent.PLAN_READY, rule, who)

    # --- moving --------------------------------------------------------------------------------------------

    async def apply(self, run: RunKey, *, who: Act) -> Run:
        def rule(draft: Draft) -> None:
            draft.move(RunEvent.APPLY, actor=who.actor, reason=who.reason)

        return await self._act(run, "be applied", RunEvent.APPLY, rule, who)

    async def pause(self, run: RunKey, *, force: bool, who: Act) -> Run:
        """Hold a run: running tasks end, or with force go back to the queue. An approval does not undo it."""

        def rule(draft: Draft) -> None:
            run = draft.run
            if run.status is RunStatus.PAUSED and run.paused is PauseCause.GATE:
                draft.set(paused=PauseCause.OPERATOR, moved=Move(who.actor, who.reason, draft.now), live=True)
                if force:
                    draft.force()
                said = {"change": "taken_over", "actor": who.actor, "reason": who.reason, "force": force}
                draft.note(EntryKind.RUN_CHANGED, said)
                return
            if force and run.status is RunStatus.PAUSED and not run.forced:
                draft.force()
                said = {"change": "forced", "actor": who.actor, "reason": who.reason}
                draft.note(EntryKind.RUN_CHANGED, said)
                return
            self._require(draft.run, "be paused", RunEvent.PAUSE)
            draft.move(
                RunEvent.PAUSE,
                actor=who.actor,
                reason=who.reason,
                details={"force": force},
                paused=PauseCause.OPERATOR,
                forced=force,
            )

        paused = await self._act(run, "be paused", None, rule, who)
        if force:
            await self._try(preempt_turns(self._desk, paused), paused)
        return paused

    async def resume(self, run: RunKey, *, bounds: Bounds | None, who: Act) -> Run:
        """Go on after the last completed task; what is said of the budget replaces that part of it."""

        def rule(draft: Draft) -> None:
            before = draft.run.bounds
            if bounds is not None:
                raised = Bounds(
                    tokens=before.tokens if bounds.tokens is None else bounds.tokens,
                    micros=before.micros if bounds.micros is None else bounds.micros,
                    seconds=before.seconds if bounds.seconds is None else bounds.seconds,
                )
                told = tuple(limit for limit in draft.run.warned_of if raised.most(limit) == before.most(limit))
                draft.set(bounds=raised, warned=bool(told), warned_of=told)
            details = None if bounds is None else {"budget": draft.run.bounds}
            draft.move(RunEvent.RESUME, actor=who.actor, reason=who.reason, details=details)

        return await self._act(run, "be resumed", RunEvent.RESUME, rule, who)

    async def kill(self, run: RunKey, *, who: Act) -> Run:
        """End a run. From the commit on it starts nothing, and its model calls are refused; then its turns stop."""
        killed = await self._close(run, who)
        await self._try(stop_turns(self._desk, killed), killed)
        return killed

    async def _close(self, run: RunKey, who: Act) -> Run:
        def rule(draft: Draft) -> None:
            draft.move(RunEvent.KILL, actor=who.actor, reason=who.reason)

        return await self._act(run, "be killed", RunEvent.KILL, rule, who)

    async def _try(self, work: Awaitable[int], run: Run) -> None:
        """Do at once what the driver would do a moment later; should it fail, the driver does it."""
        try:
            await work
        except HomeostatError as problem:
            log.warning("the turns of run %s are left to its driver: %s", run.run_id, problem)

    # --- tasks ---------------------------------------------------------------------------------------------

    async def answer(self, run: RunKey, name: str, *, approve: bool, who: Act) -> Run:
        """Allow a task that waits for approval, or forbid it. A run that was held for it goes on."""

        async def rule(draft: Draft) -> None:
            task = await self.held(draft.run, name)
            verb = ANSWERS[0] if approve else ANSWERS[1]
            said = {"change": verb, "task": name, "actor": who.actor, "reason": who.reason}
            draft.note(EntryKind.RUN_CHANGED, said)
            if approve:
                draft.task(task, TaskEvent.APPROVE, approved_by=who.actor)
            else:
                error = _rejection(who)
                draft.task(task, TaskEvent.REJECT, ended_at_ms=draft.now, error=error)
            if draft.run.status is RunStatus.PAUSED and draft.run.paused is PauseCause.GATE:
                draft.move(RunEvent.RESUME, actor=who.actor, reason=f"task {name!r} was {verb}")
            draft.set(live=True)

        return await self._act(run, "be answered", None, rule, who)

    async def held(self, run: Run, name: str) -> Task:
        """A task that waits for an answer; raises what an answer to any other would."""
        task = await self._desk.store.task(run.run_id, name)
        if task is None:
            raise TaskUnknown(run_id=run.run_id, task=name)
        if run.final or task.status is not TaskStatus.HELD:
            answer = await self._answer_to(run, task)
            if run.final and "actor" not in answer:
                raise _lost(RunFinished, run, "be answered")
            (standing,) = await standings(self._desk.store, run, [task])
            raise TaskSettled(run_id=run.run_id, task=name, state=standing.value, **answer)
        return task

    async def _answer_to(self, run: Run, task: Task) -> dict[str, str]:
        """Who answered for a task, when and why: one of the last entries of the ledger says so."""
        ledgers, before = self._desk.ledgers, run.tip.next_seq
        latest = [] if ledgers is None else await ledgers.newest(run.project, run.run_id, before=before, limit=PAGE_MAX)
        for entry in latest:
            if entry.kind != EntryKind.RUN_CHANGED:
                continue
            said = cast("dict[str, str]", from_json(entry.payload))
            if said.get("task") == task.spec.name and said["change"] in ANSWERS:
                at, actor, reason = rfc3339(entry.at_ms), said["actor"], said["reason"]
                words = f", {said['change']} at {at} by {actor}{f' ({reason})' if reason else ''}"
                return {"answered": words, "at": at, "actor": actor, "reason": reason}
        by = task.approved_by
        return {"answered": ""} if by is None else {"answered": f", approved by {by}", "actor": by}

    # --- the red button ------------------------------------------------------------------------------------

    async def press(self, project: str, *, who: Act) -> tuple[RedButton, list[RunId], list[RunId]]:
        """Kill every run of a project or of all, and let none begin until it is lifted."""
        now = self._desk.clock.now_ms()
        button = await self._desk.store.press(RedButton(project, who.actor, who.reason, now))
        return button, *await self.enforce(button)

    async def enforce(self, button: RedButton) -> tuple[list[RunId], list[RunId]]:
        """Kill what is alive under a button that is pressed; returns what was killed, and what had ended by itself.

        Agents that are freed must not begin what is yet to be killed. So all is held first, the newest is killed first,
        as it stands last in line, and turns are stopped when every gate is closed.
        """
        alive: list[Run] = []
        while found := await self._desk.store.alive(
            ProjectId(button.project) or None, after=alive[-1].run_id if alive else None, limit=PAGE_MAX
        ):
            alive += found
        killed: list[Run] = []
        finished: list[RunId] = []
        who = Act(actor=button.actor, reason=f"red button: {button.reason}")
        kernel = self._desk.kernel
        for run in alive:
            kernel.hold_run(run.run_id)
        try:
            for run in reversed(alive):
                try:
                    killed.append(await self._close((run.project, run.run_id), who))
                except RunFinished:
                    finished.append(run.run_id)
            for run in killed:
                await self._try(stop_turns(self._desk, run), run)
        finally:
            for run in alive:
                if not run.held:
                    kernel.let_run_go(run.run_id, ())
        return [run.run_id for run in killed], finished

    # --- inside --------------------------------------------------------------------------------------------

    async def _act(self, key: RunKey, verb: str, event: RunEvent | None, rule: Rule, who: Act) -> Run:
        """Decide on what is there, and write it if it is still there; else decide again."""
        project, run_id = key
        for _ in range(RUN_CONFLICTS_MAX):
            run = await self._desk.store.run(project, run_id)
            if run is None:
                raise RunUnknown(run_id=run_id)
            if who.idempotency is not None and self._repeated(run, who.idempotency):
                return run
            if event is not None:
                self._require(run, verb, event)
            draft = Draft(run, self._desk.clock.now_ms())
            waiting = rule(draft)
            if waiting is not None:
                await waiting
            if who.idempotency is not None:
                mine = (who.idempotency.key, who.idempotency.fingerprint)
                draft.set(keys=(*draft.run.keys, mine)[-RUN_KEYS_KEPT_MAX:])
            change = draft.change()
            if await self._desk.store.save(change):
                if run.held:  # perhaps elsewhere alone; whoever holds a run gives its turns out when it is let go
                    self._desk.kernel.hold_run(run_id)
                await self._changed(change.run)
                return change.run
        raise Overloaded(problem=f"run {run_id} moved {RUN_CONFLICTS_MAX} times meanwhile")

    @staticmethod
    def _repeated(run: Run, idempotency: Idempotency) -> bool:
        for key, fingerprint in run.keys:
            if key == idempotency.key:
                if fingerprint != idempotency.fingerprint:
                    raise IdempotencyKeyReused(key=idempotency.said)
                return True
        return False

    @staticmethod
    def _require(run: Run, verb: str, event: RunEvent) -> None:
        """Say who was first, where something cannot be done any more."""
        if RUN.allows(run.status, event):
            return
        if event is RunEvent.RESUME and run.status in (RunStatus.PLANNING, RunStatus.PLANNED):
            raise RunUnapplied(run_id=run.run_id, state=run.status.value)
        raise _lost(RunFinished if run.final else RunOvertaken, run, verb)


def _lost(kind: type[RunFinished | RunOvertaken], run: Run, verb: str) -> HomeostatError:
    """What is told to whoever came second."""
    moved = run.moved
    return kind(
        run_id=run.run_id,
        verb=verb,
        state=run.status.value,
        at=rfc3339(moved.at_ms),
        actor=moved.actor,
        reason=moved.reason,
    )


def _rejection(who: Act) -> Json:
    return to_json({"code": "task_rejected", "message": f"{who.actor} rejected it: {who.reason}"})


def pressed(button: RedButton) -> RedButtonPressed:
    return RedButtonPressed(
        actor=button.actor,
        where=f"project {button.project!r}" if button.project else "the whole system",
        at=rfc3339(button.pressed_at_ms),
        reason=button.reason,
    )
