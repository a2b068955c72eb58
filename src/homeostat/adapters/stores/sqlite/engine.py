"""One SQLite file: threads that write, read and tidy, and saves that stay in the loop where a sync is quick."""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, cast

from homeostat.adapters.stores.sqlite.log import Carried, Log, carry
from homeostat.adapters.stores.sqlite.transaction import immediate
from homeostat.adapters.stores.statements import migrations
from homeostat.core.clock import SystemClock
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import (
    APART_TIMES_MAX,
    LOG_PAGES,
    LOOP_COMMIT_SECONDS_MAX,
    LOOP_LOCK_SECONDS_MAX,
    LOOP_URGENT_SECONDS_MAX,
)
from homeostat.core.urgency import is_urgent

T = TypeVar("T")

PAGE_BYTES = 1024
"""A commit logs whole pages; small ones make a lone turn 14 kB instead of 51, one of fifty 1.5 instead of 2.3."""

# The driver looks long for a way to adapt None before it binds NULL, unless it is told one: two thirds of the price of
# a row with some empty columns. This one is in C, and finds None.
_NOTHING: dict[object, None] = {}
sqlite3.register_adapter(type(None), _NOTHING.get)

Work = Callable[[sqlite3.Connection], T]
Job = tuple[Work[Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class SqliteThread:
    """A thread that owns one connection and does its work in order.

    An executor would do, but its futures are copied from thread to loop; handing results over directly takes a third
    off a lone commit.
    """

    def __init__(self, title: str, target: str) -> None:
        self._target = target
        self._jobs: SimpleQueue[Job | Literal["ahead"] | None] = SimpleQueue()
        self._ahead: deque[Job] = deque()
        self._thread = threading.Thread(target=self._run, name=title, daemon=True)
        self._connection: sqlite3.Connection | None = None
        self._given: asyncio.Future[Any] | None = None
        self._thread.start()

    async def open(self) -> None:
        def connect(_: object) -> None:
            self._connection = _connect(self._target)

        await self.do(connect)

    async def another(self, lock_seconds: float = 0.0) -> sqlite3.Connection:
        """One more connection to the same file, for the event loop's own thread: it waits for no lock, or not long."""
        connection = await self.do(lambda _: _connect(self._target))
        connection.execute(f"PRAGMA busy_timeout = {lock_seconds * 1000:.0f}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    async def do(self, work: Work[T]) -> T:
        """Run a piece of work on this thread's connection."""
        if not self._thread.is_alive():
            raise StoreUnavailable(problem="the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._given = future
        if is_urgent():
            self._ahead.append((work, loop, future))
            self._jobs.put("ahead")
        else:
            self._jobs.put((work, loop, future))
        try:
            return await future
        except sqlite3.Error as problem:
            raise _outage(problem) from problem
        finally:
            if self._given is future:
                self._given = None

    async def at_rest(self) -> bool:
        """Wait until what it was given so far is done; False says that it had nothing to do."""
        if (given := self._given) is None:
            return False
        await asyncio.wait((given,))
        return True

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            while self._ahead:
                self._work(self._ahead.popleft())
            if job != "ahead":
                self._work(job)
        if self._connection is not None:
            self._connection.close()

    def _work(self, job: Job) -> None:
        work, loop, future = job
        result, error = None, None
        try:
            result = work(cast(sqlite3.Connection, self._connection))
        except BaseException as problem:  # noqa: BLE001 — raised again where it was asked for
            error = problem
        with suppress(RuntimeError):  # the loop is gone, and so is whoever asked
            loop.call_soon_threadsafe(_hand_over, future, result, error)

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)


def _hand_over(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _outage(problem: sqlite3.Error) -> Exception:
    """Trouble with the file as an error a caller can act on; a row that must not be is a matter of its own."""
    return problem if isinstance(problem, sqlite3.IntegrityError) else StoreUnavailable(problem=str(problem))


class SqliteEngine:
    """One file, a thread that writes and one that reads; in memory both are the same thread."""

    def __init__(self, path: Path | None) -> None:
        target = str(path) if path is not None else ":memory:"
        self._writer = SqliteThread("sqlite-writer", target)
        self._reader = self._writer if path is None else SqliteThread("sqlite-reader", target)
        self._own: sqlite3.Connection | None = None
        self._urgent: sqlite3.Connection | None = None
        self._tidier: SqliteThread | None = None
        self._log: Log | None = None
        if path is not None:
            self._tidier = SqliteThread("sqlite-tidier", target)
            self._log = Log(Path(f"{path}-wal"), beside=self._carry_beside, between=self._carry_between)
        self.carries = True  # whether the log is carried into the file, which measuring its length forbids
        self._clock = SystemClock()
        self._commit_seconds = LOOP_COMMIT_SECONDS_MAX
        self._apart_seconds = 0.0

    async def open(self) -> list[str]:
        """Open the file and bring its schema up to date; returns the migrations that were applied."""
        await self.connect()
        return await self.migrate()

    async def connect(self) -> None:
        await self._writer.open()
        if self._reader is not self._writer:
            await self._reader.open()
            self._own = await self._writer.another()
            self._urgent = await self._writer.another(LOOP_LOCK_SECONDS_MAX)
        if self._tidier is not None:
            await self._tidier.open()

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; returns what was applied."""
        return await self.write(_migrate)

    async def applied(self) -> list[str]:
        """The names of the migrations this file has seen."""
        return await self.read(_applied)

    async def write(self, work: Work[T]) -> T:
        """Run work that sees to its own transaction, and that may be run again where none was begun."""
        result = self._at_once(work) if self._hurries else None
        if result is None:
            return await self._writer.do(work)
        if self.carries and self._log is not None:
            self._log.saved()
        return result[0]

    async def read(self, work: Work[T]) -> T:
        result = self._at_once(work) if is_urgent() else None
        return await self._reader.do(work) if result is None else result[0]

    @property
    def _hurries(self) -> bool:
        """Whether somebody waits for whom the loop may be kept for as long as a commit takes."""
        return is_urgent() and self._commit_seconds < LOOP_URGENT_SECONDS_MAX

    def _at_once(self, work: Work[T]) -> tuple[T] | None:
        """Do in the loop what an operator waits for, unless another writer stays in the way.

        A thread would have to be let in by a loop that has its hands full, once for each statement. For the same reason
        a writer who has the lock ends soonest if the loop waits for it.
        """
        if self._urgent is None:
            return None
        try:
            return (work(self._urgent),)
        except sqlite3.Error as problem:
            if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                return None
            raise _outage(problem) from problem

    async def save(self, work: Work[T]) -> T:
        """Run work as one transaction, which it may roll back itself: here if commits are quick of late, else apart."""
        if (saved := self._here(work)) is None and self._quick and await self._writer.at_rest():
            saved = self._here(work)  # our own thread had the lock: going there as well, all that follow would have to
        if saved is not None:
            return saved[0]
        began = self._clock.monotonic()
        result = await self._writer.do(lambda connection: self._transact_apart(connection, work))
        self._apart_seconds += (self._clock.monotonic() - began - self._apart_seconds) / 2
        return result

    @property
    def _quick(self) -> bool:
        """Whether commits are made by the loop.

        They are where they take little, and also where a thread that the loop seldom lets in takes much longer: it
        would have the lock all the while.
        """
        commit = self._commit_seconds
        if commit < LOOP_COMMIT_SECONDS_MAX:
            return True
        return commit < LOOP_URGENT_SECONDS_MAX and commit * APART_TIMES_MAX < self._apart_seconds

    def _here(self, work: Work[T]) -> tuple[T] | None:
        """Save in the loop, unless commits take long or somebody else has the lock."""
        hurries = self._hurries
        own, log = self._urgent if hurries else self._own, self._log
        if own is None or log is None or not (hurries or self._quick):
            return None
        try:
            result, took = self._transact(own, work)
        except sqlite3.Error as problem:
            if problem.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return None
            raise _outage(problem) from problem
        # A disk that hesitates once is not slow: one commit tells of at most four times what is usual.
        self._commit_seconds += (min(took, 4 * self._commit_seconds) - self._commit_seconds) / 8
        self._apart_seconds -= self._apart_seconds / 256  # it was long ago
        if self.carries:
            log.saved()
        return (result,)

    def _transact_apart(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        """Save in the thread, where a commit seems to last as long as a busy loop keeps Python's lock.

        So a slow one says nothing of the disk; weighed like those of the loop, they would never lead back there.
        """
        result, took = self._transact(connection, work)
        self._commit_seconds = min(self._commit_seconds, (self._commit_seconds + took) / 2)
        return result

    def _transact(self, connection: sqlite3.Connection, work: Work[T]) -> tuple[T, float]:
        """Run work in a transaction; returns what came of it, and how long its commit took."""
        with immediate(connection):
            result = work(connection)
            began = self._clock.monotonic()
        return result, self._clock.monotonic() - began

    async def _carry_beside(self) -> Carried:
        assert self._tidier is not None
        return await self._tidier.do(carry)

    async def _carry_between(self) -> Carried:
        """The last of the log, where saves are made: none can come between."""
        if self._own is not None and self._quick:
            return carry(self._own)
        return await self._writer.do(carry)

    async def close(self) -> None:
        if self._log is not None:
            await self._log.settle()
        if self._tidier is not None:
            await self._tidier.close()
        for own in (self._own, self._urgent):
            if own is not None:
                own.close()
        self._own = self._urgent = None
        await self._reader.close()
        if self._reader is not self._writer:
            await self._writer.close()


def _connect(target: str) -> sqlite3.Connection:
    """Open a connection on which a commit means that the data is on disk."""
    connection = sqlite3.connect(
        target, isolation_level=None, timeout=10.0, cached_statements=256, check_same_thread=False
    )
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    return connection


def _applied(connection: sqlite3.Connection) -> list[str]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone() is None:
        return []
    found = connection.execute("SELECT number, name FROM schema_migrations ORDER BY number").fetchall()
    return [f"{number:04d}_{name}" for number, name in found]


def _migrate(connection: sqlite3.Connection) -> list[str]:
    connection.execute("CREATE TABLE IF NOT EXISTS schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    applied: list[str] = []
    for number, name, text in migrations("sqlite"):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("SELECT 1 FROM schema_migrations WHERE number = ?", (number,)).fetchone() is None:
                for statement in _split(text):
                    connection.execute(statement)
                connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", (number, name))
                applied.append(f"{number:04d}_{name}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return applied


def _split(script: str) -> list[str]:
    """Cut a script into statements, the way SQLite itself sees them."""
    found: list[str] = []
    current = ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found
