"""The chronicle: brings what turns called, wrote and delivered into their run's ledger, as it happens and each once."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import TurnId
from homeostat.core.limits import (
    CALL_SETTLES_SECONDS,
    CHRONICLE_SECONDS,
    CHRONICLE_SECONDS_MAX,
    CHRONICLE_TASKS_MAX,
    OUTLIVED_NOTES_MAX,
)
from homeostat.core.machines.task import TASK, TaskEvent, TaskStatus
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.recording import GOES_ON, TaskTold, end_of
from homeostat.core.records.run import Outlived, Task
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.core.redaction import unlooked
from homeostat.runs.desk import Desk, Note
from homeostat.runs.draft import Draft

log = logging.getLogger(__name__)

PLAN: Final = TaskTold(name="plan")
OUTLIVED: Final = TaskTold(name="outlived")  # of which all is told but what it asked of others
FOR_A_REPLAY: Final = frozenset({EntryKind.STEP, EntryKind.CARD})
"""What a ledger tells only so that code can be run again on it."""

SUCCEED: Final = TaskEvent.SUCCEED.value
SUCCEEDED: Final = TASK.next(TaskStatus.RUNNING, TaskEvent.SUCCEED).value


class Chronicle:
    """Most tasks are over before anybody looks: what they did is written with their outcome. Of those that take longer
    it is written meanwhile, a look for all of them together; what was written so is remembered with the task.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pause_ms = int(CHRONICLE_SECONDS * 1000)
        self._next_ms: Millis | None = None

    async def ended(self, draft: Draft, ends: Sequence[tuple[Task, Deliverable]]) -> set[int]:
        """What turns called and made goes into the ledger before the outcomes of their tasks do. Returns the tasks of
        which it told the outcome as well: a success is what its turn delivered, and one entry says both.
        """
        if self._desk.notes is None or not ends:
            return set()
        named = {end.turn_id: _succeeded(task) if end.status is Outcome.SUCCESS else _named(task) for task, end in ends}
        noted = {end.turn_id: task.noted for task, end in ends if task.noted}
        found = await self._notes(draft, named, noted, ended=True)
        fresh: list[Note] = []
        outlived = [*draft.run.outlived]
        for task, end in ends:
            notes = found.get(end.turn_id, ())
            fresh += [note for note in notes if note.key not in task.noted] if task.noted else notes
            if _goes_on(notes):
                outlived.append(Outlived(end.turn_id, tuple(_told_of_others(end.turn_id, notes))))
        written = _write(draft, fresh)
        _remember(draft, outlived)
        return {task.number for task, end in ends if end.status is Outcome.SUCCESS and end_of(end.turn_id) in written}

    async def plan_ended(self, draft: Draft) -> None:
        """The same for the turn that was asked for a plan, whoever made the plan."""
        turn_id = draft.run.plan_turn_id
        if self._desk.notes is None or turn_id is None or not draft.run.plan_untold:
            return
        notes = (await self._notes(draft, {turn_id: PLAN}, {}, ended=True)).get(turn_id, ())
        _write(draft, notes)
        draft.set(plan_told=True)
        if _goes_on(notes):
            _remember(draft, [*draft.run.outlived, Outlived(turn_id, tuple(_told_of_others(turn_id, notes)))])

    async def follow_up(self, draft: Draft) -> bool:
        """Tell of turns that outlived others, as far as they are now. Says whether there was news."""
        outlived = draft.run.outlived
        if self._desk.notes is None or not outlived:
            return False
        noted = {one.turn_id: one.noted for one in outlived}
        found = await self._notes(draft, dict.fromkeys(noted, OUTLIVED), noted, ended=True)
        left: list[Outlived] = []
        news = False
        for turn_id, known in noted.items():
            notes = found.get(turn_id, ())
            told = _told_of_others(turn_id, notes)
            fresh = [note for note in notes if note.key in told and note.key not in known]
            _write(draft, fresh)
            if fresh or _goes_on(notes):  # whoever has just ended may have asked others since it was looked for them
                left.append(Outlived(turn_id, tuple(told)))
            news = news or bool(fresh)
        _remember(draft, left)
        return news

    async def _notes(
        self, draft: Draft, tasks: Mapping[TurnId, TaskTold], noted: Mapping[TurnId, Collection[str]], *, ended: bool
    ) -> Mapping[TurnId, Sequence[Note]]:
        """What is to be written down of turns. One of which nothing can be told holds up neither others nor its run."""
        assert self._desk.notes is not None
        try:
            return await self._desk.notes(draft.run.project, tasks, noted, ended=ended)
        except Unavailable:
            raise  # it is asked for again
        except Exception as problem:  # noqa: BLE001 - whatever it is, the run goes on
            if len(tasks) > 1:
                found: dict[TurnId, Sequence[Note]] = {}
                for turn_id, task in tasks.items():
                    mine = {turn_id: noted[turn_id]} if turn_id in noted else {}
                    found |= await self._notes(draft, {turn_id: task}, mine, ended=ended)
                return found
            (turn_id,) = tasks
            log.warning("nothing can be told of turn %s of run %s: %r", turn_id, draft.run.run_id, problem)
            if ended:
                draft.note(EntryKind.RUN_CHANGED, {"change": "untold", "turn_id": turn_id, "why": _why(problem)})
            return {}

    def due_ms(self, began: Millis | None) -> Millis | None:
        """When to look after tasks that have not ended by then, of which the first began at that time."""
        if self._desk.notes is None or began is None:
            self._next_ms = None
        elif self._next_ms is None:
            self._next_ms = Millis(began + self._pause_ms)
        return self._next_ms

    async def catch_up(self, draft: Draft, running: Iterable[Task], *, always: bool = False) -> None:
        """Write down what tasks have done that are still under way, and the model calls of those before them.

        That it is due was asked before, unless it has to be done `always`.
        """
        if self._desk.notes is None:
            return
        tasks = sorted((task for task in running if task.started_at_ms is not None), key=lambda task: task.number)
        began = draft.now - int(CHRONICLE_SECONDS * 1000)
        late = [task for task in tasks if always or (task.started_at_ms or 0) <= began][:CHRONICLE_TASKS_MAX]
        news = False
        under_way = {task.turn_id: task for task in late if task.turn_id is not None}
        named = {turn_id: _named(task) for turn_id, task in under_way.items()}
        noted = {turn_id: task.noted for turn_id, task in under_way.items() if task.noted}
        found: Mapping[TurnId, Sequence[Note]] = {}
        if named:
            found = await self._notes(draft, named, noted, ended=False)
        for turn_id, task in under_way.items():
            known = {*task.noted, end_of(turn_id)}  # its end is told with its outcome
            fresh = [note for note in found.get(turn_id, ()) if note.key not in known]
            _write(draft, fresh)
            if fresh:
                news = True
                draft.amend(draft.tasks.get(task.number, task), noted=(*task.noted, *(note.key for note in fresh)))
        news |= await self.follow_up(draft)
        news |= await self._desk.purse.account(draft, before=self._settled_before(draft.now, tasks, always=always))
        # Whoever thinks for long is looked at less often; a word from it, and the next look comes soon.
        shortest = int(CHRONICLE_SECONDS * 1000)
        self._pause_ms = shortest if news else min(2 * self._pause_ms, int(CHRONICLE_SECONDS_MAX * 1000))
        self._next_ms = Millis(draft.now + self._pause_ms)

    @staticmethod
    def _settled_before(now: Millis, tasks: Sequence[Task], *, always: bool) -> Millis:
        """Before which time every model call is in the log: those of a run at rest are."""
        if always:
            return Millis(now + int(CALL_SETTLES_SECONDS * 1000))
        return Millis(min((task.started_at_ms or now for task in tasks), default=now))


def _goes_on(notes: Sequence[Note]) -> bool:
    """Whether something that a turn asked of others has not ended."""
    return any(note.key.partition(" ")[2] == GOES_ON for note in notes)


def _told_of_others(turn_id: TurnId, notes: Sequence[Note]) -> dict[str, None]:
    """What is told of all that a turn asked of others, in order."""
    return {note.key: None for note in notes if not note.key.startswith(f"{turn_id} ")}


def _remember(draft: Draft, outlived: Sequence[Outlived]) -> None:
    """Which turns are to be told of later. Where that is too much, the ledger does not tell of their ends."""
    kept, room = list[Outlived](), OUTLIVED_NOTES_MAX
    for one in outlived:
        if len(one.noted) <= room:
            kept.append(one)
            room -= len(one.noted)
        else:
            log.warning("run %s does not tell how all ended that outlived turn %s", draft.run.run_id, one.turn_id)
    if tuple(kept) != draft.run.outlived:
        draft.set(outlived=tuple(kept))


def _named(task: Task) -> TaskTold:
    return TaskTold(attempt=task.attempt, name=task.spec.name, number=task.number)


def _succeeded(task: Task) -> TaskTold:
    return TaskTold(
        attempt=task.attempt,
        event=SUCCEED,
        name=task.spec.name,
        number=task.number,
        started_at_ms=task.started_at_ms,
        status=SUCCEEDED,
    )


def _why(problem: Exception) -> str:
    return problem.code if isinstance(problem, HomeostatError) else type(problem).__name__


def _write(draft: Draft, notes: Sequence[Note]) -> set[str]:
    """Notes as entries; returns the keys of those that could be written. What others wrote in them is looked through
    for all of them together.
    """
    written: set[str] = set()
    if not draft.run.config.replay:
        notes = [note for note in notes if note.kind not in FOR_A_REPLAY]
    said = iter(unlooked([note.said for note in notes if note.said is not None]))
    for note in notes:
        others = None if note.said is None else next(said)
        try:
            draft.note(note.kind, note.payload, at_ms=note.at_ms, plain=True, said=others)
        except HomeostatError as problem:  # it does not fit, or is no JSON: the run ends without it
            log.warning("an entry of run %s cannot be written: %s", draft.run.run_id, problem)
            draft.note(EntryKind.RUN_CHANGED, {"change": "untold", "key": note.key, "why": problem.code})
        else:
            written.add(note.key)
    return written
