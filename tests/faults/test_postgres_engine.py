"""Whatever a killed PostgreSQL does to a connection, callers are told that the store is away, and it comes back."""

import asyncio

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import STORE_SECONDS_MAX
from homeostat.testing.chaos.proxy import link_to
from homeostat.testing.servers import PostgresServer

ROUNDS = 2


async def test_a_killed_server_is_an_outage_and_nothing_else() -> None:
    with PostgresServer() as server:
        engine = PostgresEngine(server.url)
        await engine.open()
        problems: list[Exception] = []
        answers = 0
        stopping = asyncio.Event()

        async def ask(number: int) -> None:
            nonlocal answers
            call = engine.save if number % 4 == 0 else engine.fetch
            while not stopping.is_set():
                try:
                    assert (await call("SELECT $1::int", number))[0][0] == number
                    answers += 1
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
                except Exception as problem:  # noqa: BLE001 — whatever it is, it should not have come through
                    problems.append(problem)
                    await asyncio.sleep(0.01)

        asking = [asyncio.create_task(ask(number)) for number in range(12)]
        try:
            for _ in range(ROUNDS):
                before = answers
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(20):
                    while answers < before + 200:  # noqa: ASYNC110 — asked by twelve others, not by this one
                        await asyncio.sleep(0.01)
        finally:
            stopping.set()
            await asyncio.gather(*asking)
            await engine.close()
        assert problems == []


async def test_a_server_that_takes_connections_and_says_nothing_is_not_waited_for_as_a_statement_is(
    postgres_url: str,
) -> None:
    async with link_to(postgres_url) as link:
        engine = PostgresEngine(link.url)
        await engine.open()
        try:
            link.swallow()
            link.reset()
            with pytest.raises(StoreUnavailable):
                await engine.fetch("SELECT 1")  # on the connection that was there; the next one asks for another
            async with asyncio.timeout(STORE_SECONDS_MAX / 2):
                with pytest.raises(StoreUnavailable):
                    await engine.fetch("SELECT 1")
            link.let_through()
            assert (await engine.fetch("SELECT 1"))[0][0] == 1
        finally:
            await engine.close()
