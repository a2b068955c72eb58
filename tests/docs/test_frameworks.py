"""Other frameworks run offline on the simulated model: by the base URL alone, and hosted in a durable turn."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from homeostat import SyncClient
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.models import ModelServer

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = {"langgraph_graph": "langgraph", "openai_agents_sdk": "agents", "pydantic_ai_agent": "pydantic_ai"}
QUESTION = "How is the weather in Oslo?"


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> str:
    if importlib.util.find_spec(EXAMPLES[request.param]) is None:
        pytest.skip(f"{EXAMPLES[request.param]} is an optional extra that is not installed")
    return request.param


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with ModelServer() as models, HomeostatServer("--upstreams", f"openai={models.url}", command="up") as server:
        yield server


def environment(server: HomeostatServer, home: Path) -> dict[str, str]:
    return {**os.environ, "HOMEOSTAT_URL": server.url, "XDG_DATA_HOME": str(home)}


def calls(server: HomeostatServer, agent_id: str) -> list[dict[str, object]]:
    answer = httpx2.get(f"{server.url}/v1/calls", params={"agent_id": agent_id, "outcome": "answered"})
    return answer.json()["calls"]


def test_by_the_base_url_alone(server: HomeostatServer, example: str, tmp_path: Path) -> None:
    agent_id = example.replace("_", "-")
    command = [sys.executable, "-m", f"examples.frameworks.{example}", QUESTION]
    done = subprocess.run(
        [sys.executable, "-m", "homeostat", "exec", "--agent-id", agent_id, "--", *command],
        env=environment(server, tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    made = calls(server, agent_id)
    assert len(made) >= 2, "it thought, called its tool, and thought again"
    assert all(call["tools_offered"] == ["weather"] for call in made)


def test_in_a_durable_turn(server: HomeostatServer, example: str, tmp_path: Path) -> None:
    agent_id = f"hosted-{example.replace('_', '-')}"
    worker = subprocess.Popen(
        [sys.executable, "-m", "homeostat", "worker", f"examples.frameworks.{example}:answer", "--agent-id", agent_id],
        env=environment(server, tmp_path),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        assert agent_id in said, said + worker.stdout.read()
        with SyncClient(server.url) as client:
            delivered = client.ask(agent_id, {"question": QUESTION}, wait=60)
        assert delivered.value["answer"], delivered
        assert len(calls(server, agent_id)) >= 2
    finally:
        worker.kill()
        worker.communicate()
