"""Where a save is committed: in the event loop while that is quick, and by a thread when it is not."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite import engine as module
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import LOOP_COMMITS_IN_A_ROW

FOREVER = 1e9


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SqliteEngine]:
    monkeypatch.setattr(module, "LOOP_COMMIT_SECONDS_MAX", FOREVER)  # every commit is quick, however busy the machine
    engine = SqliteEngine(tmp_path / "some.db")
    await engine.open()
    await engine.write(lambda connection: connection.execute("CREATE TABLE noted (thread TEXT)"))
    yield engine
    await engine.close()


def note(connection: sqlite3.Connection) -> str:
    name = threading.current_thread().name
    connection.execute("INSERT INTO noted VALUES (?)", (name,))
    return name


async def noted(engine: SqliteEngine) -> list[str]:
    return await engine.read(lambda connection: [row[0] for row in connection.execute("SELECT thread FROM noted")])


async def test_quick_saves_stay_in_the_loop_and_now_and_then_the_thread_tidies_the_log(engine: SqliteEngine) -> None:
    here = threading.current_thread().name
    names = [await engine.save(note) for _ in range(LOOP_COMMITS_IN_A_ROW + 3)]
    assert names == ["sqlite-writer", *[here] * LOOP_COMMITS_IN_A_ROW, "sqlite-writer", here]
    assert await noted(engine) == names


async def test_slow_saves_leave_the_loop(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOP_COMMIT_SECONDS_MAX", 0.0)
    assert [await engine.save(note) for _ in range(3)] == ["sqlite-writer"] * 3


async def test_the_loop_waits_for_nobodys_lock(engine: SqliteEngine, tmp_path: Path) -> None:
    assert [await engine.save(note) for _ in range(2)][-1] != "sqlite-writer"
    assert await engine.save(lambda connection: connection.execute("PRAGMA busy_timeout").fetchone()) == (0,)
    other = sqlite3.connect(tmp_path / "some.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    saving = asyncio.ensure_future(engine.save(note))
    await asyncio.sleep(0)  # had the loop waited for the lock, nobody could give it back
    assert not saving.done()
    other.execute("COMMIT")
    other.close()
    assert await saving == "sqlite-writer"
    assert len(await noted(engine)) == 3


async def test_a_save_that_fails_or_changes_its_mind_leaves_nothing(engine: SqliteEngine) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        note(connection)
        connection.execute("INSERT INTO nowhere VALUES (1)")

    def withdraw(connection: sqlite3.Connection) -> None:
        note(connection)
        connection.execute("ROLLBACK")

    for _ in range(2):  # by the thread, and in the loop
        with pytest.raises(StoreUnavailable, match="nowhere"):
            await engine.save(fail)
        await engine.save(withdraw)
    assert await noted(engine) == []
    await engine.save(note)
    assert len(await noted(engine)) == 1


async def test_what_the_loop_committed_is_carried_into_the_file(engine: SqliteEngine, tmp_path: Path) -> None:
    def much(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO noted VALUES (?)", ("x" * 200_000,))

    for _ in range(2 * LOOP_COMMITS_IN_A_ROW):
        await engine.save(much)
    assert (tmp_path / "some.db").stat().st_size > LOOP_COMMITS_IN_A_ROW * 200_000
