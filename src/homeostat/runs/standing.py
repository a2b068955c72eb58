"""How tasks are shown. What is marked as running has a turn; whether that is worked on, the turn's agent knows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from homeostat.core.ids import AgentId, RunId, TurnId
from homeostat.core.limits import TASKS_ASKED_MAX
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.ports.runs import RunStore
from homeostat.core.records.run import Run, Task, TaskStanding

RUNNING: Final = TaskStatus.RUNNING.value
MARKED: Final = {TaskStanding.QUEUED: TaskStatus.RUNNING, TaskStanding.RUNNING: TaskStatus.RUNNING}
"""What is stored of a task that is shown like that: nothing is written when a worker comes for its turn."""


def held_by_force(run: Run) -> bool:
    return run.forced and run.status is RunStatus.PAUSED


def kept_as(run: Run, standing: TaskStanding) -> TaskStatus | None:
    """Which tasks of the store may be shown like that; None is any."""
    if standing is TaskStanding.WAITING and held_by_force(run):
        return None
    return MARKED.get(standing) or TaskStatus(standing.value)


async def standings(store: RunStore, run: Run, tasks: Sequence[Task]) -> list[TaskStanding]:
    """A word for each of some tasks of a run. One whose turn is made and not worked on is in line behind others, or
    waits until its run is let go.
    """
    marked = {
        task.turn_id: task.agent_id for task in tasks if task.status is TaskStatus.RUNNING and task.agent_id is not None
    }
    turns = [(agent_id, turn_id) for turn_id, agent_id in marked.items() if turn_id is not None]
    if _lies(run):
        idle = {turn_id for _, turn_id in turns}
    else:
        idle = await store.in_line(run.project, turns) if turns else set[TurnId]()
    return [_idle(run) if task.turn_id in idle else TaskStanding(task.status.value) for task in tasks]


async def counted(store: RunStore, run: Run) -> dict[str, int]:
    """How many tasks of a run are shown by which word."""
    return _counts(run, len((await _in_line(store, [run]))[run.run_id]))


class Stance(NamedTuple):
    """How the tasks of a run stand. `waits_for` are those who have to be given turns again before any of it goes on."""

    counts: dict[str, int]
    waits_for: tuple[AgentId, ...]


async def stances(store: RunStore, runs: Sequence[Run], *, gates: bool = True) -> list[Stance]:
    """How some runs of a project stand, in as many questions as one takes. A run stands still if nothing of it is
    worked on, and nobody who has any of it in line is given turns. Without `gates` only who left counts.
    """
    in_line = await _in_line(store, runs)
    waiting = {
        run.run_id: {agent_id for agent_id, _ in in_line[run.run_id]}
        for run in runs
        if run.status is RunStatus.APPLYING and len(in_line[run.run_id]) == run.counts.get(RUNNING)
    }
    agents = set[AgentId]().union(*waiting.values())
    barred = await store.barred(runs[0].project, agents, gates=gates) if agents else set[AgentId]()
    still = {run_id: tuple(sorted(found)) for run_id, found in waiting.items() if found <= barred}
    return [Stance(_counts(run, len(in_line[run.run_id])), still.get(run.run_id, ())) for run in runs]


async def _in_line(store: RunStore, runs: Sequence[Run]) -> dict[RunId, list[tuple[AgentId, TurnId]]]:
    """What some runs of a project have in hand and nobody works on; nothing of those that need not be looked at."""
    found: dict[RunId, list[tuple[AgentId, TurnId]]] = {run.run_id: [] for run in runs}
    for batch in _batches([run for run in runs if run.counts.get(RUNNING) and not _lies(run)]):
        assert {run.project for run in batch} == {runs[0].project}, "runs of one project are looked at together"
        marked = await store.in_hand({run.run_id: run.counts[RUNNING] for run in batch})
        turns = [turn for of_run in marked.values() for turn in of_run]
        idle = await store.in_line(runs[0].project, turns) if turns else set[TurnId]()
        found |= {run_id: [turn for turn in of_run if turn[1] in idle] for run_id, of_run in marked.items()}
    return found


def _batches(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Runs that are asked about together, and no more of them than have so many tasks: others want to read as well."""
    batch: list[Run] = []
    tasks = 0
    for run in runs:
        size = sum(run.counts.values())
        if batch and tasks + size > TASKS_ASKED_MAX:
            yield batch
            batch, tasks = [], 0
        batch.append(run)
        tasks += size
    if batch:
        yield batch


def _counts(run: Run, in_line: int) -> dict[str, int]:
    marked = run.counts.get(RUNNING, 0)
    idle = marked if _lies(run) else min(marked, in_line)
    if not idle:
        return run.counts
    word = _idle(run).value
    shown = {**run.counts, RUNNING: marked - idle, word: run.counts.get(word, 0) + idle}
    return {word.value: shown[word] for word in TaskStanding if shown.get(word)}


def _lies(run: Run) -> bool:
    """Whether a run was paused by force and is at rest: nothing of it is worked on."""
    return held_by_force(run) and not run.live


def _idle(run: Run) -> TaskStanding:
    return TaskStanding.WAITING if held_by_force(run) else TaskStanding.QUEUED
