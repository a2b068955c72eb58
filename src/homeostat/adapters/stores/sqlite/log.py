"""The write-ahead log of one SQLite file: carried into the file beside the saves, never by one of them."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import LOG_BYTES_MAX, LOG_LOOK_SAVES, LOG_PAGES, LOG_REST_PAGES, LOG_ROUNDS_MAX

log = logging.getLogger(__name__)

Carried = tuple[int, int, int]
"""Whether somebody was in the way, how many pages the log has, and how many of them are in the file."""

Carry = Callable[[], Awaitable[Carried]]


def carry(connection: sqlite3.Connection) -> Carried:
    """Copy what the log holds into the file, as far as nobody is in the way; no save has to wait for it."""
    return connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


class Log:
    """Sees to it that the log is carried over about every so many pages, and that it can begin anew.

    A log begins anew only when all of it is in the file, which is never so while saves go on. So the bulk is carried
    by a thread beside them, and the little that came meanwhile between two saves.
    """

    def __init__(self, file: Path, *, beside: Carry, between: Carry) -> None:
        self._file = file
        self._beside = beside
        self._between = between
        self._saves = 0
        self._saves_due = LOG_PAGES // 16
        self._largest = LOG_BYTES_MAX
        self._carrying: asyncio.Task[None] | None = None

    def saved(self) -> None:
        """A save was committed by the loop, which carries nothing itself."""
        self._saves += 1
        if self._carrying is None and (
            self._saves >= self._saves_due or (self._saves % LOG_LOOK_SAVES == 0 and self._has_grown())
        ):
            self._carrying = asyncio.create_task(self._carry())

    def _has_grown(self) -> bool:
        """Whether the log is longer than it ever was: its file is written over from the start and does not shrink."""
        with suppress(OSError):
            return self._file.stat().st_size > self._largest
        return False

    async def _carry(self) -> None:
        saves = self._saves
        try:
            _, pages, carried = await self._beside()
            rounds = 1
            while pages - carried > LOG_REST_PAGES and rounds < LOG_ROUNDS_MAX:
                _, pages, carried = await self._beside()
                rounds += 1
            self._saves_due = max(LOG_LOOK_SAVES, LOG_PAGES * saves // max(pages, 1))
            await self._between()
            with suppress(OSError):
                self._largest = max(LOG_BYTES_MAX, self._file.stat().st_size)
        except (sqlite3.Error, StoreUnavailable) as problem:
            log.warning("the log of %s was not carried into its file: %s", self._file.name, problem)
        finally:
            self._saves = 0
            self._carrying = None

    async def settle(self) -> None:
        """Wait until nothing is being carried."""
        if self._carrying is not None:
            await asyncio.gather(self._carrying, return_exceptions=True)
