"""Tools on SQLite."""

import json
import sqlite3
from collections.abc import Collection
from typing import TypeVar

from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.limits import WAIT_SECONDS_MAX
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec

SQL = statements("sqlite", "tools")

T = TypeVar("T")


class SqliteTools:
    """Tools on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def put(self, project: ProjectId, tools: Collection[ToolSpec], at: Millis) -> None:
        rows = [(project, tool.name, tool.description, tool.parameters, at) for tool in tools]
        await self._engine.save(lambda connection: connection.executemany(SQL["tool_put"], rows))

    async def all(self, project: ProjectId) -> list[ToolSpec]:
        found = await self._engine.read(lambda connection: connection.execute(SQL["tools_all"], (project,)).fetchall())
        return [ToolSpec(*row) for row in found]

    async def waiting(self, project: ProjectId, tools: Collection[str], limit: int, now: Millis) -> list[OpenCall]:
        wanted = (project, json.dumps(list(tools)), limit, now)
        found = await self._engine.read(lambda connection: connection.execute(SQL["calls_waiting"], wanted).fetchall())
        return [OpenCall(*row) for row in found]

    async def take(self, calls: Collection[CallKey], now: Millis, until: Millis) -> set[CallKey]:
        def work(connection: sqlite3.Connection) -> set[CallKey]:
            connection.execute(SQL["calls_forget"], (now - int(WAIT_SECONDS_MAX * 1000),))
            taken: set[CallKey] = set()
            for key in calls:
                taken.update(connection.execute(SQL["call_take"], (*key, now, until)).fetchall())
            return taken

        return await self._engine.save(work)

    async def hold(self, project: ProjectId, calls: Collection[CallKey], until: Millis) -> None:
        rows = [(*key, until, project) for key in calls]
        await self._engine.save(lambda connection: connection.executemany(SQL["call_hold"], rows))
