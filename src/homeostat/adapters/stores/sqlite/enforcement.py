"""What is wanted of whom, on SQLite."""

import sqlite3
from collections.abc import Sequence

from homeostat.adapters.stores.enforcement_read import EnforcementKeeping, Row, write_hold
from homeostat.adapters.stores.sqlite import mandates
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.enforcement import Hold, Mandate

SQL = statements("sqlite", "enforcement")


class SqliteEnforcement(EnforcementKeeping):
    """Holds and custodies on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def save_holds(self, holds: Sequence[Hold], mandate: Mandate | None = None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            mandates.require(connection, mandate)
            connection.executemany(SQL["hold_put"], map(write_hold, holds))

        await self._engine.save(work)

    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _do(self, name: str, *values: object) -> Sequence[Row]:
        def work(connection: sqlite3.Connection) -> list[Row]:
            return connection.execute(SQL[name], values).fetchall()

        return await self._engine.save(work)
