"""Two threads on one SQLite file: one writes, one reads, and the event loop waits for neither."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from homeostat.adapters.stores.statements import migrations
from homeostat.core.errors import StoreUnavailable

T = TypeVar("T")

PAGE_BYTES = 1024
"""A commit logs whole pages; small ones make a lone turn 14 kB instead of 51, one of fifty 1.5 instead of 2.3."""

Work = Callable[[sqlite3.Connection], T]


class SqliteEngine:
    """Connections and threads. The writer runs with synchronous=FULL: what was committed is on disk."""

    def __init__(self, path: Path | None) -> None:
        self._target = str(path) if path is not None else "file::memory:?cache=shared"
        self._writer_thread = ThreadPoolExecutor(1, "sqlite-writer")
        self._reader_thread = self._writer_thread if path is None else ThreadPoolExecutor(1, "sqlite-reader")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    async def open(self) -> list[str]:
        """Open the file and bring its schema up to date; returns the migrations that were applied."""
        loop = asyncio.get_running_loop()
        self._writer = await loop.run_in_executor(self._writer_thread, self._connect)
        if self._reader_thread is self._writer_thread:
            self._reader = self._writer
        else:
            self._reader = await loop.run_in_executor(self._reader_thread, self._connect)
        return await self.write(migrate)

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._target,
                isolation_level=None,
                timeout=10.0,
                uri=self._target.startswith("file:"),
                cached_statements=256,
            )
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA busy_timeout = 10000")
            connection.execute("PRAGMA journal_size_limit = 67108864")
        except sqlite3.Error as problem:
            raise StoreUnavailable(problem=str(problem)) from problem
        return connection

    async def write(self, work: Work[T]) -> T:
        return await self._run(self._writer_thread, self._writer, work)

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._reader_thread, self._reader, work)

    async def _run(self, thread: ThreadPoolExecutor, connection: sqlite3.Connection | None, work: Work[T]) -> T:
        if connection is None:
            raise StoreUnavailable(problem="the store is not open")
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work, connection)
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as problem:
            if isinstance(problem, sqlite3.IntegrityError):
                raise
            raise StoreUnavailable(problem=str(problem)) from problem

    async def close(self) -> None:
        for thread, connection in ((self._reader_thread, self._reader), (self._writer_thread, self._writer)):
            if connection is not None:
                await asyncio.get_running_loop().run_in_executor(thread, connection.close)
        self._reader = self._writer = None
        self._reader_thread.shutdown(wait=True)
        self._writer_thread.shutdown(wait=True)


def migrate(connection: sqlite3.Connection) -> list[str]:
    """Bring a file up to date; returns what was applied."""
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
