"""The fleet's register on SQLite."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from homeostat.adapters.stores import fleet_rows as rows
from homeostat.adapters.stores.sqlite.bulk import put_rows
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId
from homeostat.core.records.fleet import IntervalSetting, Registration, Standing

SQL = statements("sqlite", "fleet")


class SqliteFleet:
    """Registrations, intervals and standings on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    # --- registrations -------------------------------------------------------------------------------------

    async def save(self, changes: Sequence[tuple[Registration, int | None]]) -> list[Registration | None]:
        def work(connection: sqlite3.Connection) -> list[Registration | None]:
            return [_save(connection, entry, base) for entry, base in changes]

        return await self._engine.save(work)

    async def registration(self, agent_id: AgentId) -> Registration | None:
        found = await self._all("agent_get", agent_id)
        return rows.read_registration(found[0]) if found else None

    async def by_key(self, key_digest: str) -> Registration | None:
        found = await self._all("agent_by_key", key_digest)
        return rows.read_registration(found[0]) if found else None

    async def changed(self, after_revision: int, limit: int) -> list[Registration]:
        return [rows.read_registration(row) for row in await self._all("agents_changed", after_revision, limit)]

    async def forget(self, gone_before: Millis, limit: int) -> int:
        return await self._engine.save(lambda c: c.execute(SQL["agents_forget"], (gone_before, limit)).rowcount)

    # --- intervals -----------------------------------------------------------------------------------------

    async def set_interval(self, setting: IntervalSetting) -> IntervalSetting:
        def work(connection: sqlite3.Connection) -> IntervalSetting:
            written = replace(setting, revision=_revision(connection))
            connection.execute(SQL["interval_put"], rows.write_interval(written))
            return written

        return await self._engine.save(work)

    async def intervals(self, after_revision: int) -> list[IntervalSetting]:
        return [rows.read_interval(row) for row in await self._all("intervals_changed", after_revision)]

    # --- standings -----------------------------------------------------------------------------------------

    async def save_standings(self, standings: Sequence[Standing]) -> None:
        batch = [rows.write_standing(standing) for standing in standings]
        await self._engine.save(lambda connection: put_rows(connection, SQL["standing_put"], batch))

    async def standings(self) -> list[Standing]:
        return [rows.read_standing(row) for row in await self._all("standings_all")]

    async def standings_of(self, agent_ids: Collection[AgentId]) -> list[Standing]:
        return [rows.read_standing(row) for row in await self._all("standings_some", json.dumps(list(agent_ids)))]

    async def drop_standings(self, agent_ids: Collection[AgentId]) -> None:
        wanted = json.dumps(list(agent_ids))
        await self._engine.save(lambda connection: connection.execute(SQL["standings_drop"], (wanted,)))

    # --- inside --------------------------------------------------------------------------------------------

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())


def _revision(connection: sqlite3.Connection) -> int:
    return connection.execute(SQL["revision_take"]).fetchall()[0][0]


def _save(connection: sqlite3.Connection, entry: Registration, base: int | None) -> Registration | None:
    written = replace(entry, revision=_revision(connection))
    values = rows.write_registration(written)
    if base is None:
        cursor = connection.execute(SQL["agent_put"], values)
    else:
        cursor = connection.execute(SQL["agent_swap"], (*values, base))
    return written if cursor.rowcount == 1 else None
