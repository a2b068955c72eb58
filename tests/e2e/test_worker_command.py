"""`homeostat worker` against a running server and against a store, and what it says when it cannot."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.client.client import Client
from homeostat.core.codec import from_json

ROOT = Path(__file__).parent.parent.parent

AGENTS = """
import asyncio
from homeostat import CallFailed, ManagedAgent, Profile, ReActAgent, Turn

class Echo(ManagedAgent):
    async def process(self, turn, /):
        count = await self.memory.load("history", 0)
        self.memory.update("history", count + 1)
        return {"said": turn.input, "before": count}

async def slow(turn):
    print("is at work", flush=True)
    await asyncio.sleep(3600)

def no_turn():
    pass

async def gives_object(turn):
    return object()

async def gives_little(turn):
    return {"title": "…"}

async def fails(turn):
    raise ValueError("no luck")

async def shouts(turn):
    return await turn.call("upper", word=turn.input)

async def patient(turn):
    try:
        return await turn.request("deadly", timeout_seconds=1)
    except CallFailed as problem:
        return {"status": problem.status}

class NoAgent:
    async def startup(self): ...

class NeedsArguments(ManagedAgent):
    def __init__(self, address):
        pass

class Strange(ReActAgent):
    profile = Profile(model="gpt-4.1", tools=("telepathy",))

class Bare(ReActAgent):
    pass

instance = Echo()
number = 7
"""


TOOLS = """
import asyncio, os, signal
from homeostat import Client, ToolService
from homeostat.client.tools import HttpToolDesk

def deadly() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Client() as client:
        await ToolService(HttpToolDesk(client), [deadly]).run()

asyncio.run(main())
"""


class Running:
    """A command in the background, and the lines it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(f"it ended without saying {words!r}: {self.lines} {self.process.wait()}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        self.lines += rest.splitlines()
        return self.process.returncode


@contextmanager
def homeostat(*arguments: str, cwd: Path, **environment: str) -> Generator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "homeostat", *arguments],
        cwd=cwd,
        env=os.environ | {"XDG_DATA_HOME": str(cwd), "PYTHONPATH": str(ROOT / "src")} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()


@contextmanager
def tools(server: str, name: str, *command: str, cwd: Path) -> Generator[subprocess.Popen[bytes]]:
    """A tool service that has made its tool known."""
    environment = os.environ | {"HOMEOSTAT_URL": server}
    with subprocess.Popen([sys.executable, *command], cwd=cwd, env=environment) as service:
        try:
            while name not in {tool["name"] for tool in httpx2.get(f"{server}/v1/tools").json()["items"]}:
                assert service.poll() is None
            yield service
        finally:
            service.kill()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


@pytest.fixture
def server(here: Path) -> Generator[str]:
    with homeostat("up", "--ephemeral", "--port", "0", cwd=here) as running:
        yield running.until("is up at").split()[-1]


async def ask(url: str, agent_id: str, payload: Any) -> Any:
    async with Client(url) as client:
        ended = await client.ask(agent_id, payload, wait=60)
        assert ended.error is None, ended.error
        return from_json(ended.result)


async def test_a_worker_serves_turns_and_leaves_when_told_to(here: Path, server: str) -> None:
    with homeostat("worker", "agents:Echo", "--agent-id", "a", "--agent-id", "b", "--url", server, cwd=here) as worker:
        assert "hosts a, b on" in worker.until("hosts")
        assert await ask(server, "a", 1) == {"said": 1, "before": 0}
        assert await ask(server, "b", 2) == {"said": 2, "before": 0}
        assert worker.end() == 0
        assert "Stopped: 2 turns delivered (0 failed), 0 suspended, 0 handed back." in worker.lines
    with homeostat("worker", "agents:Echo", "--agent-id", "a", cwd=here, HOMEOSTAT_URL=server) as again:
        again.until("hosts a")
        assert await ask(server, "a", 3) == {"said": 3, "before": 1}, "it remembers, and is known by its key"
    keys = json.loads((here / "homeostat" / "keys.json").read_text())
    assert set(keys) == {f"{server} default a", f"{server} default b"}
    assert (here / "homeostat" / "keys.json").stat().st_mode & 0o077 == 0


async def test_a_stopped_worker_hands_back_what_runs(here: Path, server: str) -> None:
    with homeostat("worker", "agents:slow", "--url", server, "--stop-seconds", "0", cwd=here) as worker:
        worker.until("hosts slow")
        async with Client(server) as client:
            turn = await client.enqueue("slow", None)
            worker.until("is at work")  # the server calls it running before the worker has heard of it
            assert (await client.turn(turn.turn_id)).status == "running"
            assert worker.end() == 0
            assert worker.lines[-1].endswith("1 handed back.")
            assert "Stopping; 1 turn in work may take 0 s to end and else are handed back." in worker.lines[-2]
            assert (await client.turn(turn.turn_id)).status == "dispatched"


async def test_tools_of_a_service_elsewhere_are_called(here: Path, server: str) -> None:
    with (
        tools(server, "payments.charge", "-m", "examples.payments", cwd=ROOT),
        homeostat("worker", "examples.order:order", "--url", server, cwd=ROOT, XDG_DATA_HOME=str(here)) as order,
        homeostat("worker", "examples.order:courier", "--url", server, cwd=ROOT, XDG_DATA_HOME=str(here)) as courier,
    ):
        order.until("hosts order")
        courier.until("hosts courier")
        assert await ask(server, "order", {"item": "lamp", "price": 12.5}) == {
            "ordered": True,
            "delivery": "tomorrow, with the lamp",
        }
        refused = await ask(server, "order", {"item": "lamp", "price": -1})
        assert refused["because"] == "payments.charge ended with error: an amount is more than nothing."


async def test_models_are_asked_through_the_gateway_in_the_trace_of_the_turn(here: Path, server: str) -> None:
    arguments = ("worker", "examples.researcher:Researcher", "--agent-id", "researcher", "--url", server)
    with homeostat(*arguments, cwd=ROOT, XDG_DATA_HOME=str(here)) as worker:
        worker.until("hosts researcher")
        async with Client(server) as client:
            turn = await client.enqueue("researcher", "What raises tides?", result_fields=["answer"])
            ended = await client.deliverable(turn.turn_id, wait=60)
        assert set(ended.value) == {"answer"}, ended
        calls = httpx2.get(f"{server}/v1/calls").json()["calls"]
        assert calls
        assert {(call["agent_id"], call["trace_id"]) for call in calls} == {("researcher", turn.trace_id)}
        assert all(call["tokens_out"] > 0 for call in calls)


async def test_a_tool_service_needs_nothing_but_http(here: Path, server: str) -> None:
    def post(path: str, **body: Any) -> Any:
        answer = httpx2.post(f"{server}/v1{path}", json=body, timeout=30)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    wanted = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    post("/tools", tools=[{"name": "upper", "description": "Shout a word.", "parameters": wanted}])
    assert httpx2.get(f"{server}/v1/tools").json()["items"][0]["name"] == "upper"
    with homeostat("worker", "agents:shouts", "--url", server, cwd=here) as worker:
        worker.until("hosts shouts")
        async with Client(server) as client:
            turn = await client.enqueue("shouts", "hello")
            (call,) = post("/tools/calls", tools=["upper"], wait=20)["calls"]
            assert post("/tools/calls", tools=["upper"], wait=0)["calls"] == [], "one service at a time"
            card = httpx2.get(f"{server}/v1/cards/{call['tool_call_card_id']}").json()
            word = card["content"]["args"]["word"]
            result = {"tool_call_id": call["tool_call_id"], "status": "success", "result": word.upper()}
            post(f"/turns/{call['turn_id']}/results", **result)
            assert (await client.deliverable(turn.turn_id, wait=30)).value == "HELLO"


async def test_a_tool_service_that_is_killed_is_covered_by_the_deadline(here: Path, server: str) -> None:
    with (
        tools(server, "deadly", "tools.py", cwd=here) as service,
        homeostat("worker", "agents:patient", "--url", server, cwd=here) as worker,
    ):
        worker.until("hosts patient")
        assert await ask(server, "patient", None) == {"status": "timeout"}
        assert service.wait(30) == -signal.SIGKILL


def test_a_worker_on_the_store_itself_needs_no_server(here: Path) -> None:
    store = f"sqlite:///{here / 'turns.db'}"
    with homeostat("worker", "agents:Echo", "--agent-id", "echo", "--store-url", store, cwd=here) as worker:
        assert "turns.db" in worker.until("hosts echo")
        assert "noticed within 15 s; with --bus-url, at once" in worker.until("Messages that other processes send")
        assert worker.end(signal.SIGINT) == 0


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("agents", ["names no attribute", "module:Class or module:function"]),
        ("nowhere:Agent", ["No module named 'nowhere'", "where nowhere.py lies"]),
        ("broken:Agent", ["importing broken raised ZeroDivisionError", "python -c 'import broken'"]),
        ("agents:Nobody", ["has no 'Nobody'", "It has: Bare, Echo, NeedsArguments, NoAgent, Strange, fails"]),
        ("agents:NoAgent", ["does not keep the agent protocol: it has no shutdown", "homeostat.ManagedAgent"]),
        ("agents:NeedsArguments", ["NeedsArguments() raised TypeError", "made without arguments"]),
        ("agents:instance", ["it is an agent", "Name its class instead: agents:Echo."]),
        ("agents:number", ["it is of type int, which is no agent", "a function that takes the turn"]),
        ("agents:no_turn", ["cannot be called with the turn alone", "async def agent(turn)"]),
        ("agents:Bare", ["profile is not valid: Bare has none", ""]),
        ("agents:Strange", ["names tools that nobody has registered: telepathy", "Start the tool service"]),
    ],
)
def test_bad_input_is_explained_and_registers_nobody(here: Path, target: str, words: list[str]) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    store = here / "turns.db"
    with homeostat("worker", target, "--store-url", f"sqlite:///{store}", cwd=here) as worker:
        said, _ = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 2, said
    for word in words:
        assert word in said
    assert "Traceback" not in said
    if store.exists():
        with closing(sqlite3.connect(store)) as connection:
            assert connection.execute("SELECT count(*) FROM heads").fetchone() == (0,)


@pytest.mark.parametrize("target", ["agents:NoAgent", "broken:Agent", "agents:Strange"])
def test_bad_input_registers_nobody_with_a_server(here: Path, server: str, target: str) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    with homeostat("worker", target, "--url", server, cwd=here) as worker:
        said, _ = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 2, said
    assert httpx2.get(f"{server}/v1/agents").json() == []


def test_of_several_names_one_that_cannot_be_keeps_all_from_being_registered(here: Path, server: str) -> None:
    arguments = ("--agent-id", "good", "--agent-id", "bad id!")
    with homeostat("worker", "agents:Echo", *arguments, "--url", server, cwd=here) as worker:
        said, _ = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 2, said
        assert "'bad id!' cannot be an id" in said
    assert httpx2.get(f"{server}/v1/agents").json() == []


@pytest.mark.parametrize(
    ("agent", "asked_for", "code", "words"),
    [
        ("gives_object", [], 2, ["what the agent returned is not valid", "JSON holds dicts with text as keys"]),
        ("gives_little", ["title", "body"], 2, ["misses required fields: body", "submit_result"]),
        ("gives_little", ["title"], 0, ["success"]),
        ("fails", [], 1, ["the turn of fails failed: no luck"]),
    ],
)
def test_a_turn_that_failed_is_no_success(  # noqa: PLR0917 - a table of cases
    here: Path, server: str, agent: str, asked_for: list[str], code: int, words: list[str]
) -> None:
    options = [part for name in asked_for for part in ("--result-field", name)]
    with homeostat("worker", f"agents:{agent}", "--url", server, cwd=here) as worker:
        worker.until(f"hosts {agent}")
        with homeostat("enqueue", agent, "1", "--wait", *options, "--url", server, cwd=here) as asking:
            said, _ = asking.process.communicate(timeout=60)
            assert asking.process.returncode == code, said
        for word in words:
            assert word in said
        assert "Traceback" not in said
        assert worker.end() == 0
        assert any(f"of {agent} failed" in line for line in worker.lines) is (code != 0), worker.lines


def test_two_sources_of_turns_are_one_too_many(here: Path) -> None:
    with homeostat("worker", "agents:Echo", "--url", "http://x", "--store-url", "sqlite:///y", cwd=here) as worker:
        said, _ = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 2
        assert "exclude each other" in said


def test_a_server_that_is_not_there_is_named(here: Path) -> None:
    with homeostat("worker", "agents:Echo", "--url", "http://127.0.0.1:9", cwd=here) as worker:
        said, _ = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 1
        assert "http://127.0.0.1:9 did not answer" in said
        assert "homeostat up" in said
