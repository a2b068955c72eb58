"""`homeostat get agents`, `describe agent` and `top` against a running server, in a pipe and in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from homeostat.testing.homeostat import HomeostatServer

HEAVY = ("asyncpg", "fastapi", "nats", "numpy", "redis", "sqlite3", "starlette", "uvicorn", "rich")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HEARTBEAT: dict[str, Any] = {
    "agent_type": "inference",
    "tags": ["gpu"],
    "timestamp": "2026-01-28T12:00:00Z",
    "started_at": "2026-01-28T11:00:00Z",
    "uptime_seconds": 3600.0,
    "status": "running",
    "last_action": "Processed observation obs-456",
    "last_action_at": "2026-01-28T11:59:55Z",
    "items_processed": 142,
    "queue_depth": 3,
    "processing_time_avg_ms": 250.5,
    "error_count": 2,
    "memory_mb": 156.3,
    "push_interval_seconds": 5.0,
}


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        with httpx2.Client(base_url=server.url, trust_env=False) as http:
            for agent_id, agent_type, tags in (
                ("inf-1", "inference", ["gpu", "primary"]),
                ("inf-2", "inference", ["gpu"]),
                ("val-1", "validator", ["team=billing"]),
            ):
                body = {"agent_type": agent_type, "tags": tags, "agent_id": agent_id}
                key = http.post("/v1/agents/register", json=body).json()["api_key"]
                if agent_id != "inf-2":
                    beat = HEARTBEAT | {"agent_id": agent_id}
                    http.post("/v1/agents/status", json=beat, headers={"authorization": f"Bearer {key}"})
        yield server


def environment(server: HomeostatServer, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "HOMEOSTAT_URL": server.url, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more}


def run(server: HomeostatServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "homeostat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(server), timeout=60)


def test_a_list_for_people_and_for_programs(server: HomeostatServer) -> None:
    shown = run(server, "get", "agents")
    assert (shown.returncode, shown.stderr) == (0, "")
    heading, *lines = shown.stdout.splitlines()
    assert heading.split() == ["ID", "TYPE", "STATUS", "PHASE", "TAGS", "QUEUE", "DONE", "ERRORS", "TODAY", "SEEN"]
    assert lines[0].split()[:8] == ["inf-1", "inference", "●", "idle", "initializing", "gpu,primary", "0", "142"]
    assert "registered" in lines[1]
    assert "\x1b" not in shown.stdout
    assert "obs-456" in run(server, "get", "agents", "-o", "wide").stdout
    assert run(server, "get", "agents", "-o", "name").stdout.split() == ["agent/inf-1", "agent/inf-2", "agent/val-1"]
    body = httpx2.get(f"{server.url}/v1/agents", trust_env=False).json()
    assert json.loads(run(server, "get", "agents", "-o", "json").stdout) == body
    assert "- agent_id: inf-1" in run(server, "get", "agents", "-o", "yaml").stdout


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["-l", "gpu"], ["inf-1", "inf-2"]),
        (["-l", "gpu,!primary"], ["inf-2"]),
        (["-l", "gpu", "-l", "primary"], ["inf-1"]),
        (["-l", "team=billing"], ["val-1"]),
        (["--type", "inference", "--status", "running"], ["inf-1"]),
        (["val-1"], ["val-1"]),
        (["-l", "nothing"], []),
    ],
    ids=str,
)
def test_some_of_them(server: HomeostatServer, arguments: list[str], ids: list[str]) -> None:
    shown = run(server, "get", "agents", "-o", "name", *arguments)
    assert (shown.returncode, shown.stdout.split()) == (0, [f"agent/{agent_id}" for agent_id in ids])


def test_nobody_is_said_so(server: HomeostatServer) -> None:
    shown = run(server, "get", "agents", "-l", "nothing")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "No agents found.\n")
    assert run(server, "get", "agents", "-l", "nothing", "-o", "json").stdout == "[]\n"


def test_one_agent_in_full(server: HomeostatServer) -> None:
    shown = run(server, "describe", "agent", "inf-1")
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in (
        "Presence    alive",
        "Health      initializing",
        "Turn        idle",
        "Says        running: Processed",
    ):
        assert words in shown.stdout
    body = httpx2.get(f"{server.url}/v1/agents/inf-1", trust_env=False).json()
    assert json.loads(run(server, "describe", "agent", "inf-1", "-o", "json").stdout) == body
    unknown = run(server, "describe", "agent", "nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no agent 'nobody'" in unknown.stderr


def test_there_is_no_server(server: HomeostatServer) -> None:
    for arguments in (["get", "agents"], ["get", "agents", "-w"], ["describe", "agent", "a"], ["top"]):
        failed = run(server, *arguments, "--url", "http://127.0.0.1:1")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert "Is it running?" in failed.stderr


def test_a_selector_that_names_nothing_is_refused(server: HomeostatServer) -> None:
    assert run(server, "get", "agents", "-l", "gpu,").returncode == 2
    assert run(server, "get", "agents", "-w", "-o", "yaml").returncode == 2


@pytest.mark.parametrize("arguments", [["get", "agents"], ["describe", "agent", "inf-1"], ["top", "--once"]], ids=str)
def test_the_commands_load_no_server(server: HomeostatServer, arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "homeostat", *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(server), timeout=60)
    imported = {
        line.rsplit("|", 1)[-1].strip() for line in shown.stderr.splitlines() if line.startswith("import time:")
    }
    assert "homeostat.http.pool" in imported
    assert [name for name in HEAVY if name in imported] == []


def test_top_without_a_terminal_shows_the_fleet_once(server: HomeostatServer) -> None:
    shown = run(server, "top")
    assert shown.returncode == 0
    assert shown.stdout.startswith("3 agents: 2 idle, 1 registered\n")


# --- in a terminal ---------------------------------------------------------------------------------------------


class Tty:
    """A command in a terminal of its own, and what it has written there."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master
        self.text = ""

    def until(self, words: str, seconds: float = 30.0) -> str:
        """Read on until these words have come; returns everything since the last time."""
        deadline = time.monotonic() + seconds
        while words not in CONTROL.sub("", self.text):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{words!r} did not come:\n{self.text[-2000:]}"
            try:
                self.text += os.read(self.master, 65_536).decode(errors="replace")
            except OSError:
                self.text += "\x1b[closed"
                assert words in CONTROL.sub("", self.text), self.text[-2000:]
        seen, self.text = self.text, ""
        return seen

    def rest(self) -> str:
        """Everything up to the end of the command."""
        while True:
            try:
                read = os.read(self.master, 65_536)
            except OSError:
                break
            if not read:
                break
            self.text += read.decode(errors="replace")
        return self.text

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)


@contextmanager
def in_terminal(server: HomeostatServer, *arguments: str, **variables: str) -> Generator[Tty]:
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "homeostat", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(server, **variables),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Tty(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("how", ["q", "interrupt", "terminate"])
def test_top_follows_the_fleet_and_leaves_the_terminal_as_it_was(server: HomeostatServer, how: str) -> None:
    with in_terminal(server, "top", "--every", "0.1") as terminal:
        before = termios.tcgetattr(terminal.master)
        screen = terminal.until("3 agents: 2 idle, 1 registered")
        assert "running" not in screen, "what an agent says of itself is nowhere shown for its turn"
        assert "\x1b[?1049h" in screen
        terminal.until("inf-2")
        agent_id = f"late-{how}"
        body = {"agent_type": "cli", "agent_id": agent_id}
        httpx2.post(f"{server.url}/v1/agents/register", json=body, trust_env=False)
        terminal.until(agent_id)
        httpx2.post(f"{server.url}/v1/agents/{agent_id}/deregister", trust_env=False)
        terminal.until("3 agents")
        terminal.press(b"s")
        terminal.until("by id")
        terminal.resize(10, 50)
        frames = re.split(r"\x1b\[H", terminal.until("by id", 10) + terminal.until("by id", 10))
        lines = [CONTROL.sub("", line) for line in frames[-2].split("\r\n")]
        assert len(lines) == 10
        assert max(map(len, lines)) <= 50
        if how == "q":
            terminal.press(b"q")
        else:
            terminal.process.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGTERM)
        assert terminal.process.wait(20) == 0
        assert terminal.rest().endswith("\x1b[?25h\x1b[?1049l")
        assert termios.tcgetattr(terminal.master)[3] == before[3]


def test_a_wide_table_names_what_the_terminal_has_no_room_for(server: HomeostatServer) -> None:
    for arguments, told in ((("-o", "wide"), True), ((), False)):
        with in_terminal(server, "get", "agents", *arguments) as terminal:
            terminal.process.wait(30)
            assert ("There is no room for" in terminal.rest()) is told
    assert "There is no room for" not in run(server, "get", "agents", "-o", "wide").stderr


def test_no_color_is_heeded(server: HomeostatServer) -> None:
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with in_terminal(server, "get", "agents", **variables) as terminal:
            terminal.process.wait(30)
            assert ("\x1b[1m" in terminal.rest()) is coloured


def test_top_and_a_watch_live_through_a_restart() -> None:
    with HomeostatServer() as server:
        registered = {"agent_type": "cli", "agent_id": "ann"}
        httpx2.post(f"{server.url}/v1/agents/register", json=registered, trust_env=False)
        with (
            in_terminal(server, "top", "--every", "0.1") as top,
            in_terminal(server, "get", "agents", "-w") as watch,
        ):
            top.until("1 agent: 1 registered")
            watch.until("ann")
            server.kill()
            top.until("not connected")
            watch.until("the connection is gone")
            server.start()
            top.until("1 agent: 1 registered")
            watch.until("connected again")
            httpx2.post(f"{server.url}/v1/agents/ann/deregister", trust_env=False)
            top.until("no agents")
            watch.until("gone")
            watch.process.send_signal(signal.SIGINT)
            assert watch.process.wait(20) == 130
            top.press(b"q")
            assert top.process.wait(20) == 0
