"""A server is killed under a worker that is in the middle of a step, and stays away for longer than the lease."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from homeostat import Client, Turn, Worker
from homeostat.agent.functions import FunctionAgent
from homeostat.client.turns import HttpTurns
from homeostat.testing.homeostat import HomeostatServer

LEASE_SECONDS = 0.5


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer("--lease-seconds", str(LEASE_SECONDS)) as server:
        yield server


async def test_what_was_done_while_the_server_was_away_is_not_done_again(server: HomeostatServer) -> None:
    effects: list[str] = []
    kneading, may_end = asyncio.Event(), asyncio.Event()

    async def knead() -> str:
        kneading.set()
        await may_end.wait()
        effects.append("kneaded")
        return "dough"

    async def bake() -> str:
        effects.append("baked")
        return "bread"

    async def baker(turn: Turn) -> Any:
        return [await turn.step("knead", knead), await turn.step("bake", bake)]

    async with Client(server.url) as client:
        worker = Worker(source=HttpTurns(client))
        worker.host("baker", lambda: FunctionAgent(baker))
        await worker.open()
        running = asyncio.create_task(worker.run())
        accepted = await client.enqueue("baker", None)
        await kneading.wait()
        await asyncio.to_thread(server.kill)
        may_end.set()
        await worker.idle()  # without a server for a whole lease, it lets go of everything
        assert worker.counts.lost == 1
        await asyncio.to_thread(server.start)
        ended = await client.deliverable(accepted.turn_id, wait=60)
        assert ended.value == ["dough", "bread"]
        assert effects == ["kneaded", "baked"]
        worker.stop()
        await running
