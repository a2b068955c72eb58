"""One suite for every keeper of the fleet's register."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresFleet
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteFleet
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.records.fleet import (
    AgentStatus,
    Departure,
    IntervalScope,
    IntervalSetting,
    Registration,
    ReportedStatus,
    Standing,
)

Stores = tuple[RegistryStore, RegistryStore]
"""Two instances on the same data, as two processes have."""

NOW = Millis(1_750_000_000_000)


@pytest.fixture(params=["sqlite", "postgres"])
def server_url(request: pytest.FixtureRequest) -> str | None:
    """A database of PostgreSQL, or None for a file."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else None


@pytest.fixture
async def stores(server_url: str | None, tmp_path: Path) -> AsyncGenerator[Stores]:
    if server_url is None:
        files = [SqliteEngine(tmp_path / "fleet.db") for _ in range(2)]
        for engine in files:
            await engine.open()
        yield SqliteFleet(files[0]), SqliteFleet(files[1])
        for engine in files:
            await engine.close()
        return
    servers = [PostgresEngine(server_url) for _ in range(2)]
    for engine in servers:
        await engine.open()
    yield PostgresFleet(servers[0]), PostgresFleet(servers[1])
    for engine in servers:
        await engine.close()


def agent(name: str, key: str | None = None) -> Registration:
    return Registration(
        agent_id=AgentId(name),
        project=ProjectId("p"),
        agent_type="worker",
        tags=("a", "é"),
        hostname="host",
        pid=7,
        key_digest=key or f"digest of {name}",
        registered_at_ms=NOW,
        request_digest="request",
        version="1.4.0-é",
    )


async def test_what_is_saved_is_found_by_id_and_by_key(stores: Stores) -> None:
    ours, theirs = stores
    (written,) = await ours.save([(agent("a"), None)])
    assert written == replace(agent("a"), revision=1)
    assert await theirs.registration(AgentId("a")) == written
    assert await theirs.by_key("digest of a") == written
    assert await theirs.registration(AgentId("b")) is None
    assert await theirs.by_key("digest of b") is None
    assert await ours.save([]) == []


async def test_a_taken_id_or_key_is_not_written_over(stores: Stores) -> None:
    ours, theirs = stores
    (first,) = await ours.save([(agent("a"), None)])
    answers = await theirs.save([(agent("a", "other"), None), (agent("b", "digest of a"), None), (agent("c"), None)])
    assert [answer and answer.agent_id for answer in answers] == [None, None, "c"]
    assert await ours.registration(AgentId("a")) == first
    assert await ours.registration(AgentId("b")) is None


async def test_an_entry_is_changed_only_from_the_revision_it_was_read_at(stores: Stores) -> None:
    ours, theirs = stores
    first, other = await ours.save([(agent("a"), None), (agent("b"), None)])
    assert first is not None
    assert other is not None
    gone = replace(first, gone_at_ms=NOW, gone_why=Departure.DEREGISTERED, hostname=None, pid=None, version="1.5.0")
    moved, fresh = await ours.save([(gone, first.revision), (agent("c"), None)])
    assert moved is not None
    assert fresh is not None
    assert moved == replace(gone, revision=moved.revision)
    assert len({first.revision, other.revision, moved.revision, fresh.revision}) == 4
    assert await theirs.save([(replace(first, pid=8), first.revision), (agent("d"), 99)]) == [None, None]
    assert await theirs.registration(AgentId("a")) == moved


async def test_one_agent_may_be_named_twice_in_a_save(stores: Stores) -> None:
    ours, _ = stores
    first, second = await ours.save([(agent("a"), None), (agent("a", "again"), None)])
    assert first is not None
    assert second is None
    assert await ours.registration(AgentId("a")) == first


async def test_rivals_get_different_revisions_and_one_of_them_the_entry(stores: Stores) -> None:
    ours, theirs = stores
    for number in range(5):
        answers = await asyncio.gather(
            *(
                store.save([(agent(f"a{number}", f"{number}{n}"), None), (agent(f"b{number}{n}"), None)])
                for n, store in enumerate((ours, theirs))
            )
        )
        assert sorted(answer[0] is not None for answer in answers) == [False, True]
        assert all(answer[1] is not None for answer in answers)
    changed = await ours.changed(0, 99)
    assert len(changed) == 15
    assert [entry.revision for entry in changed] == sorted({entry.revision for entry in changed})


async def test_changes_are_read_in_order_page_by_page(stores: Stores) -> None:
    ours, theirs = stores
    await ours.save([(agent(name), None) for name in "cab"])
    first = await theirs.changed(0, 2)
    assert [entry.agent_id for entry in first] == ["c", "a"]
    assert [entry.agent_id for entry in await theirs.changed(first[-1].revision, 2)] == ["b"]
    entry = first[0]
    await ours.save([(replace(entry, pid=9), entry.revision)])
    assert [entry.agent_id for entry in await theirs.changed(first[-1].revision, 9)] == ["b", "c"]


async def test_who_left_long_ago_is_forgotten_a_bounded_number_at_a_time(stores: Stores) -> None:
    ours, _ = stores
    left = [
        replace(agent(name), gone_at_ms=Millis(NOW + n), gone_why=Departure.EXPIRED) for n, name in enumerate("abcd")
    ]
    await ours.save([(entry, None) for entry in (*left, agent("here"))])
    assert await ours.forget(Millis(NOW + 3), 2) == 2
    assert await ours.forget(Millis(NOW + 3), 2) == 1
    assert await ours.forget(Millis(NOW + 3), 2) == 0
    assert {entry.agent_id for entry in await ours.changed(0, 9)} == {"d", "here"}


async def test_intervals_are_set_and_taken_back(stores: Stores) -> None:
    ours, theirs = stores
    (entry,) = await ours.save([(agent("a"), None)])
    assert entry is not None
    default = await ours.set_interval(IntervalSetting(IntervalScope.DEFAULT, "", 2.5))
    tagged = await theirs.set_interval(IntervalSetting(IntervalScope.TAG, "gpu", 1.0))
    assert entry.revision < default.revision < tagged.revision
    assert await theirs.intervals(0) == [default, tagged]
    back = await ours.set_interval(IntervalSetting(IntervalScope.DEFAULT, "", None))
    assert await theirs.intervals(tagged.revision) == [back]
    assert await theirs.intervals(0) == [tagged, back]


async def test_standings_are_kept_for_those_who_are_here(stores: Stores) -> None:
    ours, theirs = stores
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    said = AgentStatus(
        agent_id=AgentId("a"),
        agent_type="worker",
        tags=(),
        timestamp=moment,
        started_at=moment,
        uptime_seconds=1.0,
        status=ReportedStatus.RUNNING,
        last_action="x",
        items_processed=1,
        queue_depth=0,
        processing_time_avg_ms=0.5,
        error_count=0,
        memory_mb=1.0,
        push_interval_seconds=2.0,
    )
    gone = replace(agent("gone"), gone_at_ms=NOW, gone_why=Departure.EXPIRED)
    await ours.save([(agent("a"), None), (agent("b"), None), (gone, None)])
    standings = [
        Standing(AgentId(name), Liveness.ALIVE, NOW, NOW, NOW, 2000, said if name == "a" else None)
        for name in ("gone", "b", "a", "stranger")
    ]
    await ours.save_standings([])
    await ours.save_standings(standings)
    assert await theirs.standings() == [standings[2], standings[1]]
    late = replace(standings[1], presence=Liveness.STALE, since_ms=Millis(NOW + 1))
    await ours.save_standings([standings[1], late])
    assert await theirs.standings() == [standings[2], late]
    assert await theirs.standings_of([late.agent_id, AgentId("stranger")]) == [late]
    assert await theirs.standings_of([]) == []
    await ours.drop_standings([AgentId("a"), AgentId("stranger")])
    await ours.drop_standings([])
    assert await theirs.standings() == [late]
