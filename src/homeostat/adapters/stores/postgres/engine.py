"""One PostgreSQL database: connections of their own for saves and for operators, a few for the rest, migrations."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, Protocol, TypeVar, cast

import asyncpg

from homeostat.adapters.stores.statements import migrations, statements
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import (
    STORE_CONNECT_SECONDS_MAX,
    STORE_CONNECTIONS_MAX,
    STORE_LANES,
    STORE_SECONDS_MAX,
    STORE_URGENT,
)
from homeostat.core.urgency import is_urgent

Row = Sequence[Any]
T = TypeVar("T")

SESSION: Final = {
    "application_name": "homeostat",
    # What was acknowledged is on disk, whatever the server's default is.
    "synchronous_commit": "on",
    # Lost races are told apart by row versions, which needs each statement to see what was committed before it.
    "default_transaction_isolation": "read committed",
    # Statements are few and look up keys. Each is planned once, and no plan turns with the statistics of the day.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

CLOCK_NOW: Final = statements("postgres", "turns")["clock_now"]

STATEMENTS_PREPARED_MAX: Final = 256

MIGRATION_LOCK: Final = 0x686F6D656F737461
"""Processes that start at the same moment take turns at migrating."""

# The first two characters of a SQLSTATE, for what passes by itself or by an operator's hand: connection lost,
# read-only server, refused log-in, no such database, deadlock, out of resources, lock or shutdown, disk, corruption.
_PASSING: Final = frozenset({"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"})

_OPTIONS: Final[dict[str, Any]] = {
    "server_settings": SESSION,
    "timeout": STORE_CONNECT_SECONDS_MAX,
    "command_timeout": STORE_SECONDS_MAX,
    "statement_cache_size": STATEMENTS_PREPARED_MAX,
    "max_cached_statement_lifetime": 0,
    "max_cacheable_statement_size": 0,
}


class Transaction(Protocol):
    """Statements that take effect together or not at all."""

    async def fetch(self, query: str, *args: object) -> list[Row]: ...
    async def executemany(self, command: str, args: Sequence[Sequence[object]]) -> None: ...


class _Connection(Transaction, Protocol):
    """What is used of the driver's connection."""

    async def execute(self, query: str, *args: object) -> str: ...
    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def is_closed(self) -> bool: ...
    def is_in_transaction(self) -> bool: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


_driver = cast("Any", asyncpg)


async def _connect(url: str, **changes: object) -> _Connection:
    return cast("_Connection", await _driver.connect(url, **{**_OPTIONS, **changes}))


class _Lines:
    """Up to so many connections, each for one statement at a time.

    The driver's own pool would do, but taking a connection from it and giving it back costs as much as a statement.
    """

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self._places = asyncio.Semaphore(most)
        self._idle: list[_Connection] = []
        self._open = False

    async def open(self, *, connect: bool = True) -> None:
        if connect:
            self._idle.append(await _connect(self._url))
        self._open = True

    async def take(self) -> _Connection:
        """A connection for oneself alone, to be given back: one that stands idle, or another one."""
        await self._places.acquire()
        try:
            return self._sound() or await self._another()
        except BaseException:
            self._places.release()
            raise

    def _sound(self) -> _Connection | None:
        connection = self._idle.pop() if self._idle else None
        if connection is None or connection.is_closed():
            return None
        if connection.is_in_transaction():  # begun for somebody who gave up meanwhile
            connection.terminate()
            return None
        return connection

    async def _another(self) -> _Connection:
        if not self._open:
            raise StoreUnavailable(problem="the store is not open")
        return await _connect(self._url)

    def give_back(self, connection: _Connection) -> None:
        self._places.release()
        if self._open:
            self._idle.append(connection)
        else:
            connection.terminate()

    async def close(self) -> None:
        self._open = False
        held, self._idle = self._idle, []
        for connection in held:
            try:
                await connection.close()
            except _PROBLEMS:
                connection.terminate()


class PostgresEngine:
    """Connections that outlive the server's restarts. An error that may pass is `StoreUnavailable`."""

    def __init__(self, url: str, *, connections_max: int = STORE_CONNECTIONS_MAX) -> None:
        self._url = url
        self._lines = _Lines(url, connections_max)
        self._save_lines = _Lines(url, STORE_LANES)
        self._urgent_lines = _Lines(url, STORE_URGENT)

    async def open(self) -> list[str]:
        """Connect and bring the schema up to date; returns the migrations that were applied."""
        await self.connect()
        return await self.migrate()

    async def connect(self) -> None:
        with _outages():
            await self._lines.open()
            await self._save_lines.open()
            await self._urgent_lines.open(connect=False)

    async def fetch(self, sql: str, *values: object) -> list[Row]:
        """Run one statement on any connection, as a transaction of its own."""
        return await _fetch(self._urgent_lines if is_urgent() else self._lines, sql, values)

    async def save(self, sql: str, *values: object) -> list[Row]:
        """The same on a connection that is kept for saves, so that they never wait for readers.

        `StoreUnavailable` leaves open whether it was committed.
        """
        return await _fetch(self._urgent_lines if is_urgent() else self._save_lines, sql, values)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run several statements as one transaction; whoever can do with one statement uses `fetch`.

        `StoreUnavailable` leaves open whether it was committed.
        """
        lines = self._urgent_lines if is_urgent() else self._lines
        with _outages():
            connection = await lines.take()
            try:
                async with connection.transaction():
                    return await work(connection)
            except TimeoutError:
                connection.terminate()  # a server that hangs is not asked again on the same line
                raise
            finally:
                lines.give_back(connection)

    async def time_ms(self) -> float:
        """What time it is where the store is."""
        return (await self.fetch(CLOCK_NOW))[0][0]

    async def close(self) -> None:
        await self._lines.close()
        await self._save_lines.close()
        await self._urgent_lines.close()

    # --- the schema ----------------------------------------------------------------------------------------

    async def applied(self) -> list[str]:
        """The names of the migrations this database has seen."""
        if (await self.fetch("SELECT to_regclass('schema_migrations')"))[0][0] is None:
            return []
        found = await self.fetch("SELECT number, name FROM schema_migrations ORDER BY number")
        return [f"{number:04d}_{name}" for number, name in found]

    async def migrate(self) -> list[str]:
        """Bring the schema up to date, whole or not at all, one process at a time; returns what was applied."""
        with _outages():
            # A migration takes the time it takes, and whoever starts meanwhile waits for it.
            connection = await _connect(self._url, command_timeout=None)
            try:
                async with connection.transaction():
                    return await _migrate(connection)
            finally:
                await connection.close()


async def _migrate(connection: _Connection) -> list[str]:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (number integer PRIMARY KEY, name text NOT NULL)"
    )
    seen = {row[0] for row in await connection.fetch("SELECT number FROM schema_migrations")}
    applied: list[str] = []
    for number, name, text in migrations("postgres"):
        if number not in seen:
            await connection.execute(text)
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2)", number, name)
            applied.append(f"{number:04d}_{name}")
    return applied


# The driver calls it an internal error when a connection is used that its server has just torn down.
_PROBLEMS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


async def _fetch(lines: _Lines, sql: str, values: Sequence[object]) -> list[Row]:
    """One statement, in one piece: beside a statement that is alone in its commit, each layer around it shows."""
    try:
        connection = await lines.take()
        try:
            return await connection.fetch(sql, *values)
        except TimeoutError:
            connection.terminate()  # a server that hangs is not asked again on the same line
            raise
        finally:
            lines.give_back(connection)
    except _PROBLEMS as problem:
        if (outage := _outage(problem)) is None:
            raise
        raise outage from problem


@contextmanager
def _outages() -> Generator[None]:
    """Tell what may pass as an error a caller can act on."""
    try:
        yield
    except _PROBLEMS as problem:
        if (outage := _outage(problem)) is None:
            raise
        raise outage from problem


def _outage(problem: Exception) -> StoreUnavailable | None:
    """What may pass, as an error a caller can act on; None for what is our own mistake and stays what it is."""
    if isinstance(problem, asyncpg.PostgresError):
        state = cast("str | None", getattr(problem, "sqlstate", None))
        passing = state is None or state[:2] in _PASSING
    else:
        passing = not isinstance(problem, ValueError)  # the driver's word for a value it cannot send
    return StoreUnavailable(problem=str(problem) or type(problem).__name__) if passing else None
