"""Starting tasks: choose an agent, mark the task with the turn it will be, make that turn, and hear of its end."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import AgentId, TurnId, turn_of
from homeostat.core.limits import RUNS_SEEN_SECONDS, SAFETY_POLL_SECONDS
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.run import Run, Target, TargetKind, Task
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Deliverable
from homeostat.core.run_errors import RunClosed, RunHeld, TurnExists
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.deliverables import Ending
from homeostat.runs.board import Board
from homeostat.runs.desk import Desk
from homeostat.runs.draft import Draft
from homeostat.runs.outcomes import TIMEKEEPER
from homeostat.runs.plan import payload_of, references

Returned = Literal["returned"]
RETURNED: Returned = "returned"
"""A turn that was never made, because its run was held or ended first."""

CHOICES = 4  # agents that are compared before one is given a task


@dataclass(slots=True)
class Candidates:
    """Who fits a target, as of when, and whose turn it is."""

    at: float
    agents: list[AgentId]
    following: int


class Starter:
    """Makes turns of tasks and watches them. A task's turn is named before it is made, so it is never made twice."""

    def __init__(self, desk: Desk, *, ended: Callable[[int, Deliverable | None], None]) -> None:
        self._desk = desk
        self._ended = ended
        self._watched: dict[int, tuple[TurnId, AgentId | None]] = {}
        self._failed: dict[TurnId, HomeostatError | Returned] = {}
        self._unsure: dict[TurnId, Enqueue] = {}
        self._deadlines: list[tuple[Millis, int, TurnId]] = []
        self._load: Counter[AgentId] = Counter()
        self._found: dict[Target, Candidates] = {}
        self._looked_at = desk.clock.monotonic()

    # --- before the save -----------------------------------------------------------------------------------

    async def assign(self, run: Run, task: Task) -> AgentId | None:
        """Who carries a task out: of several the one with least of this run to do, in turn among equals."""
        target = task.spec.target
        if target.kind is TargetKind.AGENT:
            return AgentId(target.name)
        now = self._desk.clock.monotonic()
        known = self._found.get(target)
        if known is None or now - known.at > RUNS_SEEN_SECONDS:
            agents = await self._desk.agents.find(run.project, target)
            known = self._found[target] = Candidates(now, agents, 0 if known is None else known.following)
        if not (candidates := known.agents):
            return None
        first = known.following % len(candidates)
        known.following = first + 1
        some = candidates[first : first + CHOICES]
        if len(some) < CHOICES:
            some += candidates[: CHOICES - len(some)]
        return min(some, key=self._load.__getitem__)

    def mark(self, draft: Draft, task: Task, agent_id: AgentId) -> Task:
        """A task is about to run, as a turn that does not exist yet."""
        self._load[agent_id] += 1
        return draft.start(task, turn_of(self._desk.ids.scope()), agent_id)

    # --- after the save ------------------------------------------------------------------------------------

    async def start(self, run: Run, tasks: list[Task], board: Board) -> None:
        """Make the turns of tasks that are durably marked as running."""
        for task in tasks:
            self._submit(task, await self._message(run, task, board))

    async def _message(self, run: Run, task: Task, board: Board) -> Enqueue:
        results: dict[str, Json] = {}
        if task.spec.after and (names := references(task.spec)):  # what is asked for is waited for
            found = await self._desk.store.results(run.run_id, [board.numbers[name] for name in names])
            results = {name: found.get(board.numbers[name], Json("null")) for name in names}
        assert task.agent_id is not None
        return Enqueue(
            key=(run.project, task.agent_id),
            type=MessageType.TURN,
            payload=payload_of(task.spec, run.config.goal, results),
            turn_id=task.turn_id,
            correlation_id=f"{run.run_id}/{task.number}/{task.attempt}/{run.config.seed}",
            trace_id=run.trace_id,
            run_id=run.run_id,
        )

    def _submit(self, task: Task, command: Enqueue) -> None:
        assert task.turn_id is not None
        number, turn_id = task.number, task.turn_id
        self._watched[number] = (turn_id, task.agent_id)
        if task.spec.timeout_seconds is not None and task.started_at_ms is not None:
            due = Millis(task.started_at_ms + int(task.spec.timeout_seconds * 1000))
            heappush(self._deadlines, (due, number, turn_id))
        kernel = self._desk.kernel
        ending = kernel.deliverables.watch(turn_id)
        try:
            kernel.flusher.ask(command, ending)
        except Unavailable:
            kernel.deliverables.unwatch(turn_id, ending)
            self._doubt(number, turn_id, command)
            return
        ending.add_done_callback(lambda done: self._heard(number, turn_id, command, done))

    def _heard(self, number: int, turn_id: TurnId, command: Enqueue, done: Ending) -> None:
        """The turn has ended, or was not made."""
        problem = None if done.cancelled() else done.exception()
        if problem is None and not done.cancelled():
            self._ended(number, done.result())
            return
        self._desk.kernel.deliverables.unwatch(turn_id, done)
        match problem:
            case TurnExists():
                self._watch(number, turn_id)
            case RunHeld() | RunClosed():
                self._failed[turn_id] = RETURNED
                self._ended(number, None)
            case Unavailable() | None:
                self._doubt(number, turn_id, command)
            case HomeostatError():
                self._failed[turn_id] = problem
                self._ended(number, None)
            case _:
                self._doubt(number, turn_id, command)

    def _doubt(self, number: int, turn_id: TurnId, command: Enqueue) -> None:
        """Nobody knows whether the turn was made: look, after a moment."""
        self._unsure[turn_id] = command
        asyncio.get_running_loop().call_later(0.2, self._ended, number, None)

    def _watch(self, number: int, turn_id: TurnId) -> None:
        deliverables = self._desk.kernel.deliverables
        deliverables.watch(turn_id).add_done_callback(lambda _: self._ended(number, None))
        if deliverables.ended_here(turn_id):
            self._ended(number, None)

    async def adopt(self, run: Run, tasks: list[Task], board: Board) -> None:
        """Watch what a run has under way and this process does not know of; turns that were never made are made now."""
        self._load = Counter(task.agent_id for task in tasks if task.agent_id is not None)
        missing: list[Task] = []
        for task in tasks:
            assert task.turn_id is not None
            if self._watched.get(task.number, ("", None))[0] == task.turn_id:
                continue
            if await self._desk.kernel.store.turn(run.project, task.turn_id) is None:
                missing.append(task)
                continue
            self._watched[task.number] = (task.turn_id, task.agent_id)
            if task.spec.timeout_seconds is not None and task.started_at_ms is not None:
                due = Millis(task.started_at_ms + int(task.spec.timeout_seconds * 1000))
                heappush(self._deadlines, (due, task.number, task.turn_id))
            self._watch(task.number, task.turn_id)
            self._ended(task.number, None)
        if run.status is RunStatus.APPLYING:
            await self.start(run, missing, board)
            return
        for task in missing:
            assert task.turn_id is not None
            self._failed[task.turn_id] = RETURNED
            self._ended(task.number, None)

    def told(self, task: Task, end: Deliverable | None) -> Deliverable | None:
        """An end that was told with the word of it, if it is that of the turn which the task is now."""
        if end is None or end.turn_id != task.turn_id:
            return None
        self._forget(task)
        return end

    async def outcome(self, run: Run, task: Task) -> Deliverable | HomeostatError | Returned | None:
        """How the turn of a task ended, if it has."""
        turn_id = task.turn_id
        assert turn_id is not None
        if (failed := self._failed.pop(turn_id, None)) is not None:
            self._forget(task)
            return failed
        if (command := self._unsure.pop(turn_id, None)) is not None:
            if await self._desk.kernel.store.turn(run.project, turn_id) is None:
                self._submit(task, command)
                return None
            self._watch(task.number, turn_id)
        end = await self._desk.kernel.deliverables.get(run.project, turn_id)
        if end is not None:
            self._forget(task)
        return end

    def _forget(self, task: Task) -> None:
        known = self._watched.pop(task.number, None)
        if known is not None and known[1] is not None:
            self._load[known[1]] -= 1

    # --- time ----------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> Millis | None:
        """When the next turn has taken too long."""
        return self._deadlines[0][0] if self._deadlines else None

    async def enforce_time(self, run: Run, now: Millis) -> None:
        """Stop turns that took too long; their ends come back like any other."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number, turn_id = heappop(self._deadlines)
            if self._watched.get(number, ("", None))[0] != turn_id:
                continue
            try:
                await self._desk.kernel.stop(run.project, turn_id, reason="it took too long", actor=TIMEKEEPER)
            except HomeostatError:
                heappush(self._deadlines, (Millis(now + 1000), number, turn_id))
                return

    def look_again(self) -> None:
        """Should every word of an end have been lost: look once in a while."""
        now = self._desk.clock.monotonic()
        if now - self._looked_at >= SAFETY_POLL_SECONDS:
            self._looked_at = now
            for number in list(self._watched):
                self._ended(number, None)
