"""Durable jobs by Procrastinate: deferred, and picked up by a worker in the same process."""

import asyncio
import logging
import os

from _loop import PAYLOAD, arguments, closed_loop
from procrastinate import App, PsycopgConnector


async def main() -> None:
    url, clients, turns, _ = arguments()
    app = App(connector=PsycopgConnector(conninfo=url, max_size=20))
    waiting: dict[str, asyncio.Future[None]] = {}

    @app.task(name="turn")
    async def work(name: str, payload: dict) -> None:
        waiting.pop(name).set_result(None)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        asyncio.create_task(app.run_worker_async(concurrency=clients, wait=True, install_signal_handlers=False))

        async def turn(client: int, count: int) -> object:
            name = f"{client}-{count}"
            waiting[name] = asyncio.get_running_loop().create_future()
            done = waiting[name]
            await work.defer_async(name=name, payload=PAYLOAD)
            return await done

        await closed_loop(turn, clients, turns)
        os._exit(0)


logging.disable(logging.CRITICAL)
asyncio.run(main())
