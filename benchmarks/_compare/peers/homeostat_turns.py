"""Durable turns by Homeostat, with all it keeps of a turn, in the loop that its peers are driven by."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import uvloop
from _loop import arguments, closed_loop

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks._turns import agents, bench, message
from homeostat.app.stores import open_engine, turn_store
from homeostat.core import collector


async def main() -> None:
    url, clients, turns, kind = arguments()
    collector.settle()
    engine = await open_engine(url)
    keys = agents(clients)
    async with bench(turn_store(engine)) as subject:
        await subject.register(keys)
        worker = await subject.kernel.open_worker(keys, lambda _: None)
        await subject.answer_tools()
        working = asyncio.create_task(subject.no_op_worker(worker, calls_tool=kind == "tool"))

        async def turn(client: int, count: int) -> object:
            _, deliverable = await subject.kernel.ask(message(keys[client]), 60)
            assert deliverable is not None
            return deliverable

        await closed_loop(turn, clients, turns)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    await engine.close()


uvloop.run(main())
