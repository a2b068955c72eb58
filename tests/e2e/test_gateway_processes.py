"""Gateways as processes: killed with streams open, beside each other on one store, and with secrets to keep."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import asyncpg
import httpx2
import nats
import pytest

from homeostat import SyncClient
from homeostat.testing.chaos.proxy import link_to
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.models import ModelServer
from homeostat.testing.servers import free_port

CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Tell me a story"}]}
PATH = "/openai/v1/chat/completions"
SPOKEN = re.compile(rb'"content": ?"[^"]')
UPSTREAM_KEY = "sk-planted-upstream-key-0123456789"


class KeyedServer(HomeostatServer):
    """A server whose upstream wants a key."""

    def command(self) -> list[str]:
        return ["env", f"HOMEOSTAT_OPENAI_API_KEY={UPSTREAM_KEY}", *super().command()]


class Silent:
    """An upstream that takes a request and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.reached = threading.Event()
        self._accepting = threading.Thread(target=self._accept)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(1)
            self.reached.set()
            while connection.recv(1 << 16):
                pass

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._accepting.join(30)
        self._listener.close()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def eventually(ask: Any, holds: Any) -> Any:
    """Ask a server until what it says holds."""
    deadline = time.monotonic() + 30
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, answer
    return answer


def test_a_kill_with_fifty_streams_open_leaves_the_ledger_whole() -> None:
    with (
        ModelServer(token_seconds=5.0) as models,
        HomeostatServer("--upstreams", f"openai={models.url}", "--lease-seconds", "1", command="up") as server,
        SyncClient(server.url) as client,
    ):
        agent = client.register("storyteller", agent_id="teller")
        account = f"{server.url}/v1/budgets/agent/teller"
        httpx2.put(account, json={"tokens": 1_000_000}).raise_for_status()

        async def listen(http: httpx2.AsyncClient, number: int) -> None:
            body = {**CHAT, "max_tokens": 500, "stream": True, "user": str(number)}
            with pytest.raises(httpx2.TransportError):
                await http.post(server.url + PATH, json=body, headers=bearer(agent.api_key))

        async def scene() -> None:
            limits = httpx2.Limits(max_connections=64)
            async with httpx2.AsyncClient(limits=limits, timeout=60) as http:
                streams = [asyncio.create_task(listen(http, number)) for number in range(50)]
                asked = {"agent_id": "teller"}
                while (await http.get(f"{server.url}/v1/calls/open", params=asked)).json()["in_flight"] < 50:
                    assert not any(stream.done() for stream in streams)
                while (await http.get(account)).json()["tokens_held"] < 50 * 500:
                    pass
                await http.get(f"{server.url}/v1/calls")  # what is open is in the store when this is answered
                await asyncio.to_thread(server.kill)
                await asyncio.gather(*streams)

        asyncio.run(scene())
        server.start()

        def lost() -> list[dict[str, Any]]:
            return httpx2.get(f"{server.url}/v1/calls", params={"limit": 500}).json()["calls"]

        calls = eventually(lost, lambda found: sum(call["model"] != "" for call in found) == 50)
        assert len(calls) <= 51, "one more may tell of what was held for calls to come"
        assert {(call["outcome"], call["code"], call["metered"]) for call in calls} == {
            ("lost", "gateway_died", "reserved")
        }
        ledger = httpx2.get(account).json()
        assert ledger["tokens_held"] == 0
        assert ledger["tokens_spent"] == sum(call["tokens_in"] + call["tokens_out"] for call in calls)
        body = {**CHAT, "max_tokens": 1}
        assert httpx2.post(server.url + PATH, json=body, headers=bearer(agent.api_key), timeout=30).status_code == 200


def test_a_kill_at_the_moment_a_call_is_forwarded_does_not_make_it_free() -> None:
    """Nobody has asked for the books, and nothing of the call was written: it is charged all the same."""
    with (
        Silent() as upstream,
        HomeostatServer("--upstreams", f"openai={upstream.url}", "--lease-seconds", "1", command="up") as server,
        SyncClient(server.url) as client,
    ):
        agent = client.register("storyteller", agent_id="teller")
        account = f"{server.url}/v1/budgets/agent/teller"
        httpx2.put(account, json={"tokens": 1_000_000}).raise_for_status()

        def ask() -> None:
            body = {**CHAT, "max_tokens": 500}
            with pytest.raises(httpx2.TransportError):
                httpx2.post(server.url + PATH, json=body, headers=bearer(agent.api_key), timeout=30)

        asking = threading.Thread(target=ask)
        asking.start()
        assert upstream.reached.wait(30)
        server.kill()
        asking.join()
        server.start()
        ledger = eventually(lambda: httpx2.get(account).json(), lambda found: found["tokens_spent"] >= 500)
        assert ledger["tokens_held"] == 0
        assert ledger["tokens_spent"] <= 4 * 600, "and costs no more than the few calls that were prepared for"
        logged = httpx2.get(f"{server.url}/v1/calls").json()["calls"]
        assert ledger["tokens_spent"] == sum(call["tokens_in"] + call["tokens_out"] for call in logged)
        assert {(call["outcome"], call["code"]) for call in logged} == {("lost", "gateway_died")}


@pytest.fixture(params=["sqlite", "postgres", "nats"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """What the processes have in common: the store alone, or the bus as well."""
    if request.param != "sqlite":
        bus = ["--bus-url", request.getfixturevalue("nats_url")] if request.param == "nats" else []
        return ["--store-url", request.getfixturevalue("postgres_url"), *bus]
    return ["--store-url", f"sqlite://{tmp_path / 'shared.db'}"]


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer() as models:
        yield models


def test_a_gateway_alone_obeys_the_server_beside_it(store: list[str], models: ModelServer) -> None:
    """No bus joins them: a policy is in force all the same within a tenth of a second, and after a restart at once."""
    upstreams = ["--upstreams", f"openai={models.url}"]
    with (
        HomeostatServer(*store, *upstreams) as server,
        HomeostatServer(*store, *upstreams, command="gateway") as gateway,
        SyncClient(server.url) as client,
        httpx2.Client(base_url=gateway.url, timeout=30) as http,
    ):
        assert f"{gateway.url}/openai/v1 ({models.url})" in gateway.log
        agent = client.register("writer", agent_id="writer")

        def call() -> int:
            return http.post(PATH, json=CHAT, headers=bearer(agent.api_key)).status_code

        heard: list[int] = []
        waited: list[float] = []

        def until(status: int) -> None:
            began = time.monotonic()
            while not heard or heard[-1] != status:
                assert time.monotonic() < began + 30, heard
                heard.append(call())
            waited.append(time.monotonic() - began)

        until(200)
        for round_ in range(3):
            policy = {"action": "block", "agent_id": "writer", "reason": f"round {round_}"}
            assert httpx2.put(f"{server.url}/v1/policies/stop", json=policy).status_code == 200
            until(503)
            assert httpx2.delete(f"{server.url}/v1/policies/stop").status_code == 204
            until(200)
        assert min(waited[1:]) < 1, "on a busy machine one may be late, but not each"
        httpx2.put(f"{server.url}/v1/policies/stop", json={"action": "block", "agent_id": "writer"}).raise_for_status()
        gateway.restart()
        assert call() == 503
        seen = httpx2.get(
            f"{server.url}/v1/calls", params={"agent_id": "writer", "outcome": "answered", "limit": 500}
        ).json()
        assert len(seen["calls"]) == heard.count(200)
        assert (
            'homeostat_gateway_calls_total{code="agent_quarantined",outcome="refused"} 1.0' in http.get("/metrics").text
        )
        assert http.get("/readyz").text == "ok\n"
        assert http.get("/v1/agents").status_code == 404


def test_gateways_together_keep_to_a_rate_limit(store: list[str], models: ModelServer) -> None:
    """Both are asked for far more than the limit at the same time, over and over."""
    upstreams = ["--upstreams", f"openai={models.url}"]
    with (
        HomeostatServer(*store, *upstreams) as server,
        HomeostatServer(*store, *upstreams, command="gateway") as gateway,
        SyncClient(server.url) as client,
    ):
        for agent_id, limit in (("ann", 21), ("bob", 1)):  # the second one's is less than there are gateways
            agent = client.register("writer", agent_id=agent_id)
            policy = {"action": "rate_limit", "agent_id": agent_id, "requests_per_minute": limit}
            httpx2.put(f"{server.url}/v1/policies/rate-{agent_id}", json=policy).raise_for_status()
            _until_known(gateway, server, client, f"last-before-{agent_id}")

            async def scene(key: str = agent.api_key) -> list[int]:
                async with httpx2.AsyncClient(timeout=60) as http:
                    asked = [
                        http.post(place.url + PATH, json=CHAT, headers=bearer(key))
                        for _ in range(40)
                        for place in (server, gateway)
                    ]
                    return [answer.status_code for answer in await asyncio.gather(*asked)]

            heard = asyncio.run(scene())
            assert set(heard) == {200, 429}
            assert heard.count(200) == limit


def _until_known(gateway: HomeostatServer, server: HomeostatServer, client: SyncClient, name: str) -> None:
    """Until a gateway goes by all policies up to now: it learns of them together, and one more is seen to hold."""
    key = client.register("writer", agent_id=name).api_key
    httpx2.put(f"{server.url}/v1/policies/{name}", json={"action": "block", "agent_id": name}).raise_for_status()
    eventually(
        lambda: httpx2.post(gateway.url + PATH, json=CHAT, headers=bearer(key), timeout=30).status_code,
        lambda status: status == 503,
    )


class BriefServer(HomeostatServer):
    """A gateway that believes its last policies for a second."""

    def command(self) -> list[str]:
        return ["env", "HOMEOSTAT_POLICY_OUTAGE_SECONDS=1", *super().command()]


async def test_a_gateway_cut_off_from_its_store_refuses_whom_it_cannot_know_to_be_free(
    models: ModelServer, postgres_url: str
) -> None:
    upstreams = ("--upstreams", f"openai={models.url}")
    async with link_to(postgres_url) as link, AsyncExitStack() as stack:

        def start() -> tuple[HomeostatServer, HomeostatServer]:
            server = HomeostatServer("--store-url", postgres_url, *upstreams)
            return server.start(), BriefServer("--store-url", link.url, *upstreams, command="gateway").start()

        server, gateway = await asyncio.to_thread(start)
        stack.callback(server.stop)
        stack.callback(gateway.kill)  # it would wait for its store
        http = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))
        agent = await http.post(f"{server.url}/v1/agents/register", json={"agent_type": "x", "agent_id": "writer"})
        key = bearer(agent.json()["api_key"])

        async def call() -> str:
            answer = await http.post(gateway.url + PATH, json=CHAT, headers=key)
            return "answered" if answer.status_code == 200 else answer.json()["error"]["code"]

        async def until_it_says(wanted: str) -> set[str]:
            heard: set[str] = set()
            async with asyncio.timeout(60):
                while wanted not in heard:
                    heard.add(await call())
            return heard

        assert await call() == "answered"
        link.swallow()
        link.reset()
        block = {"action": "block", "agent_id": "writer", "reason": "nobody can tell the gateway"}
        (await http.put(f"{server.url}/v1/policies/stop", json=block)).raise_for_status()
        assert await until_it_says("store_unavailable") <= {"answered", "store_unavailable"}
        refused = await http.post(gateway.url + PATH, json=CHAT, headers=key)
        assert (refused.status_code, refused.headers.get("x-should-retry")) == (503, None), "an SDK may try again"
        link.let_through()
        assert await until_it_says("agent_quarantined") <= {"store_unavailable", "agent_quarantined"}


def test_what_another_call_holds_is_free_when_that_has_ended() -> None:
    with (
        ModelServer(token_seconds=0.5) as models,
        HomeostatServer("--upstreams", f"openai={models.url}", command="up") as server,
        SyncClient(server.url) as client,
        httpx2.Client(base_url=server.url, timeout=30) as http,
    ):
        agent = client.register("teller", agent_id="teller")
        http.put("/v1/budgets/agent/teller", json={"tokens": 700}).raise_for_status()
        headers = bearer(agent.api_key)
        with http.stream("POST", PATH, json={**CHAT, "max_tokens": 450, "stream": True}, headers=headers) as first:
            said, pieces = b"", first.iter_raw()
            while not SPOKEN.search(said):  # or it would be charged with all it holds when it is broken off
                said += next(pieces)
            refused = http.post(PATH, json={**CHAT, "max_tokens": 450}, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (402, "budget_held")
            assert (refused.headers["x-should-retry"], refused.headers["retry-after"]) == ("true", "1")
            hopeless = http.post(PATH, json={**CHAT, "max_tokens": 701}, headers=headers)
            assert (hopeless.status_code, hopeless.json()["error"]["code"]) == (402, "budget_exceeded")
            assert hopeless.headers["x-should-retry"] == "false"

        def again() -> int:
            with http.stream("POST", PATH, json={**CHAT, "max_tokens": 450, "stream": True}, headers=headers) as later:
                return later.status_code

        eventually(again, lambda status: status == 200)


def test_planted_secrets_are_found_nowhere(models: ModelServer) -> None:
    options = ("--upstreams", f"openai={models.url},gone=http://127.0.0.1:{free_port()}", "--log-level", "debug")
    with KeyedServer(*options, command="up") as server, SyncClient(server.url) as client:
        agent = client.register("keeper", agent_id="keeper")
        said: list[str] = []
        with httpx2.Client(base_url=server.url, headers=bearer(agent.api_key), timeout=30) as http:
            for path, body in (
                (PATH, CHAT),
                (PATH, {**CHAT, "stream": True}),
                (PATH, {"model": 1}),
                (PATH, {**CHAT, "model": "nobody-knows"}),
                ("/gone/v1/chat/completions", CHAT),
                ("/openai/v1/nowhere", CHAT),
                ("/elsewhere", CHAT),
            ):
                for simulate in ("", "error=500", "cut=1", "garbage=0"):
                    try:
                        answer = http.post(path, json=body, headers={"x-simulate": simulate})
                    except httpx2.TransportError as problem:
                        said.append(str(problem))
                    else:
                        said += [answer.text, str(answer.headers)]
            http.put("/v1/policies", json={"action": "block"})
        for path in ("/v1/calls", "/v1/policies", "/v1/budgets", "/v1/gateway", "/v1/agents", "/metrics"):
            said.append(httpx2.get(server.url + path).text)
        wrong = httpx2.post(server.url + PATH, json=CHAT, headers=bearer(agent.api_key + "x"))
        assert wrong.status_code == 401
        said.append(wrong.text)
        heard = httpx2.get(f"{models.url}/heard").text
        server.stop()
        said.append(server.log)
        said += [file.read_bytes().decode("latin-1") for file in server.data_dir.rglob("*") if file.is_file()]
        everything = "\n".join(said)
        assert "keeper" in everything
        for secret in (UPSTREAM_KEY, agent.api_key):
            assert secret not in everything
        assert UPSTREAM_KEY in heard, "it was used, and so could have been told"
        assert agent.api_key not in heard


async def test_planted_secrets_are_in_no_event_and_in_no_dump(
    models: ModelServer, postgres_url: str, nats_url: str
) -> None:
    told: list[bytes] = []

    async def listen(message: Any) -> None:
        told.append(message.subject.encode() + b" " + message.data)

    bus = await nats.connect(nats_url)
    await bus.subscribe(">", cb=listen)

    def scene() -> str:
        options = ("--store-url", postgres_url, "--bus-url", nats_url, "--upstreams", f"openai={models.url}")
        with KeyedServer(*options, command="up") as server, SyncClient(server.url) as client:
            agent = client.register("keeper", agent_id="keeper")
            with httpx2.Client(base_url=server.url, timeout=30) as http:
                http.put("/v1/budgets/agent/keeper", json={"tokens": 50_000}).raise_for_status()
                for action in ("alert", "clear_context", "block"):
                    for simulate in ("", "error=500", "cut=1", "garbage=0"):
                        with contextlib.suppress(httpx2.TransportError):
                            headers = {**bearer(agent.api_key), "x-simulate": simulate}
                            http.post(PATH, json={**CHAT, "stream": simulate == "cut=1"}, headers=headers)
                    policy = {"action": action, "agent_id": "keeper", "reason": "to be told"}
                    http.put(f"/v1/policies/{action}", json=policy).raise_for_status()
                http.get("/v1/calls").raise_for_status()  # everything is written when this is answered
            return agent.api_key

    api_key = await asyncio.to_thread(scene)
    await bus.drain()
    events, dump = b"\n".join(told), await dumped(postgres_url)
    for kept in (events, dump):
        assert b"keeper" in kept
        for secret in (UPSTREAM_KEY, api_key):
            assert secret.encode() not in kept
    assert b"clear_context" in events
    assert b'"upstream":"openai"' in dump.replace(b" ", b"")
    assert UPSTREAM_KEY in httpx2.get(f"{models.url}/heard").text, "it was used, and so could have been told"


async def dumped(url: str) -> bytes:
    """Every row of every table, as text."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        rows = [await connection.fetch(f'SELECT t::text FROM "{name}" AS t') for (name,) in tables]
        return "\n".join(row[0] for table in rows for row in table).replace('""', '"').encode()
    finally:
        await connection.close()


# --- homeostat exec ----------------------------------------------------------------------------------------------

AGENT = """
import os, signal, sys, httpx2
body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}]}
key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
answer = httpx2.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body, headers=key, timeout=30)
claude = {"model": "claude-haiku-4-5", "max_tokens": 5, "messages": body["messages"]}
other = httpx2.post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json=claude,
    headers={"x-api-key": os.environ["ANTHROPIC_API_KEY"]}, timeout=30)
print("answered", answer.status_code, other.status_code, os.environ["HOMEOSTAT_AGENT_ID"], *sys.argv[1:], flush=True)
if "wait" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
    print("waiting", flush=True)
    signal.pause()
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with ModelServer() as models:
        upstreams = f"openai={models.url},anthropic={models.url}"
        with HomeostatServer("--upstreams", upstreams, command="up") as server:
            yield server


def execute(server: HomeostatServer, home: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "homeostat", "exec", *arguments],
        env={**os.environ, "HOMEOSTAT_URL": server.url, "XDG_DATA_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def script(tmp_path: Path) -> str:
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return str(path)


def presence(server: HomeostatServer, agent_id: str) -> Any:
    answer = httpx2.get(f"{server.url}/v1/agents/{agent_id}")
    return answer.json() if answer.status_code == 200 else None


def test_a_command_runs_under_control_and_keeps_its_exit_code(server: HomeostatServer, tmp_path: Path) -> None:
    for _ in range(2):  # the second time it proves by its key that it is who it was
        process = execute(
            server, tmp_path, "--agent-id", "scripted", "--tag", "x", "--", sys.executable, script(tmp_path), "-h"
        )
        out, err = process.communicate(timeout=60)
        assert process.returncode == 7, err
        assert out == "answered 200 200 scripted -h\n"
        assert presence(server, "scripted") is None, "it was deregistered"
    calls = httpx2.get(f"{server.url}/v1/calls", params={"agent_id": "scripted"}).json()["calls"]
    assert len(calls) == 4


def test_signals_are_passed_on_and_it_is_seen_in_the_fleet(server: HomeostatServer, tmp_path: Path) -> None:
    process = execute(server, tmp_path, "--agent-id", "waiter", "--", sys.executable, script(tmp_path), "wait")
    assert process.stdout is not None
    assert "answered" in process.stdout.readline()
    assert process.stdout.readline() == "waiting\n"
    # Until its first heartbeat is in, nothing is known of its memory.
    row = eventually(lambda: presence(server, "waiter"), lambda row: row["memory_mb"] and row["pid"])
    assert row["presence"] == "alive"
    assert row["pid"] != process.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 42
    assert presence(server, "waiter") is None


def test_a_command_that_dies_of_a_signal_says_so_as_shells_do(server: HomeostatServer, tmp_path: Path) -> None:
    process = execute(server, tmp_path, "--", sys.executable, script(tmp_path), "die")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL
    assert presence(server, out.split()[3]) is None


def test_what_cannot_be_run_is_told_in_one_line(server: HomeostatServer, tmp_path: Path) -> None:
    process = execute(server, tmp_path, "--", "no-such-command")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (127, "homeostat: no-such-command: there is no such command")
    with SyncClient(server.url) as client:
        client.register("other", agent_id="taken")
    process = execute(server, tmp_path, "--agent-id", "taken", "--", "true")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "'taken' is registered already" in err
