"""What is PostgreSQL's own: its settings, its outages, and what a plain turn costs it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from msgspec.structs import replace

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresTurns
from homeostat.adapters.stores.postgres.engine import Transaction
from homeostat.adapters.stores.statements import migrations
from homeostat.core.codec import Json
from homeostat.core.errors import MalformedPayload, StoreUnavailable
from homeostat.core.ids import AgentId, WorkerId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.writes import Writes
from homeostat.core.urgency import urgent_context
from homeostat.testing.servers import PostgresServer
from homeostat.testing.suites import turn_records as a

ALL = [f"{number:04d}_{name}" for number, name, _ in migrations("postgres")]


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[PostgresEngine]:
    engine = PostgresEngine(url)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[PostgresEngine]:
    async with opened(postgres_url) as engine:
        yield engine


async def test_processes_that_start_together_migrate_once(postgres_url: str) -> None:
    engines = [PostgresEngine(postgres_url) for _ in range(4)]
    applied = await asyncio.gather(*(engine.open() for engine in engines))
    assert sorted(applied) == [[], [], [], ALL]
    assert await engines[0].applied() == ALL
    for engine in engines:
        await engine.close()


async def test_looking_does_not_migrate(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url)
    await engine.connect()
    assert await engine.applied() == []
    await engine.close()


async def test_a_migration_that_fails_leaves_nothing_behind(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (*migrations("postgres"), (9_999, "broken", "CREATE TABLE half (); SELECT nonsense"))
    monkeypatch.setattr("homeostat.adapters.stores.postgres.engine.migrations", lambda _: broken)
    engine = PostgresEngine(postgres_url)
    with pytest.raises(asyncpg.UndefinedColumnError):
        await engine.open()
    assert await engine.applied() == []
    assert (await engine.fetch("SELECT to_regclass('half'), to_regclass('turns')"))[0][:] == (None, None)
    await engine.close()


async def test_what_is_acknowledged_is_on_disk_whatever_the_server_s_default_is(postgres_url: str) -> None:
    name = urlsplit(postgres_url).path[1:]
    async with opened(postgres_url) as engine:
        await engine.fetch(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
        await engine.fetch(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
    async with opened(postgres_url) as engine:
        for run in (engine.fetch, engine.save):
            shown = await run(
                "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation'),"
                " current_setting('plan_cache_mode'), current_setting('jit')"
            )
            assert tuple(shown[0]) == ("on", "read committed", "force_generic_plan", "off")


@pytest.mark.parametrize(
    "change",
    [{"netloc": "homeostat:x@127.0.0.1:1"}, {"path": "/no_such_database"}],
    ids=["no server", "no database"],
)
async def test_a_store_that_is_not_there_is_unavailable(postgres_url: str, change: dict[str, str]) -> None:
    engine = PostgresEngine(urlunsplit(urlsplit(postgres_url)._replace(**change)))
    with pytest.raises(StoreUnavailable):
        await engine.open()
    with pytest.raises(StoreUnavailable):
        await engine.fetch("SELECT 1")
    await engine.close()


async def test_a_closed_store_is_unavailable(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url)
    for run in (engine.fetch, engine.save):
        with pytest.raises(StoreUnavailable):
            await run("SELECT 1")
    await engine.open()
    await engine.close()
    for run in (engine.fetch, engine.save):
        with pytest.raises(StoreUnavailable):
            await run("SELECT 1")


async def test_our_own_mistakes_are_no_outage(engine: PostgresEngine) -> None:
    for run in (engine.fetch, engine.save):
        with pytest.raises(asyncpg.UndefinedTableError):
            await run("SELECT * FROM nowhere")
        with pytest.raises(asyncpg.DataError):
            await run("SELECT $1::bigint", "text")
        assert (await run("SELECT 1"))[0][0] == 1


async def test_a_session_that_is_ended_is_replaced(engine: PostgresEngine) -> None:
    for run in (engine.fetch, engine.save):
        (pid,) = (await run("SELECT pg_backend_pid()"))[0]
        other = engine.save if run == engine.fetch else engine.fetch
        waiting = asyncio.create_task(run("SELECT pg_sleep(60)"))
        while not await other("SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%'", pid):
            pass
        await other("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await waiting
        assert (await run("SELECT pg_backend_pid()"))[0][0] != pid


async def test_many_readers_share_a_few_connections(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url, connections_max=3)
    await engine.open()
    found = await asyncio.gather(*(engine.fetch("SELECT pg_backend_pid() FROM pg_sleep(0.01)") for _ in range(12)))
    assert len({rows[0][0] for rows in found}) == 3
    await engine.close()


async def test_a_reader_that_gives_up_leaves_its_connection_usable(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url, connections_max=1)
    await engine.open()
    for run in (engine.fetch, engine.save):
        waiting = asyncio.create_task(run("SELECT pg_sleep(60)"))
        other = await asyncpg.connect(postgres_url)
        while not await other.fetch("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"):
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await run("SELECT 1"))[0][0] == 1
        await other.close()
    await engine.close()


async def test_the_store_comes_back_with_its_server() -> None:
    """Killed while a save is under way: nobody knows whether it was committed. Afterwards all is as before."""
    with PostgresServer() as server:
        async with opened(server.url) as engine:
            store = PostgresTurns(engine)
            await a.register(store, a.idle())
            under_way = asyncio.create_task(engine.save("SELECT pg_sleep(60)"))
            while not await engine.fetch("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"):
                pass
            server.kill()
            with pytest.raises(StoreUnavailable):
                await under_way
            with pytest.raises(StoreUnavailable):
                await store.load([a.idle().key])
            with pytest.raises(StoreUnavailable):
                await store.save(Writes(heads=a.swap(a.moved(a.idle()))))
            server.start()
            assert (await store.load([a.idle().key]))[a.idle().key].head == a.idle()
            await a.put(store, heads=a.swap(a.moved(a.idle())))


async def test_rivals_neither_deadlock_nor_fail(postgres_url: str) -> None:
    """Saves that meet in every kind of row two processes may want, each named in another order."""
    names = [AgentId(f"agent-{n}") for n in range(8)]
    async with opened(postgres_url) as one, opened(postgres_url) as two:
        stores = [PostgresTurns(one), PostgresTurns(two)]
        await a.register(stores[0], *(a.idle(name) for name in names))

        async def rival(number: int, order: list[AgentId]) -> None:
            store = stores[number]
            for round_ in range(25):
                heads = {key[1]: box.head for key, box in (await store.load([(a.PROJECT, n) for n in order])).items()}
                workers = [WorkerId(f"wrk_{name}") for name in order]
                fresh = [AgentId(f"{name}-{round_}") for name in order]
                await store.save(
                    Writes(
                        heads=a.swap(*(a.moved(heads[name]) for name in order)),
                        new_heads={(a.PROJECT, name): a.idle(name) for name in fresh},
                        answers={(a.PROJECT, name): a.answer(name) for name in fresh},
                        leases=dict.fromkeys(workers[:4], a.NOW),
                        leases_ended=dict.fromkeys(workers[4:], a.NOW),
                    )
                )

        await asyncio.gather(rival(0, names), rival(1, names[::-1]))
        (row,) = await one.fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert row[0] == 0


async def test_whoever_waits_for_a_head_holds_none_behind_it(postgres_url: str, engine: PostgresEngine) -> None:
    """Heads are locked in the order of their keys, in whichever order a save names them."""
    store = PostgresTurns(engine)
    heads = [a.idle(f"agent-{n}") for n in range(3)]
    await a.register(store, *heads)
    first, behind = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    async with first.transaction():
        await first.execute("SELECT FROM heads WHERE agent_id = 'agent-0' FOR UPDATE")
        waiting = asyncio.create_task(store.save(Writes(heads=a.swap(*(a.moved(head) for head in reversed(heads))))))
        while not await engine.fetch("SELECT 1 FROM pg_locks WHERE NOT granted"):
            pass
        await behind.execute("SELECT FROM heads WHERE agent_id <> 'agent-0' FOR UPDATE NOWAIT")
        assert not waiting.done()
    assert (await waiting).ok
    await first.close()
    await behind.close()


async def test_a_plain_turn_touches_no_index_of_heads(engine: PostgresEngine) -> None:
    """Every update of a head stays in its page, as the schema promises."""
    store = PostgresTurns(engine)
    heads = [a.idle(f"agent-{n}") for n in range(20)]
    await a.register(store, *heads)
    for number in range(30):
        turns = [a.turn(number, at=a.NOW + number, agent_id=head.agent_id) for head in heads]
        heads = [a.holding(head, one, since_ms=a.NOW, tail_seq=number) for head, one in zip(heads, turns, strict=True)]
        await a.put(store, heads=a.swap(*heads), turns=a.by_id(turns))
        heads = [a.moved(head, status=HeadStatus.IDLE, turn_id=None, worker_id=None) for head in heads]
        await a.put(store, heads=a.swap(*heads), cards=[a.deliverable(one) for one in turns])
    await engine.save("SELECT pg_stat_force_next_flush()")
    (row,) = await engine.fetch("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'heads'")
    first_claims = len(heads)  # the first worker of an agent is noted, with all that follows
    assert row[0] == 20 * 30 * 2
    assert row[0] - row[1] <= first_claims


async def test_text_postgres_cannot_hold_is_refused_and_found_nowhere(engine: PostgresEngine) -> None:
    store = PostgresTurns(engine)
    await a.register(store, a.idle())
    with pytest.raises(MalformedPayload):
        await store.save(Writes(turns=a.by_id([replace(a.turn(), payload=Json("\0"))])))
    assert await store.head(a.PROJECT, AgentId("\0")) is None


async def test_a_connection_that_was_left_in_a_transaction_is_not_used_again(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url, connections_max=1)
    await engine.open()
    await engine.fetch("BEGIN")

    async def work(transaction: Transaction) -> object:
        return (await transaction.fetch("SELECT 7"))[0][0]

    assert await engine.transact(work) == 7
    await engine.close()


async def test_operators_have_connections_that_nobody_else_takes(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url, connections_max=1)
    await engine.open()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold(_: Transaction) -> None:
        entered.set()
        await leave.wait()

    async def one(transaction: Transaction) -> int:
        return (await transaction.fetch("SELECT 1"))[0][0]

    loop = asyncio.get_running_loop()
    try:
        held = asyncio.ensure_future(engine.transact(hold))
        await entered.wait()
        behind = asyncio.ensure_future(engine.fetch("SELECT 2"))
        async with asyncio.timeout(30):
            for work in (engine.fetch("SELECT 1"), engine.save("SELECT 1"), engine.transact(one)):
                await loop.create_task(work, context=urgent_context())
        assert not behind.done()
        leave.set()
        await held
        assert [tuple(row) for row in await behind] == [(2,)]
    finally:
        await engine.close()
