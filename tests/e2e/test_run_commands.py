"""What operators type about runs, with a server and a worker that work for them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from homeostat import SyncClient
from homeostat.core.errors import HomeostatError
from homeostat.testing.homeostat import HomeostatServer

AGENT = """
async def echo(turn):
    return turn.input
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    (found / "parrots.py").write_text(AGENT)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HomeostatServer]:
    with HomeostatServer("--ephemeral") as server, SyncClient(server.url) as client:
        environment = {**os.environ, "HOMEOSTAT_URL": server.url, "XDG_DATA_HOME": str(folder / "share")}
        command = [sys.executable, "-m", "homeostat", "worker", "parrots:echo"]
        with subprocess.Popen(command, cwd=folder, env=environment) as worker:
            try:
                wait_for(client, "echo")
                yield server
            finally:
                worker.terminate()


def wait_for(client: SyncClient, agent_id: str) -> None:
    until = time.monotonic() + 30
    while True:
        with suppress(HomeostatError):
            client.head(agent_id)
            return
        assert time.monotonic() < until, "the worker did not come"
        time.sleep(0.05)


class Operator:
    """Somebody who types commands in a folder of their own."""

    def __init__(self, server: HomeostatServer, folder: Path) -> None:
        self.url, self.folder = server.url, folder

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "homeostat", *arguments]
        env = {**os.environ, "HOMEOSTAT_URL": self.url, **environment}
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=100, env=env, cwd=self.folder
        )
        assert told.returncode == code, f"{arguments}\n{told.stdout}\n{told.stderr}"
        return told


@pytest.fixture
def homeostat(server: HomeostatServer, folder: Path) -> Operator:
    return Operator(server, folder)


def test_a_red_button_is_lifted_where_it_was_pressed(homeostat: Operator) -> None:
    try:
        homeostat("red-button", "--in", "default", "--yes", "--reason", "smoke")
        homeostat("red-button", "--yes", "--reason", "fire")
        assert "--in PROJECT" in homeostat("run", "x", "--agent", "echo", code=1).stderr
        unknown = homeostat("red-button", "--in", "teamA", "--lift", code=1).stderr
        assert "of project 'teamA' is not pressed; pressed: the whole system, project 'default'" in unknown
        held = homeostat("red-button", "--in", "default", "--lift", "--reason", "the smoke is gone").stdout
        assert "no run may begin yet: still pressed for the whole system" in held
        homeostat("run", "x", "--agent", "echo", code=1)
        assert homeostat("red-button", "--lift").stdout == "Runs of the whole system may begin again\n"
        assert "completed" in homeostat("run", "x", "--agent", "echo").stdout
        assert "the smoke is gone" in homeostat("get", "audit", "-o", "json").stdout
        assert "names no project" in homeostat("red-button", "--in", "", "--yes", "--reason", "x", code=2).stderr
    finally:
        for button in (["--in", "default"], []):
            subprocess.run(
                [sys.executable, "-m", "homeostat", "red-button", *button, "--lift", "--url", homeostat.url],
                capture_output=True,
                check=False,
            )
