"""The fleet's register on PostgreSQL."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from homeostat.adapters.stores import fleet_rows as rows
from homeostat.adapters.stores.postgres.engine import PostgresEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId
from homeostat.core.records.fleet import IntervalSetting, Registration, Standing

SQL: Final = statements("postgres", "fleet")

Change = tuple[Registration, int | None]


class PostgresFleet:
    """Registrations, intervals and standings on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    # --- registrations -------------------------------------------------------------------------------------

    async def save(self, changes: Sequence[Change]) -> list[Registration | None]:
        answers: list[Registration | None] = []
        for batch in _apart(changes):
            new = [rows.write_registration(entry) for entry, base in batch if base is None]
            old = [rows.write_registration(replace(entry, revision=base)) for entry, base in batch if base is not None]
            written = dict(map(tuple, await self._engine.fetch(SQL["agents_save"], new, old, len(batch))))
            answers += [
                replace(entry, revision=written[entry.agent_id]) if entry.agent_id in written else None
                for entry, _ in batch
            ]
        return answers

    async def registration(self, agent_id: AgentId) -> Registration | None:
        found = await self._engine.fetch(SQL["agent_get"], agent_id)
        return rows.read_registration(found[0]) if found else None

    async def by_key(self, key_digest: str) -> Registration | None:
        found = await self._engine.fetch(SQL["agent_by_key"], key_digest)
        return rows.read_registration(found[0]) if found else None

    async def changed(self, after_revision: int, limit: int) -> list[Registration]:
        found = await self._engine.fetch(SQL["agents_changed"], after_revision, limit)
        return [rows.read_registration(row) for row in found]

    async def forget(self, gone_before: Millis, limit: int) -> int:
        return (await self._engine.fetch(SQL["agents_forget"], gone_before, limit))[0][0]

    # --- intervals -----------------------------------------------------------------------------------------

    async def set_interval(self, setting: IntervalSetting) -> IntervalSetting:
        scope, name, seconds, _ = rows.write_interval(setting)
        (row,) = await self._engine.fetch(SQL["interval_put"], scope, name, seconds)
        return replace(setting, revision=row[0])

    async def intervals(self, after_revision: int) -> list[IntervalSetting]:
        found = await self._engine.fetch(SQL["intervals_changed"], after_revision)
        return [rows.read_interval(row) for row in found]

    # --- standings -----------------------------------------------------------------------------------------

    async def save_standings(self, standings: Sequence[Standing]) -> None:
        last = {standing.agent_id: rows.write_standing(standing) for standing in standings}
        await self._engine.fetch(SQL["standing_put"], [last[agent_id] for agent_id in sorted(last)])

    async def standings(self) -> list[Standing]:
        return [rows.read_standing(row) for row in await self._engine.fetch(SQL["standings_all"])]

    async def standings_of(self, agent_ids: Collection[AgentId]) -> list[Standing]:
        found = await self._engine.fetch(SQL["standings_some"], list(agent_ids))
        return [rows.read_standing(row) for row in found]

    async def drop_standings(self, agent_ids: Collection[AgentId]) -> None:
        await self._engine.fetch(SQL["standings_drop"], list(agent_ids))


def _apart(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Batches that name no agent twice: one statement writes a row once."""
    batch: dict[AgentId, Change] = {}
    for change in changes:
        if change[0].agent_id in batch:
            yield list(batch.values())
            batch = {}
        batch[change[0].agent_id] = change
    if batch:
        yield list(batch.values())
