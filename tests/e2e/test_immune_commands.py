"""What an operator does about an agent's health, by command."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
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


def test_what_is_normal_is_shown_and_learned_anew(server: HomeostatServer) -> None:
    def homeostat(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "homeostat", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
    at = ("--url", server.url)
    assert "nothing is known of it yet" in homeostat("baseline", "show", "echo-1", *at).stdout
    with httpx2.Client(base_url=server.url, trust_env=False) as http:
        body = {"agent_id": "echo-1", "samples": [{"latency_ms": 900 + number} for number in range(70)]}
        told = http.post("/v1/vitals", json=body).json()
        assert told == {"accepted": 64, "refused": {"flood": 6}}, "what is not looked at is not called accepted"
        until = time.monotonic() + 60
        while not (streams := http.get("/v1/agents/echo-1/baseline").json()["streams"]) or streams[0]["samples"] < 64:
            assert time.monotonic() < until
    assert "64 samples" in homeostat("baseline", "show", "echo-1", *at).stdout
    accelerated = homeostat("baseline", "accelerate", "echo-1", "--reason", "a release", *at)
    assert "fast" in accelerated.stdout, accelerated.stderr
    reset = homeostat("baseline", "reset", "echo-1", "--reason", "another job", *at)
    assert "initializing" in reset.stdout, reset.stderr
    assert "64 samples" not in homeostat("baseline", "show", "echo-1", *at).stdout
    alone = homeostat("immune")
    assert alone.returncode == 2
    assert "--store-url" in alone.stderr


def test_a_remedy_is_vetoed_and_the_memory_is_carried_over(server: HomeostatServer, tmp_path: Path) -> None:
    def homeostat(*arguments: str, said: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "homeostat", "memory", *arguments, "--url", server.url]
        return subprocess.run(command, input=said, capture_output=True, text=True, check=False, timeout=60)

    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
    assert homeostat("veto", "unknown", "reset_agent").returncode == 2, "whoever stops something says why"
    held = homeostat("veto", "unknown", "reset-agent", "--agent", "agent/echo-1", "--reason", "never", "-o", "json")
    assert json.loads(held.stdout)["veto"]["agent_id"] == "echo-1", held.stderr
    server.restart()
    assert "for echo-1: never" in homeostat("show").stdout
    assert json.loads(homeostat("show", "-o", "json").stdout)["vetoes"][0]["reason"] == "never"
    exported = homeostat("export").stdout
    assert homeostat("lift", "unknown", "reset_agent").returncode == 1, "there is none for everybody"
    assert "again, for echo-1" in homeostat("lift", "unknown", "reset_agent", "--agent", "echo-1").stdout
    assert homeostat("import", "-", said=exported).returncode == 2
    assert "would bring: lessons 0, feedback 0, vetoes 1" in homeostat("import", "-", "--dry-run", said=exported).stdout
    assert json.loads(homeostat("show", "-o", "json").stdout)["vetoes"] == []
    taken = homeostat("import", "-", "--reason", "again", "-o", "json", said=exported)
    assert json.loads(taken.stdout)["vetoes"] == 1
    (tmp_path / "not.json").write_text("lessons: none")
    for wrong in ("not.json", "missing.json"):
        refused = homeostat("import", str(tmp_path / wrong), "--dry-run")
        assert (refused.returncode, wrong in refused.stderr) == (2, True)
    absurd = homeostat("import", "-", "--reason", "x", said=exported.replace("reset_agent", "pray"))
    assert (absurd.returncode, "pray" in absurd.stderr) == (1, True), absurd.stderr
