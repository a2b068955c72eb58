"""How tasks are shown. What is marked as running has a turn; whether that is worked on, the turn's agent knows."""

from collections.abc import Sequence
from typing import Final

from homeostat.core.ids import TurnId
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
    if held_by_force(run) and not run.live:
        idle = {turn_id for _, turn_id in turns}
    else:
        idle = await store.in_line(run.project, turns) if turns else set[TurnId]()
    return [_idle(run) if task.turn_id in idle else TaskStanding(task.status.value) for task in tasks]


async def counted(store: RunStore, run: Run) -> dict[str, int]:
    """How many tasks of a run are shown by which word."""
    marked = run.counts.get(RUNNING, 0)
    if not marked:
        return run.counts
    if held_by_force(run) and not run.live:
        idle = marked
    else:
        idle = min(marked, len(await store.in_line(run.project, await store.marked(run.run_id))))
    if not idle:
        return run.counts
    word = _idle(run).value
    shown = {**run.counts, RUNNING: marked - idle, word: run.counts.get(word, 0) + idle}
    return {word.value: shown[word] for word in TaskStanding if shown.get(word)}


def _idle(run: Run) -> TaskStanding:
    return TaskStanding.WAITING if held_by_force(run) else TaskStanding.QUEUED
