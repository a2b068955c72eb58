"""Both turn stores keep every promise, and stores that break one are found out."""

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from msgspec.structs import fields, replace

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresTurns
from homeostat.adapters.stores.rows import place_of, read_card
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.adapters.stores.sqlite.turns import SQL
from homeostat.core.clock import Millis
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import AgentId, CardId, ProjectId, Scope, TurnId
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import Card
from homeostat.core.records.head import Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn
from homeostat.core.records.view import Due
from homeostat.core.records.writes import Saved, Writes
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.suites.turn_store import CHECKS, Check, OpenStore

TABLES = ("heads", "turns", "inbox", "waits", "cards", "box_owners", "steps", "leases", "answers", "outbox")


@asynccontextmanager
async def opened(
    engine_of: Callable[[], SqliteEngine | PostgresEngine], store_of: Callable[..., TurnStore]
) -> AsyncGenerator[OpenStore]:
    """Instances on one database, each with an engine of its own, as processes have."""
    engines: list[SqliteEngine | PostgresEngine] = []

    async def open_store() -> TurnStore:
        engines.append(engine_of())
        await engines[-1].open()
        return store_of(engines[-1])

    try:
        yield open_store
    finally:
        for engine in engines:
            await engine.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_sqlite(check: Check, tmp_path: Path) -> None:
    async with opened(lambda: SqliteEngine(tmp_path / "turns.db"), SqliteTurns) as open_store:
        await check(open_store)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_kit(check: Check) -> None:
    store = MemoryTurns()

    async def open_store() -> TurnStore:
        return store

    await check(open_store)


@pytest.fixture(scope="module")
def emptied_url(postgres_server_url: str) -> Iterator[str]:
    """One database for all checks: making one takes longer than any of them."""
    name = f"homeostat_conformance_{os.getpid()}"
    asyncio.run(execute(postgres_server_url, f"CREATE DATABASE {name}"))
    yield urlunsplit(urlsplit(postgres_server_url)._replace(path=f"/{name}"))
    asyncio.run(execute(postgres_server_url, f"DROP DATABASE {name} WITH (FORCE)"))


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_postgres(check: Check, emptied_url: str) -> None:
    async with opened(lambda: PostgresEngine(emptied_url), PostgresTurns) as open_store:
        await open_store()
        await execute(emptied_url, *(f"DELETE FROM {table}" for table in TABLES))
        await check(open_store)


# --- stores that break a promise -----------------------------------------------------------------------------------

Broken = Callable[[SqliteEngine], TurnStore]


async def failure(broken: Broken) -> str | None:
    """The first check that a store does not pass, each on a fresh database in memory."""
    for check in CHECKS:
        engine = SqliteEngine(None)
        await engine.open()

        async def open_store(engine: SqliteEngine = engine) -> TurnStore:
            return broken(engine)

        try:
            await check(open_store)
        except (AssertionError, LookupError):  # a head without its turn is the store's own way of noticing
            return check.__name__
        finally:
            await engine.close()
    return None


async def test_a_store_that_is_whole_passes_in_memory() -> None:
    assert await failure(SqliteTurns) is None


class IgnoresVersions(SqliteTurns):
    async def save(self, writes: Writes) -> Saved:
        now = {key: mailbox.head.version for key, mailbox in (await self.load(writes.heads)).items()}
        heads = {key: (now.get(key, base), head) for key, (base, head) in writes.heads.items()}
        return await super().save(replace(writes, heads=heads))


class NamesEveryHead(SqliteTurns):
    async def save(self, writes: Writes) -> Saved:
        saved = await super().save(writes)
        return replace(saved, stale=frozenset(writes.heads)) if saved.stale else saved


class SavesByHalves(SqliteTurns):
    async def save(self, writes: Writes) -> Saved:
        await super().save(Writes(cards=writes.cards))
        return await super().save(replace(writes, cards=[]))


class OverwritesAnswers(SqliteTurns):
    async def save(self, writes: Writes) -> Saved:
        saved = await super().save(writes)
        return await super().save(replace(writes, answers={})) if saved.answered else saved


class CallsMistakesOutages(SqliteTurns):
    async def save(self, writes: Writes) -> Saved:
        try:
            return await super().save(writes)
        except sqlite3.IntegrityError as mistake:
            raise StoreUnavailable(problem=str(mistake)) from mistake


class ForgetsTheLine(SqliteTurns):
    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        return {key: replace(mailbox, queue=()) for key, mailbox in (await super().load(agents)).items()}


class LoadsTheWholeLine(SqliteTurns):
    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        found = await super().load(agents)
        return {
            key: replace(box, queue=tuple(await self.inbox(*key, after_seq=-1, limit=999)))
            for key, box in found.items()
        }


class TurnsTheLineRound(SqliteTurns):
    async def inbox(self, project: ProjectId, agent_id: AgentId, *, after_seq: int, limit: int) -> list[OpenTurn]:
        return (await super().inbox(project, agent_id, after_seq=after_seq, limit=limit))[::-1]


class ReadsAnyCard(SqliteTurns):
    async def card(self, project: ProjectId, card_id: CardId) -> Card | None:
        place = place_of(card_id)
        row = await self._one("card_get", project, place[0], place[1]) if place else None
        return read_card(row) if row else None


class LeavesReferencesEmpty(SqliteTurns):
    async def _born(self, project: ProjectId, cards: Collection[Card]) -> dict[CardId, Card]:
        del project, cards
        return {}


class SeesNoSecondDeliverable(SqliteTurns):
    async def doubled(self) -> dict[TurnId, int]:
        return {}


class SeesNoOrphans(SqliteTurns):
    async def _orphans(self, limit: int) -> list[Sequence[Any]]:
        del limit
        return []


class SweepsWithoutBound(SqliteTurns):
    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        return await super().due(now, unclaimed=unclaimed, lease_ms=lease_ms, limit=10 * limit)


class TrustsEveryClock(SqliteTurns):
    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        return await super().due(now, unclaimed=unclaimed, lease_ms=1000 * lease_ms, limit=limit)


class ExpiresWithoutBound(SqliteTurns):
    async def expire(self, before: Scope, limit: int) -> int:
        return await super().expire(before, 10 * limit)


class ExpiresNothing(SqliteTurns):
    async def expire(self, before: Scope, limit: int) -> int:
        del before, limit
        return 0


@pytest.mark.parametrize(
    "broken",
    [
        IgnoresVersions,
        NamesEveryHead,
        SavesByHalves,
        OverwritesAnswers,
        CallsMistakesOutages,
        ForgetsTheLine,
        LoadsTheWholeLine,
        TurnsTheLineRound,
        ReadsAnyCard,
        LeavesReferencesEmpty,
        SeesNoSecondDeliverable,
        SeesNoOrphans,
        SweepsWithoutBound,
        TrustsEveryClock,
        ExpiresWithoutBound,
        ExpiresNothing,
    ],
    ids=lambda broken: broken.__name__,
)
async def test_a_broken_store_is_found_out(broken: Broken) -> None:
    assert await failure(broken)


# Gates of runs and mandates are the business of two keepers at once, and found out about in suites of their own.
@pytest.mark.parametrize("field", [field.name for field in fields(Writes) if field.name not in {"runs", "mandates"}])
async def test_a_store_that_forgets_something_is_found_out(field: str) -> None:
    class Forgetful(SqliteTurns):
        async def save(self, writes: Writes) -> Saved:
            return await super().save(replace(writes, **{field: getattr(Writes(), field)}))

    assert await failure(Forgetful)


@pytest.mark.parametrize("statement", ["cards", "steps", "waits", "turns", "answers"])
async def test_a_store_that_leaves_old_rows_behind_is_found_out(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SQL, f"expire_{statement}", "SELECT ?1, ?2" if statement == "answers" else "SELECT ?1")
    assert await failure(SqliteTurns)


PROJECT_BOUND = sorted(
    name for name, text in SQL.items() if text.startswith(("SELECT", "WITH")) and "project = ?" in text
)


@pytest.mark.parametrize("statement", PROJECT_BOUND)
async def test_a_statement_that_looks_into_other_projects_is_found_out(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = re.sub(r"(\w+\.)?project = \?(\d)", r"?\2 = ?\2", SQL[statement])
    monkeypatch.setitem(SQL, statement, text)
    assert await failure(SqliteTurns)
