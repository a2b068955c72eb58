"""Agents' memory on PostgreSQL."""

from collections.abc import Mapping
from typing import Final

from homeostat.adapters.stores.postgres.engine import PostgresEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.records.turn import AgentKey

SQL: Final = statements("postgres", "memory")


class PostgresMemory:
    """Memory on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        return {key: Json(value) for key, value in await self._engine.fetch(SQL["memory_get"], *agent)}

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        kept = sorted((key, value) for key, value in changes.items() if value is not None)
        dropped = sorted(key for key, value in changes.items() if value is None)
        keys, values = [key for key, _ in kept], [value for _, value in kept]
        await self._engine.fetch(SQL["memory_keep"], *agent, dropped, keys, values, at)
