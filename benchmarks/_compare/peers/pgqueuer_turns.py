"""Durable jobs by PgQueuer: enqueued, and picked up by a worker in the same process."""

import asyncio
import json
import logging
import os

import asyncpg
from _loop import PAYLOAD, arguments, closed_loop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries


async def main() -> None:
    url, clients, turns, _ = arguments()
    waiting: dict[str, asyncio.Future[None]] = {}
    async with asyncpg.create_pool(url, min_size=4, max_size=20) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        queue = PgQueuer(driver)

        @queue.entrypoint("turn")
        async def work(job) -> None:
            waiting.pop(json.loads(job.payload)["name"]).set_result(None)

        asyncio.create_task(queue.run(batch_size=min(clients, 10)))

        async def turn(client: int, count: int) -> object:
            name = f"{client}-{count}"
            waiting[name] = asyncio.get_running_loop().create_future()
            done = waiting[name]
            await queries.enqueue("turn", json.dumps({"name": name, **PAYLOAD}).encode())
            return await done

        await closed_loop(turn, clients, turns)
        os._exit(0)


logging.disable(logging.CRITICAL)
asyncio.run(main())
