"""An agent that is killed over a turn: the fleet sees that it is dead, and that its turn is back in line."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from homeostat.client.client import Client
from homeostat.testing.homeostat import HomeostatServer

AGENT = """
import asyncio

async def stuck(turn):
    await asyncio.sleep(3600)
"""


async def until(client: Client, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The agent as the fleet shows it, once it is as expected."""
    async with asyncio.timeout(30):
        while True:
            if fits(row := await client.read_json("/v1/agents/ann")):
                return row


@contextmanager
def hosting(url: str, folder: Path) -> Generator[subprocess.Popen[str]]:
    """A worker process that hosts the agent."""
    (folder / "agents.py").write_text(AGENT)
    command = [sys.executable, "-m", "homeostat", "worker", "agents:stuck", "--agent-id", "ann"]
    environment = os.environ | {"HOMEOSTAT_URL": url, "XDG_DATA_HOME": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert any("hosts ann" in line for line in worker.stdout)
            yield worker
        finally:
            worker.kill()


async def test_a_dead_agent_and_its_turn_are_two_facts(tmp_path: Path) -> None:
    with HomeostatServer("--lease-seconds", "1") as server:
        httpx2.put(f"{server.url}/v1/agents/config/default", json={"push_interval_seconds": 0.2}).raise_for_status()
        with hosting(server.url, tmp_path) as worker:
            async with Client(server.url) as client:
                accepted = await client.enqueue("ann", "hello")
                working = await until(client, lambda row: row["head"] and row["head"]["status"] == "running")
                assert working["presence"] == "alive"
                worker.kill()
                dead = await until(client, lambda row: row["presence"] == "dead")
                assert dead["status"] == "dead"
                back = await until(client, lambda row: row["head"]["status"] == "dispatched")
                assert back["presence"] == "dead", "reading changes nothing, and nobody beat for it"
                assert back["head"]["turn_id"] == accepted.turn_id
                assert back["head"]["epoch"] == working["head"]["epoch"] + 1
