"""An operator clears an agent's context: whichever worker hosts it, its next turn begins with nothing."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.agent.managed import ManagedAgent
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.turn import Turn
from homeostat.agent.worker import Worker
from homeostat.client.client import Client
from homeostat.client.keys import KeyRing
from homeostat.client.tools import HttpMemory
from homeostat.client.turns import HttpTurns
from homeostat.core.codec import from_json
from homeostat.testing.homeostat import HomeostatServer


class Diary(ManagedAgent):
    """Remembers what it is told, in its memory and in itself."""

    memory_keys = frozenset({"told"})
    gate: asyncio.Event | None = None
    reached: asyncio.Event | None = None

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    async def process(self, turn: Turn, /) -> dict[str, Any]:
        told: list[str] = await self.memory.load("told", [])
        before = {"told": list(told), "heard": list(self.heard)}
        self.heard.append(turn.input)
        self.memory.update("told", [*told, turn.input])
        if turn.input == "wait" and Diary.gate is not None and Diary.reached is not None:
            Diary.reached.set()
            await Diary.gate.wait()
        return before


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client, None]:
    folder: Path = tmp_path_factory.mktemp("clear_context")
    with HomeostatServer(command="up", data_dir=folder) as server:
        async with Client(server.url) as client:
            yield client


async def tell(client: Client, agent: str, what: str) -> dict[str, Any]:
    return from_json((await client.ask(agent, what, wait=30)).result)


async def clear(client: Client, agent: str) -> None:
    async with httpx2.AsyncClient(base_url=client.url) as http:
        body = {"action": "clear_context", "agent_id": agent, "reason": "it drifts"}
        answer = await http.put(f"/v1/policies/clear-{agent}", json=body)
        assert answer.status_code in (200, 201), answer.text


class Hosted:
    """A worker that hosts one diary."""

    def __init__(self, client: Client, agent: str) -> None:
        orchestrator = Orchestrator(memory=HttpMemory(client))
        self._worker = Worker(source=HttpTurns(client, KeyRing(None, url=client.url)), orchestrator=orchestrator)
        self._worker.host(agent, Diary)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        await self._worker.open()
        self._running = asyncio.create_task(self._worker.run())

    async def __aexit__(self, *_: object) -> None:
        self._worker.stop()
        assert self._running is not None
        await self._running


async def test_the_next_turn_begins_with_nothing(client: Client) -> None:
    async with Hosted(client, "ann"):
        assert await tell(client, "ann", "a") == {"told": [], "heard": []}
        assert await tell(client, "ann", "b") == {"told": ["a"], "heard": ["a"]}
        await clear(client, "ann")
        assert await tell(client, "ann", "c") == {"told": [], "heard": []}
        assert await tell(client, "ann", "d") == {"told": ["c"], "heard": ["c"]}


async def test_a_worker_that_was_down_finds_the_word(client: Client) -> None:
    async with Hosted(client, "bob"):
        await tell(client, "bob", "a")
    await clear(client, "bob")
    async with Hosted(client, "bob"):
        assert await tell(client, "bob", "b") == {"told": [], "heard": []}
        assert await tell(client, "bob", "c") == {"told": ["b"], "heard": ["b"]}


async def test_what_a_turn_under_way_remembers_at_its_end_is_forgotten_too(client: Client) -> None:
    Diary.gate, Diary.reached = asyncio.Event(), asyncio.Event()
    async with Hosted(client, "cid"):
        await tell(client, "cid", "a")
        waiting = asyncio.create_task(tell(client, "cid", "wait"))
        await Diary.reached.wait()
        await clear(client, "cid")
        Diary.gate.set()
        assert await waiting == {"told": ["a"], "heard": ["a"]}
        assert await tell(client, "cid", "b") == {"told": [], "heard": []}
