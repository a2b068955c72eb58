"""States of tasks at hand: they save a read, and are not believed about a run that others have moved since."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from homeostat.adapters.stores import run_states
from homeostat.adapters.stores.postgres import PostgresEngine, PostgresRuns
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteRuns
from homeostat.core.machines.task import TaskStatus
from homeostat.core.ports.runs import RunStore
from homeostat.core.records.run import Run
from homeostat.testing.suites.run_store import change_of, following, run_of, task_of

TASKS = 40


async def start(store: RunStore, run: Run, *numbers: int) -> Run:
    """Let some tasks run, in one save."""
    tasks = tuple(replace(task_of(number), status=TaskStatus.RUNNING) for number in numbers)
    change = change_of(following(run), tasks=tasks)
    assert await store.save(change)
    return change.run


async def running(store: RunStore, run: Run) -> list[int]:
    return [task.number for task in await store.tasks(run.run_id, status=TaskStatus.RUNNING, limit=100)]


async def two_take_turns(one: RunStore, other: RunStore) -> None:
    made = change_of(run_of(1), new_tasks=tuple(task_of(number) for number in range(TASKS)))
    assert await one.create(made, request_key=None) is made.run
    run = await start(one, made.run, 0, 33)
    run = await start(other, run, 1)  # a neighbour, which the first has not seen
    run = await start(one, run, 2)
    stale = change_of(following(made.run), tasks=(replace(task_of(5), status=TaskStatus.RUNNING),))
    assert not await one.save(stale)
    run = await start(one, run, 3, 34)
    assert await running(other, run) == [0, 1, 2, 3, 33, 34]


async def test_two_processes_on_sqlite(tmp_path: Path) -> None:
    engines = [SqliteEngine(tmp_path / "runs.db") for _ in range(2)]
    for engine in engines:
        await engine.open()
    await two_take_turns(*(SqliteRuns(engine) for engine in engines))
    for engine in engines:
        await engine.close()


async def test_two_processes_on_postgres(postgres_url: str) -> None:
    engines = [PostgresEngine(postgres_url) for _ in range(2)]
    for engine in engines:
        await engine.open()
    await two_take_turns(*(PostgresRuns(engine) for engine in engines))
    for engine in engines:
        await engine.close()


async def test_rows_that_are_no_longer_at_hand_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_states, "STATE_ROWS_AT_HAND_MAX", 1)
    engine = SqliteEngine(tmp_path / "runs.db")
    await engine.open()
    store = SqliteRuns(engine)
    made = change_of(run_of(1), new_tasks=tuple(task_of(number) for number in range(TASKS)))
    await store.create(made, request_key=None)
    run = made.run
    for number in (0, 35, 1, 36, 2):
        run = await start(store, run, number)
    assert await running(store, run) == [0, 1, 2, 35, 36]
    await engine.close()
