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
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, Scope, TurnId, WorkerId
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.box import BoxEnding
from homeostat.core.records.card import Card
from homeostat.core.records.head import Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn
from homeostat.core.records.view import Due
from homeostat.core.records.writes import Saved, Writes
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.suites import turn_records as a
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


async def test_whoever_ends_a_box_on_postgres_waits_for_a_save_that_names_it(emptied_url: str) -> None:
    async with opened(lambda: PostgresEngine(emptied_url), PostgresTurns) as open_store:
        store = await open_store()
        await execute(emptied_url, *(f"DELETE FROM {table}" for table in TABLES))
        box_id, reader = BoxId("box_" + a.scope_at(a.NOW, 1)), a.turn(1)
        await a.register(store, a.idle())
        await a.put(store, heads=a.swap(a.holding(a.idle(), reader)), turns=a.by_id([reader]))
        await a.put(store, cards=[a.card(a.scope_at(a.NOW, 1), 1)])
        saving, seeing = await asyncpg.connect(emptied_url), await asyncpg.connect(emptied_url)
        begun = saving.transaction()
        await begun.start()
        await saving.execute("SELECT boxes_stay($1, $2)", [a.PROJECT], [box_id])
        await saving.execute("UPDATE turns SET context_box_id = $1", box_id)
        ending = asyncio.ensure_future(store.end_box(a.PROJECT, box_id))
        while not await seeing.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            assert not ending.done(), "it did not wait"
        await begun.commit()
        assert await ending == BoxEnding(needed_by=reader.turn_id)
        for connection in (saving, seeing):
            await connection.close()


# --- what is looked through in rounds ------------------------------------------------------------------------------


async def look(store: TurnStore) -> Due:
    return await store.due(a.NOW, unclaimed=(Millis(0), Millis(0)), lease_ms=10_000, limit=3)


async def no_turn_without_a_lease_is_passed_over_where_there_was_no_room_for_it(open_store: OpenStore) -> None:
    """Sixteen agents are three rounds of five and one of one; a round with room for three of five takes two looks."""
    looking = await open_store()
    turns = [a.turn(1, agent_id=f"agent-{number:02}") for number in range(16)]
    heads = [
        a.holding(a.idle(one.agent_id), one, worker_id=WorkerId("wrk_none" if number < 11 else "wrk_dead"))
        for number, one in enumerate(turns)
    ]
    await a.put(looking, new_heads={head.key: head for head in heads}, turns=a.by_id(turns))
    orphans = [(await look(looking)).lost for _ in range(5)]
    found = [lost[0][1] for round_ in orphans for lost in round_]
    assert found[:15] == [head.agent_id for head in heads[:15]]
    await a.put(looking, leases={WorkerId("wrk_dead"): a.NOW})
    assert {lost[3] for lost in (await look(looking)).lost} == {"wrk_dead"}, "there is no room for others"
    found = [lost[0][1] for _ in range(2) for lost in (await look(looking)).lost if lost[3] == "wrk_none"]
    assert found == [], "nor is any of them looked for"
    await a.put(looking, leases={WorkerId("wrk_dead"): Millis(a.NOW + 1)})
    found = [lost[0][1] for _ in range(5) for lost in (await look(looking)).lost]
    assert sorted(set(found)) == [head.agent_id for head in heads[:11]]


async def no_call_from_the_future_is_passed_over_where_there_was_no_room_for_it(open_store: OpenStore) -> None:
    looking = await open_store()
    waiting = a.turn()
    day = 24 * 3600 * 1000
    calls = [
        a.wait(waiting, f"call-{number:02}", created_at_ms=Millis(a.NOW + day), deadline=a.NOW + day + number // 4)
        for number in range(16)
    ]
    await a.put(looking, turns=a.by_id([waiting]), new_waits=a.waits_of(*calls))
    found = [wait.call_id for _ in range(6) for wait in (await look(looking)).misdated]
    assert found[:16] == [call.call_id for call in calls]


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than five rows are looked through in a round."""
    for name in ("ORPHAN_ROWS_MAX", "MISDATED_ROWS_MAX"):
        monkeypatch.setattr(f"homeostat.adapters.stores.turns_read.{name}", 5)


IN_ROUNDS = (
    no_turn_without_a_lease_is_passed_over_where_there_was_no_room_for_it,
    no_call_from_the_future_is_passed_over_where_there_was_no_room_for_it,
)


@pytest.mark.parametrize("check", IN_ROUNDS, ids=lambda check: check.__name__)
async def test_rounds_on_sqlite(check: Check, short_rounds: None, tmp_path: Path) -> None:
    await test_sqlite(check, tmp_path)


@pytest.mark.parametrize("check", IN_ROUNDS, ids=lambda check: check.__name__)
async def test_rounds_on_postgres(check: Check, short_rounds: None, emptied_url: str) -> None:
    await test_postgres(check, emptied_url)


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


class LooksAtTheFirstCallsOnly(SqliteTurns):
    async def _misdated(self, after: int, limit: int) -> list[Sequence[Any]]:
        found = await super()._misdated(after, limit)
        self._dated_up_to = (0, "", "")
        return found


class SweepsWithoutBound(SqliteTurns):
    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        return await super().due(now, unclaimed=unclaimed, lease_ms=lease_ms, limit=10 * limit)


class TrustsEveryClock(SqliteTurns):
    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        return await super().due(now, unclaimed=unclaimed, lease_ms=1000 * lease_ms, limit=limit)


class ExpiresWithoutBound(SqliteTurns):
    async def expire(self, before: Scope, limit: int) -> int:
        return await super().expire(before, 10 * limit)


class EndsWhatIsNeeded(SqliteTurns):
    async def end_box(self, project: ProjectId, box_id: BoxId) -> BoxEnding:
        ending = await super().end_box(project, box_id)
        return BoxEnding() if ending.needed_by else ending


class ShowsWhatHasEnded(SqliteTurns):
    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        return await super().box_length(project, box_id) or (await self.box_owner(project, box_id) and 0)


class ClearsWithoutBound(SqliteTurns):
    async def clear(self, limit: int) -> int:
        return await super().clear(10 * limit)


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
        LooksAtTheFirstCallsOnly,
        SweepsWithoutBound,
        TrustsEveryClock,
        ExpiresWithoutBound,
        ExpiresNothing,
        EndsWhatIsNeeded,
        ShowsWhatHasEnded,
        ClearsWithoutBound,
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


@pytest.mark.parametrize("statement", ["ended_cards", "ended_owners", "freed_cards", "freed_ends"])
async def test_a_store_that_leaves_what_has_ended_behind_is_found_out(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"ended_cards": "SELECT ?1 LIMIT 0", "ended_owners": "SELECT 1"}
    monkeypatch.setitem(SQL, statement, counted.get(statement, "SELECT ?1"))
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
