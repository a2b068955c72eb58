"""The conductor: drives one run for as long as this process holds it."""

import asyncio
import logging
from collections import deque

from homeostat.core.clock import Millis
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.limits import FLIGHT_SECONDS, PAGE_MAX, RUN_GATHER_SECONDS_MAX, SAFETY_POLL_SECONDS
from homeostat.core.machines.run import RunEvent, RunStatus
from homeostat.core.machines.task import TASK, TaskEvent, TaskStatus
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import PauseCause, Run, Target, Task
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.runs import outcomes
from homeostat.runs.board import Board
from homeostat.runs.chronicle import Chronicle
from homeostat.runs.desk import Desk
from homeostat.runs.draft import DRIVER, Draft
from homeostat.runs.planning import Planning
from homeostat.runs.starting import Candidates, Starter
from homeostat.runs.stopping import preempt_turns, seal, settle_hold, stop_turns
from homeostat.runs.treasurer import Treasurer

log = logging.getLogger(__name__)

End = tuple[int, Deliverable | None]
"""A task whose turn may have ended, and how, if that was told."""


class Conductor:
    """Takes a run from step to step. Each step is one save; a save that finds the run moved changes nothing."""

    def __init__(self, desk: Desk, run: Run) -> None:
        self._desk = desk
        self.run = run
        self._epoch = run.epoch
        self._board = Board(())
        self._ended: deque[End] = deque()
        self._woken = asyncio.Event()
        self._stale = True
        self._save_seconds = 0.0
        self._starter = Starter(desk, ended=self._on_end)
        self._planning = Planning(desk)
        self._treasurer = Treasurer(desk)
        self._chronicle = Chronicle(desk)
        self.lost = False

    # --- what others tell it -------------------------------------------------------------------------------

    def wake(self, *, stale: bool = True) -> None:
        """Something happened; by default somebody changed the run."""
        self._stale = self._stale or stale
        self._woken.set()

    def look(self) -> None:
        """The run's money may be used up."""
        self._treasurer.look_again()
        self._woken.set()

    def _on_end(self, number: int, end: Deliverable | None) -> None:
        self._ended.append((number, end))
        self._woken.set()

    # --- the loop ------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Until the run is at rest, or somebody else's."""
        try:
            await self._drive()
        finally:
            self._planning.leave()

    async def _drive(self) -> None:
        pause = 0.05
        while not self.lost:
            self._woken.clear()
            try:
                if self._stale:
                    await self._load()
                if self.lost or not self.run.live:
                    return
                await self._treasurer.keep(self.run)
                await self._gather()
                moved = await self._step()
                pause = 0.05
            except Unavailable as problem:
                log.warning("run %s waits: %s", self.run.run_id, problem)
                self._stale = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
                continue
            if not moved and not self._stale:
                await self._wait()

    async def _gather(self) -> None:
        """While most tasks are at it, let more of them end before the next save, for as long as the last one took."""
        if self._ended and 2 * len(self._ended) < len(self._board.running) and not self._stale:
            await asyncio.sleep(min(self._save_seconds, RUN_GATHER_SECONDS_MAX))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._patience()):
                await self._woken.wait()
        except TimeoutError:
            self._starter.look_again()

    def _patience(self) -> float:
        """How long nothing has to be done unless somebody says so."""
        if self.run.final:  # calls of it are open
            return FLIGHT_SECONDS
        now = self._desk.clock.now_ms()
        looked_after = self._chronicle.due_ms(self._board.began_ms)
        known = (self._board.due_ms, self._starter.due_ms, self._treasurer.due_ms(self.run, now), looked_after)
        dues = [due for due in known if due is not None]
        seconds = min((max(0, due - now) / 1000 for due in dues), default=SAFETY_POLL_SECONDS)
        if self.run.status is RunStatus.PLANNING and (planning := self._planning.left_seconds) is not None:
            seconds = min(seconds, planning)
        return min(seconds + 0.001, SAFETY_POLL_SECONDS)

    def _running(self) -> list[Task]:
        return [self._board.tasks[number] for number in self._board.running]

    async def _load(self) -> None:
        """Read the run anew, with all its tasks: whoever changed it may have changed them."""
        self._stale = False
        run = await self._desk.store.run(self.run.project, self.run.run_id)
        if run is None or run.epoch != self._epoch:
            self.lost = True
            return
        begun = self._desk.begun.pop(run.run_id, ())
        tasks = list(begun) if run.version == 1 else []
        while page := await self._desk.store.tasks(run.run_id, after=tasks[-1].number if tasks else -1, limit=PAGE_MAX):
            tasks += page
        self.run = run
        now = self._desk.clock.now_ms()
        self._board = Board(outcomes.within_pause(task, now) for task in tasks)
        if run.status is not RunStatus.PLANNING:
            await self._planning.leave_to(run)
        # It may have been resumed before this one had held it for the pause.
        await settle_hold(self._desk, run.project, run.run_id, held=run.held)
        if run.status is RunStatus.APPLYING:
            self._desk.purse.take_alarm(run)  # whoever resumed it knew; the next refusal says so again
        await self._starter.adopt(run, sorted(self._running(), key=lambda task: task.number), self._board)

    async def _save(self, draft: Draft) -> bool:
        """Make a step durable. A lost race is found out about by reading the run again."""
        change = draft.change(epoch=self._epoch)
        self._stale = True  # unless it is known to have worked
        began = self._desk.clock.monotonic()
        if not await self._desk.store.save(change):
            return False
        self._save_seconds = self._desk.clock.monotonic() - began
        self._stale = False
        self.run = change.run
        if change.new_tasks:
            self._board = Board(change.new_tasks)
        for task in change.tasks:
            if self._board.tasks[task.number] is not task:
                self._board.put(task)
        if draft.gate is not None:
            await self._desk.moved(self.run)
        return True

    async def _step(self) -> bool:
        """Do what can be done now; says whether there may be more."""
        match self.run.status:
            case RunStatus.PLANNING:
                return await self._plan()
            case RunStatus.APPLYING:
                return await self._apply()
            case RunStatus.PAUSED:
                return await self._pause()
            case RunStatus.PLANNED:
                return await self._rest()
            case RunStatus.COMPLETED | RunStatus.FAILED | RunStatus.KILLED:
                return await self._end()

    # --- planning ------------------------------------------------------------------------------------------

    async def _plan(self) -> bool:
        draft = Draft(self.run, self._desk.clock.now_ms())
        if not await self._planning.advance(draft, woken=self._woken.set):
            return False
        return await self._save(draft)

    # --- applying ------------------------------------------------------------------------------------------

    async def _apply(self) -> bool:
        now = self._desk.clock.now_ms()
        draft = Draft(self.run, now)
        taken = await self._take_ends(draft)
        self._skip_doomed(draft)
        board, starts = self._board, list[Task]()
        await self._chronicle.plan_ended(draft)  # an operator made it, and whoever was asked for it was stopped
        self._judge(draft)  # first: what is done needs no budget any more
        if draft.run.status is RunStatus.APPLYING:
            await self._treasurer.check(draft)
        if draft.run.status is RunStatus.APPLYING:
            starts = await self._choose(draft, now)
        if draft.run.status is RunStatus.APPLYING and not starts and not draft.tasks:
            self._gate(draft)
        await self._catch_up(draft)
        await self._starter.enforce_time(self.run, now)
        if not draft:
            return False
        if not await self._save(draft):
            self._ended.extendleft(reversed(taken))
            return True
        await self._starter.start(self.run, [board.tasks[task.number] for task in starts], board)
        return True

    async def _take_ends(self, draft: Draft) -> list[End]:
        """What has ended since the last step becomes outcomes of tasks."""
        delivered: list[tuple[Task, Deliverable]] = []
        taken: dict[int, Deliverable | None] = {}
        while self._ended:
            number, told = self._ended.popleft()
            task = self._board.tasks[number]
            if number in taken or task.status is not TaskStatus.RUNNING:
                continue
            end = self._starter.told(task, told) or await self._starter.outcome(self.run, task)
            if end is None:
                continue
            taken[number] = told
            if isinstance(end, Deliverable):
                delivered.append((task, end))
            elif isinstance(end, HomeostatError):
                outcomes.fail(draft, task, end.code, end.message)
            else:
                outcomes.give_back(draft, task)
        told = await self._chronicle.ended(draft, delivered)
        referred = self._board.referred
        for task, end in delivered:
            if end.status is not Outcome.SUCCESS and await self._treasurer.refused(self.run, task):
                outcomes.give_back(draft, task)
                said = {"change": "given_back", "task": task.spec.name, "turn_id": task.turn_id, "why": "budget"}
                draft.note(EntryKind.RUN_CHANGED, said)
            else:
                outcomes.conclude(draft, task, end, told=task.number in told, keep=task.number in referred)
        return list(taken.items())

    async def _catch_up(self, draft: Draft) -> None:
        """What goes on meanwhile in tasks that take their time goes into the ledger, too."""
        due = self._chronicle.due_ms(self._board.began_ms)
        if due is None or due > draft.now:
            return
        await self._chronicle.catch_up(draft, [task for task in self._running() if task.number not in draft.tasks])

    def _skip_doomed(self, draft: Draft) -> None:
        """What waits for a task that failed will never begin; nor will what waits for that, a step later."""
        for task in draft.tasks.values():
            if task.status in TASK.final:
                self._board.put(task)
        skipped: list[str] = []
        while (doomed := self._board.next_doomed()) is not None:
            self._board.put(draft.task(doomed, TaskEvent.SKIP, ended_at_ms=draft.now))
            skipped.append(doomed.spec.name)
        for first in range(0, len(skipped), PAGE_MAX):
            draft.note(EntryKind.RUN_CHANGED, {"change": "skipped", "tasks": skipped[first : first + PAGE_MAX]})

    def _judge(self, draft: Draft) -> None:
        """End the run if there is nothing left to do, or nothing left to hope for."""
        board = self._board
        if board.broken is not None:
            broken = board.tasks[board.broken]
            reason = f"task {broken.spec.name!r} failed"
            draft.move(RunEvent.FAIL, actor=DRIVER, reason=reason, error=outcomes.failure_of(broken))
        elif not board.unfinished:
            draft.move(RunEvent.COMPLETE, actor=DRIVER, reason=outcomes.told(draft.counts))

    async def _choose(self, draft: Draft, now: Millis) -> list[Task]:
        """Mark tasks as running, each with the turn it will be: the turn is made once that is durable."""
        board = self._board
        room = (
            self.run.config.policy.parallel
            - len(board.running)
            + sum(1 for number in draft.tasks if number in board.running)
        )
        starts: list[Task] = []
        starter, at, scopes = self._starter, self._desk.clock.monotonic(), self._desk.ids.scopes()
        target: Target | None = None
        fitting: Candidates | None = None
        while room > 0 and (task := board.next_ready(now)) is not None:
            current = draft.tasks.get(task.number, task)
            if current.status is not TaskStatus.WAITING:
                continue
            if current.spec.approval and current.approved_by is None:
                draft.task(current, TaskEvent.ASK)
                draft.note(EntryKind.RUN_CHANGED, {"change": "approval_asked", "task": current.spec.name})
                continue
            if fitting is None or current.spec.target is not target:
                target = current.spec.target
                fitting = starter.at_hand(target, at) or await starter.find(draft.run, target, at)
            if (agent_id := starter.assign(fitting)) is None:
                outcomes.fail(draft, current, "target_unknown", f"there is no agent for {current.spec.target}")
                continue
            starts.append(starter.mark(draft, current, agent_id, next(scopes)))
            room -= 1
        return starts

    def _gate(self, draft: Draft) -> None:
        """Hold the run where it cannot go on before somebody approves a task."""
        board = self._board
        if board.running or board.due_ms is not None or not (held := board.held):
            return
        names = ", ".join(task.spec.name for task in held[:5])
        draft.move(RunEvent.PAUSE, actor=DRIVER, reason=f"approval is needed: {names}", paused=PauseCause.GATE)

    # --- coming to rest ------------------------------------------------------------------------------------

    async def _pause(self) -> bool:
        """Let running tasks end; or, by force, see that none is worked on."""
        if self.run.forced:
            self._desk.kernel.hold_run(self.run.run_id)
            await preempt_turns(self._desk, self.run)
        draft = Draft(self.run, self._desk.clock.now_ms())
        taken = await self._take_ends(draft)
        self._skip_doomed(draft)
        if not self.run.forced and self._board.running.keys() - draft.tasks.keys():
            await self._catch_up(draft)
            await self._starter.enforce_time(self.run, draft.now)
            if not draft:
                return False
            if not await self._save(draft):
                self._ended.extendleft(reversed(taken))
            return True
        left = [task for task in self._running() if task.number not in draft.tasks]
        await self._chronicle.catch_up(draft, left, always=True)
        draft.set(live=False)
        await self._save(draft)
        return True

    async def _end(self) -> bool:
        """See that nothing of a run that is over goes on, and write down what became of its tasks."""
        await stop_turns(self._desk, self.run)
        draft = Draft(self.run, self._desk.clock.now_ms())
        for number in sorted(self._board.running):
            task = self._board.tasks[number]
            end = (
                None
                if task.turn_id is None
                else await self._desk.kernel.deliverables.get(self.run.project, task.turn_id)
            )
            if end is not None:
                told = await self._chronicle.ended(draft, [(task, end)])
                ended = outcomes.conclude(draft, task, end, told=task.number in told)
                if ended.status is TaskStatus.WAITING:
                    draft.task(ended, TaskEvent.STOP)
            else:
                draft.end(task, TaskEvent.STOP, result=None, error=None)
        idle = [task for task in self._board.tasks.values() if task.status in (TaskStatus.WAITING, TaskStatus.HELD)]
        for task in idle:
            draft.task(task, TaskEvent.STOP, ended_at_ms=draft.now)
        if idle:
            draft.note(EntryKind.RUN_CHANGED, {"change": "never_started", "tasks": len(idle)})
        await self._chronicle.plan_ended(draft)
        await self._chronicle.follow_up(draft)
        if await self._treasurer.awaits_calls(draft):
            if not draft:
                return False
            await self._save(draft)  # what became of its tasks need not wait for that
            return True
        await self._desk.purse.account_all(draft, self._calls_in_ledger)
        draft.set(live=False, outlived=())
        if await self._save(draft):
            await seal(self._desk, self.run)
        return True

    async def _calls_in_ledger(self) -> list[str]:
        ledgers = self._desk.ledgers
        return [] if ledgers is None else await ledgers.calls(self.run.project, self.run.run_id)

    async def _rest(self) -> bool:
        draft = Draft(self.run, self._desk.clock.now_ms())
        await self._chronicle.plan_ended(draft)
        draft.set(live=False)
        await self._save(draft)
        return True
