"""Whatever a killed PostgreSQL does to a connection, callers are told that the store is away, and it comes back."""

import asyncio

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.core.errors import StoreUnavailable
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
