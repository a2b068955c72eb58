"""Tools on PostgreSQL."""

from collections.abc import Collection
from typing import Final

from homeostat.adapters.stores.postgres.engine import PostgresEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.limits import WAIT_SECONDS_MAX
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec

SQL: Final = statements("postgres", "tools")


class PostgresTools:
    """Tools on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def put(self, project: ProjectId, tools: Collection[ToolSpec], at: Millis) -> None:
        columns = ([t.name for t in tools], [t.description for t in tools], [t.parameters for t in tools])
        await self._engine.fetch(SQL["tool_put"], project, *columns, at)

    async def all(self, project: ProjectId) -> list[ToolSpec]:
        return [ToolSpec(*row) for row in await self._engine.fetch(SQL["tools_all"], project)]

    async def waiting(self, project: ProjectId, tools: Collection[str], limit: int, now: Millis) -> list[OpenCall]:
        found = await self._engine.fetch(SQL["calls_waiting"], project, list(tools), limit, now)
        return [OpenCall(*row) for row in found]

    async def take(self, calls: Collection[CallKey], now: Millis, until: Millis) -> set[CallKey]:
        await self._engine.fetch(SQL["calls_forget"], now - int(WAIT_SECONDS_MAX * 1000))
        found = await self._engine.fetch(SQL["call_take"], *_columns(calls), now, until)
        return {(row[0], row[1]) for row in found}

    async def hold(self, project: ProjectId, calls: Collection[CallKey], until: Millis) -> None:
        await self._engine.fetch(SQL["call_hold"], *_columns(calls), until, project)


def _columns(calls: Collection[CallKey]) -> tuple[list[str], list[str]]:
    keys = sorted(set(calls))
    return [turn_id for turn_id, _ in keys], [call_id for _, call_id in keys]
