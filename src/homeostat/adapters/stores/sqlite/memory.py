"""Agents' memory on SQLite."""

import sqlite3
from collections.abc import Mapping

from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.records.turn import AgentKey

SQL = statements("sqlite", "memory")


class SqliteMemory:
    """Memory on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        found = await self._engine.read(lambda connection: connection.execute(SQL["memory_get"], agent).fetchall())
        return {key: Json(value) for key, value in found}

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        puts = [(*agent, key, value, at) for key, value in changes.items() if value is not None]
        drops = [(*agent, key) for key, value in changes.items() if value is None]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(SQL["memory_put"], puts)
            connection.executemany(SQL["memory_drop"], drops)

        await self._engine.save(work)
