"""A worker that begins the tasks of runs, says so on disk, and is killed before it ends any."""

import asyncio
import os
from typing import Any

from homeostat import Client, Turn, Worker
from homeostat.agent.functions import FunctionAgent
from homeostat.client.turns import HttpTurns

AGENTS = ("ann", "bob", "kim", "pat", "zoe")


def name_of(turn: Turn) -> str:
    return "plan" if turn.input.get("asks") == "plan" else turn.input["do"]


async def live(url: str, diary: str) -> None:
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def work(turn: Turn) -> Any:
        name = name_of(turn)

        async def effect() -> str:
            os.write(file, f"effect {name}\n".encode())
            return name

        await turn.step("effect", effect)
        os.write(file, f"stored {name}\n".encode())
        await asyncio.Event().wait()  # until the end

    async with Client(url) as client:
        worker = Worker(source=HttpTurns(client))
        for agent in AGENTS:
            worker.host(agent, lambda: FunctionAgent(work))
        await worker.open()
        await worker.run()


def main(url: str, diary: str) -> None:
    asyncio.run(live(url, diary))
