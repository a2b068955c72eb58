"""What an operator does about an agent's health, by command."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from homeostat import SyncClient
from homeostat.testing.homeostat import HomeostatServer


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


def test_an_agent_is_isolated_explained_and_released(server: HomeostatServer) -> None:
    def homeostat(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "homeostat", *arguments, "--url", server.url]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
    held = homeostat("quarantine", "echo-1", "--reason", "it mails customers", "--actor", "ann")
    assert held.returncode == 0, held.stderr
    assert "quarantined" in held.stdout or "draining" in held.stdout
    server.restart()
    told = homeostat("why", "agent", "echo-1")
    assert "it mails customers" in told.stdout
    assert "ann" in told.stdout
    assert "by hand" not in told.stdout
    assert "echo-1" in homeostat("get", "incidents").stdout
    assert homeostat("get", "approvals").returncode == 0
    assert homeostat("approve", "nothing").returncode != 0
    freed = homeostat("release", "echo-1", "--reason", "it was a drill", "--actor", "ann")
    assert "probation" in freed.stdout
    assert homeostat("release", "echo-1").returncode != 0, "it is out already"
