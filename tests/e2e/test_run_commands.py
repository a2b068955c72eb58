"""What operators type about runs, with a server and a worker that work for them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from homeostat import SyncClient
from homeostat.cli.application import application
from homeostat.core.errors import HomeostatError
from homeostat.testing.homeostat import HomeostatServer

AGENT = """
async def echo(turn):
    if turn.input.get("goal") == "fail":
        raise ValueError("as you wish")
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
    """Somebody who types commands, and keeps files in a folder."""

    def __init__(self, server: HomeostatServer, folder: Path) -> None:
        self.url, self.folder = server.url, folder

    def __call__(self, *arguments: str, code: int | None = 0) -> Result:
        told = CliRunner(env={"HOMEOSTAT_URL": self.url}).invoke(application, arguments)
        assert code in (None, told.exit_code), f"{arguments}\n{told.output}\n{told.exception}"
        return told

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)


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
            homeostat("red-button", *button, "--lift", code=None)


def test_the_exit_code_says_how_a_run_stands(homeostat: Operator) -> None:
    """A run that is held is not done: a script that goes on after 0 must not go on after it."""
    gated = homeostat.file("gate.json", '[{"name": "a", "agent": "echo", "input": {}, "approval": true}]')
    done = json.loads(homeostat("run", "x", "--agent", "echo", "-o", "json").stdout)
    assert done["status"] == "completed"
    gate = json.loads(homeostat("run", "x", "--tasks", gated, "-o", "json", code=3).stdout)
    assert (gate["status"], gate["paused_by"]) == ("paused", "gate")
    spent = homeostat("run", "x", "--agent", "echo", "--budget", "time=0", code=3).stdout
    assert "homeostat resume" in spent
    assert "failed" in homeostat("run", "fail", "--agent", "echo", code=1).stdout
    assert "homeostat apply" in homeostat("run", "x", "--agent", "echo", "--wait-for-apply").stdout
    homeostat("run", "x", "--tasks", gated, "--detach")
    for told in (homeostat("--help").stdout, homeostat("run", "--help").stdout):
        assert "3" in told
        assert "held" in told
