"""Where a save is committed: in the event loop while that is quick, and by a thread when it is not."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from homeostat.adapters.stores.sqlite import SqliteEngine, log
from homeostat.adapters.stores.sqlite import engine as module
from homeostat.adapters.stores.sqlite.transaction import immediate
from homeostat.core.errors import StoreUnavailable
from homeostat.core.urgency import urgent_context

T = TypeVar("T")

FOREVER = 1e9


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SqliteEngine]:
    monkeypatch.setattr(module, "LOOP_COMMIT_SECONDS_MAX", FOREVER)  # every commit is quick, however busy the machine
    monkeypatch.setattr(module, "LOOP_URGENT_SECONDS_MAX", 2 * FOREVER)
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


async def test_quick_saves_stay_in_the_loop_once_one_was_measured(engine: SqliteEngine) -> None:
    here = threading.current_thread().name
    names = [await engine.save(note) for _ in range(100)]
    assert names == ["sqlite-writer", *[here] * 99]
    assert await noted(engine) == names


async def test_saves_come_back_though_a_busy_loop_makes_those_of_the_thread_seem_slow(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.current_thread().name
    limit = module.LOOP_COMMIT_SECONDS_MAX
    engine._commit_seconds = 2 * limit
    transact, seconds = engine._transact, iter((9 * limit, 9 * limit, 0.0, 0.0))

    def seeming(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], str]) -> tuple[str, float]:
        result, _ = transact(connection, work)
        return result, next(seconds, 0.0)

    monkeypatch.setattr(engine, "_transact", seeming)
    names = [await engine.save(note) for _ in range(6)]
    assert names == [*["sqlite-writer"] * 4, here, here]


async def test_slow_saves_leave_the_loop(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOP_COMMIT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(module, "APART_TIMES_MAX", 1e9)
    assert [await engine.save(note) for _ in range(3)] == ["sqlite-writer"] * 3


async def test_a_thread_that_a_busy_loop_keeps_waiting_is_no_refuge(engine: SqliteEngine) -> None:
    here, limit = threading.current_thread().name, module.LOOP_COMMIT_SECONDS_MAX
    engine._commit_seconds, engine._apart_seconds = 1.2 * limit, 20 * limit
    assert await engine.save(note) == here, "it would have the lock for ten times as long as a commit takes"
    engine._commit_seconds, engine._apart_seconds = 1.2 * limit, 2 * limit
    assert await engine.save(note) == "sqlite-writer"
    engine._commit_seconds, engine._apart_seconds = module.LOOP_URGENT_SECONDS_MAX, 1000 * limit
    assert await engine.save(note) == "sqlite-writer", "a disk that slow is waited for by a thread, whatever it takes"


async def test_what_a_thread_took_is_forgotten(engine: SqliteEngine) -> None:
    await engine.save(note)
    engine._apart_seconds = 1.0
    for _ in range(1000):
        await engine.save(note)
    assert engine._apart_seconds < 0.1


async def test_a_disk_that_hesitates_once_is_not_slow(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    here, limit = threading.current_thread().name, module.LOOP_COMMIT_SECONDS_MAX
    transact, seconds = engine._transact, iter([0.0, limit / 4, 50 * limit, *[limit / 4] * 7, *[50 * limit] * 12])

    def seeming(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], str]) -> tuple[str, float]:
        return transact(connection, work)[0], next(seconds, 50 * limit)

    monkeypatch.setattr(engine, "_transact", seeming)
    names = [await engine.save(note) for _ in range(24)]
    assert names[1:11] == [here] * 10
    assert names[-1] == "sqlite-writer", "it was slow again and again"


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


async def test_saves_come_back_to_the_loop_when_the_thread_is_done(engine: SqliteEngine) -> None:
    here = threading.current_thread().name
    await engine.save(note)
    begun, go_on = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        with immediate(connection):
            begun.set()
            go_on.wait()

    writing = asyncio.ensure_future(engine.write(hold))
    await asyncio.to_thread(begun.wait)
    saving = [asyncio.ensure_future(engine.save(note)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in saving)  # the lock is taken
    go_on.set()
    assert await asyncio.gather(*saving) == [here] * 3
    await writing


async def test_a_save_that_waits_for_the_thread_is_not_hurt_by_what_fails_there(engine: SqliteEngine) -> None:
    here = threading.current_thread().name
    await engine.save(note)
    begun, go_on = threading.Event(), threading.Event()

    def fail(connection: sqlite3.Connection) -> None:
        with immediate(connection):
            begun.set()
            go_on.wait()
            connection.execute("INSERT INTO nowhere VALUES (1)")

    writing = asyncio.ensure_future(engine.write(fail))
    await asyncio.to_thread(begun.wait)
    saving = asyncio.ensure_future(engine.save(note))
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await writing
    assert await saving == here


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


async def test_what_the_loop_committed_is_carried_into_the_file(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LOG_BYTES_MAX", 2_000_000)

    def much(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO noted VALUES (?)", ("x" * 200_000,))

    for _ in range(300):
        await engine.save(much)
    await engine.close()
    with sqlite3.connect(tmp_path / "some.db") as connection:
        assert connection.execute("SELECT count(*) FROM noted").fetchone() == (300,)


class Commits:
    """A file with a connection that commits and carries nothing, and one that carries beside it."""

    def __init__(self, path: Path) -> None:
        self.file = Path(f"{path}-wal")
        self.own, self.other, self.reader = (sqlite3.connect(path, isolation_level=None) for _ in range(3))
        self.own.execute("PRAGMA journal_mode = WAL")
        self.own.execute("PRAGMA wal_autocheckpoint = 0")
        self.own.execute("PRAGMA synchronous = OFF")
        self.own.execute("CREATE TABLE noted (text TEXT)")
        self.log = log.Log(self.file, beside=self._beside, between=self._between)
        self.carried = 0

    def save(self, size: int) -> None:
        self.own.execute("INSERT INTO noted VALUES (?)", ("x" * size,))
        self.log.saved()

    async def _beside(self) -> log.Carried:
        """Carry while saves go on, so never all of it: whoever reads keeps what is saved after from being carried."""
        self.carried += 1
        self.reader.execute("BEGIN")
        self.reader.execute("SELECT count(*) FROM noted").fetchone()
        self.own.execute("INSERT INTO noted VALUES ('meanwhile')")
        found = log.carry(self.other)
        self.reader.execute("COMMIT")
        assert found[2] < found[1]
        return found

    async def _between(self) -> log.Carried:
        return log.carry(self.own)

    def close(self) -> None:
        self.own.close()
        self.other.close()
        self.reader.close()


SAVES = {
    "many small ones": [10] * 2000,
    "few large ones": [100_000] * 200,
    "large ones after small ones": [10] * 600 + [100_000] * 200,
}


@pytest.mark.parametrize("sizes", SAVES.values(), ids=SAVES.keys())
async def test_a_log_does_not_grow_while_saves_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    monkeypatch.setattr(log, "LOG_PAGES", 256)
    monkeypatch.setattr(log, "LOG_BYTES_MAX", 2_000_000)
    commits = Commits(tmp_path / "some.db")
    for size in sizes:
        commits.save(size)
        await commits.log.settle()
    assert commits.carried >= 2
    assert commits.file.stat().st_size < 5_000_000, "it begins anew, though somebody saves all the time"
    commits.close()


async def test_a_log_that_cannot_be_carried_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LOG_PAGES", 256)
    commits = Commits(tmp_path / "some.db")
    commits.other.close()
    for _ in range(64):
        commits.save(10)
        await commits.log.settle()
    assert commits.carried > 1
    commits.own.close()
    commits.reader.close()


def urgently(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    return asyncio.get_running_loop().create_task(work, context=urgent_context())


async def test_what_an_operator_waits_for_is_done_in_the_loop(engine: SqliteEngine) -> None:
    here = threading.current_thread().name
    await engine.save(note)
    assert await engine.write(note) == "sqlite-writer"
    assert await urgently(engine.write(note)) == here
    assert await engine.read(lambda _: threading.current_thread().name) == "sqlite-reader"
    assert await urgently(engine.read(lambda _: threading.current_thread().name)) == here
    assert await noted(engine) == ["sqlite-writer", "sqlite-writer", here]


async def test_an_operator_waits_for_a_lock_but_not_in_line(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.save(note)
    other = sqlite3.connect(tmp_path / "some.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    order: list[str] = []

    def named(name: str) -> Callable[[sqlite3.Connection], None]:
        def work(connection: sqlite3.Connection) -> None:
            note(connection)
            order.append(name)

        return work

    first = [asyncio.ensure_future(engine.write(named(f"bulk {number}"))) for number in range(3)]
    await asyncio.sleep(0)
    locked = urgently(engine.write(named("the operator's")))
    await asyncio.sleep(0)  # the loop was not kept by the lock
    monkeypatch.setattr(module, "LOOP_URGENT_SECONDS_MAX", 0.0)
    slow = urgently(engine.write(named("another's")))
    await asyncio.sleep(0)
    assert not locked.done()
    other.execute("COMMIT")
    other.close()
    await asyncio.gather(*first, locked, slow)
    assert order == ["bulk 0", "the operator's", "another's", "bulk 1", "bulk 2"]


async def test_the_loop_waits_a_moment_for_a_lock_on_an_operators_behalf(engine: SqliteEngine, tmp_path: Path) -> None:
    """A writer who has it ends all the sooner: nobody takes the interpreter from it meanwhile."""
    await engine.save(note)
    other = sqlite3.connect(tmp_path / "some.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    soon = threading.Timer(0.002, lambda: other.execute("COMMIT"))
    soon.start()
    assert await urgently(engine.write(note)) == threading.current_thread().name
    soon.join()
    other.close()


async def test_an_operators_commit_stays_in_the_loop_though_those_of_others_have_left_it(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.current_thread().name
    monkeypatch.setattr(module, "LOOP_COMMIT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(module, "APART_TIMES_MAX", 1e9)
    engine._commit_seconds = 0.01
    assert [await engine.save(note), await urgently(engine.save(note)), await urgently(engine.write(note))] == [
        "sqlite-writer",
        here,
        here,
    ]
    monkeypatch.setattr(module, "LOOP_URGENT_SECONDS_MAX", 0.02)
    engine._commit_seconds = 1.0
    assert await urgently(engine.write(note)) == "sqlite-writer", "the loop is not kept for a second"
