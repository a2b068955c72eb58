"""Starting tasks: choose an agent, mark the task with the turn it will be, make that turn, and hear of its end."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import AgentId, Scope, TurnId, turn_of
from homeostat.core.limits import ENQUEUED_TOGETHER_MAX, RUNS_SEEN_SECONDS, SAFETY_POLL_SECONDS
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.run import Run, Target, TargetKind, Task
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Deliverable
from homeostat.core.run_errors import RunClosed, RunHeld, TurnExists
from homeostat.kernel.commands import Enqueue, EnqueueAll
from homeostat.runs.board import Board
from homeostat.runs.desk import Desk
from homeostat.runs.draft import Draft
from homeostat.runs.plan import payload_of, references
from homeostat.runs.timekeeping import Timekeeper

Returned = Literal["returned"]
RETURNED: Returned = "returned"
"""A turn that was never made, because its run was held or ended first."""

CHOICES = 4  # agents that are compared before one is given a task
NO_RESULTS: dict[str, Json] = {}


@dataclass(slots=True)
class Candidates:
    """Who fits a target, as of when, and whose turn it is."""

    at: float
    agents: list[AgentId]
    following: int


class Watch(Struct, eq=False):
    """A task's turn on its way. The kernel tells it of the end, or of why no turn was made of its command."""

    starter: "Starter"
    number: int
    turn_id: TurnId
    agent_id: AgentId | None
    command: Enqueue | None
    over: bool = False

    def done(self) -> bool:
        return self.over

    def set_result(self, end: Deliverable | None, /) -> None:
        self.over = True
        self.starter.ended(self.number, end)

    def set_exception(self, problem: BaseException, /) -> None:
        self.over = True
        self.starter.refused(self, problem)


class Crew(Struct, eq=False):
    """Tasks of one agent whose turns are made by one command; it is told why none was."""

    starter: "Starter"
    watches: list[Watch]

    def done(self) -> bool:
        return False

    def set_result(self, end: object, /) -> None:
        raise AssertionError(f"ends are told to each watch: {end}")

    def set_exception(self, problem: BaseException, /) -> None:
        self.starter.crew_refused(self.watches, problem)


class Starter:
    """Makes turns of tasks and watches them. A task's turn is named before it is made, so it is never made twice."""

    def __init__(self, desk: Desk, *, ended: Callable[[int, Deliverable | None], None]) -> None:
        self._desk = desk
        self.ended = ended
        self._watched: dict[int, Watch] = {}
        self._failed: dict[TurnId, HomeostatError | Returned] = {}
        self._unsure: dict[TurnId, Enqueue] = {}
        self._timekeeper = Timekeeper(desk)
        self._load: defaultdict[AgentId, int] = defaultdict(int)
        self._given = 0
        self._found: dict[Target, Candidates] = {}
        self._looked_at = desk.clock.monotonic()

    # --- before the save -----------------------------------------------------------------------------------

    def at_hand(self, target: Target, now: float) -> Candidates | None:
        """Who fits a target, if that was asked a moment ago."""
        known = self._found.get(target)
        return None if known is None or now - known.at > RUNS_SEEN_SECONDS else known

    async def find(self, run: Run, target: Target, now: float) -> Candidates:
        """Who fits a target."""
        one = target.kind is TargetKind.AGENT
        agents = [AgentId(target.name)] if one else await self._desk.agents.find(run.project, target)
        known = self._found.get(target)
        found = self._found[target] = Candidates(now, agents, 0 if known is None else known.following)
        return found

    def assign(self, known: Candidates) -> AgentId | None:
        """Who carries a task out: whoever's turn it is, unless it has more than its share of this run to do and
        another of a few has less.
        """
        agents = known.agents
        if (count := len(agents)) <= 1:
            return agents[0] if agents else None
        first = known.following % count
        known.following = first + 1
        load, agent_id = self._load, agents[first]
        if load[agent_id] * count <= self._given:
            return agent_id
        some = agents[first : first + CHOICES]
        if len(some) < CHOICES:
            some += agents[: CHOICES - len(some)]
        return min(some, key=load.__getitem__)

    def mark(self, draft: Draft, task: Task, agent_id: AgentId, scope: Scope) -> Task:
        """A task is about to run, as a turn that does not exist yet."""
        self._load[agent_id] += 1
        self._given += 1
        return draft.start(task, turn_of(scope), agent_id)

    # --- after the save ------------------------------------------------------------------------------------

    async def start(self, run: Run, tasks: list[Task], board: Board) -> None:
        """Make the turns of tasks that are durably marked as running."""
        crews: dict[AgentId | None, list[Watch]] = {}
        for task in tasks:
            results = await self._results(run, task, board) if task.spec.after else NO_RESULTS
            try:
                watch = self._attend(task, self._message(run, task, results))
            except HomeostatError as problem:  # it is too large with the results that it asks for
                self.refused(self._attend(task), problem)
                continue
            crew = crews.setdefault(task.agent_id, [])
            crew.append(watch)
            if len(crew) == ENQUEUED_TOGETHER_MAX:
                self._submit(crews.pop(task.agent_id))
        for crew in crews.values():
            self._submit(crew)

    async def _results(self, run: Run, task: Task, board: Board) -> dict[str, Json]:
        """What other tasks delivered, as far as this one asks for it: then it waits for them, too."""
        if not (names := references(task.spec)):
            return NO_RESULTS
        found = await self._desk.store.results(run.run_id, [board.numbers[name] for name in names])
        return {name: found.get(board.numbers[name], Json("null")) for name in names}

    @staticmethod
    def _message(run: Run, task: Task, results: dict[str, Json]) -> Enqueue:
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

    def _submit(self, crew: list[Watch]) -> None:
        """Ask for the turns of some tasks of one agent."""
        messages = tuple(watch.command for watch in crew if watch.command is not None)
        if len(messages) == 1:
            self._ask(messages[0], crew[0])
        else:
            self._ask(EnqueueAll(messages=messages), Crew(self, crew))

    def _ask(self, command: Enqueue | EnqueueAll, listener: Watch | Crew) -> None:
        try:
            self._desk.kernel.flusher.ask(command, listener)
        except Unavailable as problem:
            listener.set_exception(problem)

    def crew_refused(self, crew: list[Watch], problem: BaseException) -> None:
        """None of some turns was made, as far as is known. What may be due to one of them is found out one by one."""
        alike = isinstance(problem, RunHeld | RunClosed | Unavailable)
        for watch in crew:
            if alike:
                watch.set_exception(problem)
            elif not watch.over:
                self._submit([watch])

    def _attend(self, task: Task, command: Enqueue | None = None) -> Watch:
        """Be told of the end of a task's turn, and of its time being over."""
        turn_id = task.turn_id
        assert turn_id is not None
        watch = self._watched[task.number] = Watch(self, task.number, turn_id, task.agent_id, command)
        if task.spec.timeout_seconds is not None:
            self._timekeeper.mind(task)
        self._desk.kernel.deliverables.listen(turn_id, watch)
        return watch

    def refused(self, watch: Watch, problem: BaseException) -> None:
        """No turn was made, or nobody knows whether one was."""
        number, turn_id, command = watch.number, watch.turn_id, watch.command
        self._desk.kernel.deliverables.unwatch(turn_id, watch)
        match problem:
            case TurnExists():
                self._listen(number, turn_id)
            case RunHeld() | RunClosed():
                self._failed[turn_id] = RETURNED
                self.ended(number, None)
            case HomeostatError() if not isinstance(problem, Unavailable):
                self._failed[turn_id] = problem
                self.ended(number, None)
            case _:
                assert command is not None, "a turn that was only watched is refused by nobody"
                self._unsure[turn_id] = command
                asyncio.get_running_loop().call_later(0.2, self.ended, number, None)  # look, after a moment

    def _listen(self, number: int, turn_id: TurnId) -> None:
        """Be told of the end of a turn that may have ended already."""
        deliverables = self._desk.kernel.deliverables
        deliverables.watch(turn_id).add_done_callback(lambda _: self.ended(number, None))
        if deliverables.ended_here(turn_id):
            self.ended(number, None)

    async def adopt(self, run: Run, tasks: list[Task], board: Board) -> None:
        """Watch what a run has under way and this process does not know of; turns that were never made are made now."""
        self._load = defaultdict(int, Counter(task.agent_id for task in tasks if task.agent_id is not None))
        self._given = sum(self._load.values())
        missing: list[Task] = []
        for task in tasks:
            assert task.turn_id is not None
            known = self._watched.get(task.number)
            if known is not None and known.turn_id == task.turn_id:
                continue
            if await self._desk.kernel.store.turn(run.project, task.turn_id) is None:
                missing.append(task)
                continue
            self._attend(task)
            self.ended(task.number, None)
        if run.status is RunStatus.APPLYING:
            await self.start(run, missing, board)
            return
        for task in missing:
            assert task.turn_id is not None
            self._failed[task.turn_id] = RETURNED
            self.ended(task.number, None)

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
        if (command := self._unsure.get(turn_id)) is not None:
            made = await self._desk.kernel.store.turn(run.project, turn_id)
            del self._unsure[turn_id]  # and not before: a store that is away now says nothing
            if made is None:
                self._submit([self._attend(task, command)])
                return None
            self._listen(task.number, turn_id)
        end = await self._desk.kernel.deliverables.get(run.project, turn_id)
        if end is not None:
            self._forget(task)
        return end

    def _forget(self, task: Task) -> None:
        known = self._watched.pop(task.number, None)
        if known is not None and known.agent_id is not None:
            self._load[known.agent_id] -= 1
            self._given -= 1

    # --- time ----------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> Millis | None:
        """When the next turn may have taken too long."""
        return self._timekeeper.due_ms

    async def enforce_time(self, run: Run, now: Millis) -> None:
        """Stop turns that took too long; their ends come back like any other."""
        if (due := self._timekeeper.due_ms) is not None and due <= now:
            turns = {number: watch.turn_id for number, watch in self._watched.items()}
            await self._timekeeper.enforce(run, now, turns)

    def look_again(self) -> None:
        """Should every word of an end have been lost: look once in a while."""
        now = self._desk.clock.monotonic()
        if now - self._looked_at >= SAFETY_POLL_SECONDS:
            self._looked_at = now
            for number in list(self._watched):
                self.ended(number, None)
