"""The live feed of real server processes: filters, resuming, deaf readers, and readers of another process."""

import asyncio
import base64
import json
import os
import re
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from homeostat.client.feed import FleetFeed
from homeostat.core.limits import FRAMES_KEPT_MAX
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import NatsServer

Json = dict[str, Any]

READERS = 180
DEAF = 20
AGENTS = 12


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


@asynccontextmanager
async def http_of(server: HomeostatServer) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http:
        yield http


async def register(http: httpx2.AsyncClient, agent_id: str, agent_type: str = "inference", *tags: str) -> str:
    body = {"agent_type": agent_type, "agent_id": agent_id, "tags": tags}
    answer = await http.post("/v1/agents/register", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["api_key"]


def unpriced(row: Json) -> Json:
    """What an agent spent today and how it is headed are told in lists alone: they come from several rooms."""
    return {name: value for name, value in row.items() if name not in {"cost_usd_today", "headline"}}


async def beat(http: httpx2.AsyncClient, agent_id: str, key: str, items: int = 0) -> None:
    body = {
        "agent_id": agent_id,
        "agent_type": "inference",
        "tags": [],
        "timestamp": "2026-01-28T12:00:00Z",
        "started_at": "2026-01-28T11:00:00Z",
        "uptime_seconds": 3600.0,
        "status": "running",
        "last_action": "x" * 400,
        "items_processed": items,
        "queue_depth": 3,
        "processing_time_avg_ms": 250.5,
        "error_count": 2,
        "memory_mb": 156.3,
        "push_interval_seconds": 5.0,
    }
    answer = await http.post("/v1/agents/status", json=body, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text


def address(server: HomeostatServer, query: str = "") -> str:
    return f"{server.url.replace('http', 'ws')}/v1/ws/status{query}"


async def message(connection: ClientConnection) -> Json:
    async with asyncio.timeout(20):
        return json.loads(await connection.recv())


async def told(connection: ClientConnection, event: str, agent_id: str) -> Json:
    """Read on until this is told; returns the message."""
    while True:
        got = await message(connection)
        if any((u["event"], u["agent_id"]) == (event, agent_id) for u in got.get("updates", ())):
            return got


async def until(feed: FleetFeed, condition: Any) -> None:
    """Follow until what the feed has put together fits."""
    async with asyncio.timeout(60):
        async for _ in feed:
            if condition(feed.agents):
                return


# --- one reader ------------------------------------------------------------------------------------------------


async def test_a_snapshot_then_deltas_and_another_filter_meanwhile(server: HomeostatServer) -> None:
    async with http_of(server) as http, connect(address(server, "?type=inference&tag=gpu"), proxy=None) as reader:
        first = await message(reader)
        assert (first["type"], first["agents"], first["part"], first["parts"]) == ("snapshot", [], 1, 1)
        key = await register(http, "a", "inference", "gpu")
        await register(http, "b", "inference", "cpu")
        await register(http, "c", "cli", "gpu")
        joined = await told(reader, "registered", "a")
        assert joined["stream"] == first["stream"]
        assert joined["since"] >= first["seq"]
        await beat(http, "a", key, items=1)
        delta = await told(reader, "heartbeat", "a")
        assert delta["since"] >= joined["seq"]
        assert delta["seq"] > delta["since"]
        [update] = delta["updates"]
        assert (update["items_processed"], update["presence"], update["status"]) == (1, "alive", "running")

        await reader.send('{"action":"subscribe","type":"cli"}')
        changed = await message(reader)
        assert (changed["type"], [row["agent_id"] for row in changed["agents"]]) == ("snapshot", ["c"])
        await beat(http, "a", key, items=2)
        await http.post("/v1/agents/c/deregister")
        gone = await told(reader, "deregistered", "c")
        assert {update["agent_id"] for update in gone["updates"]} == {"c"}

        await reader.send('{"action":"subscribe"}')
        everybody = await message(reader)
        assert [row["agent_id"] for row in everybody["agents"]] == ["a", "b"]
        listed = (await http.get("/v1/agents")).json()
        assert [unpriced(row) for row in everybody["agents"]] == [unpriced(row) for row in listed]


async def test_a_reader_goes_on_where_it_was(server: HomeostatServer) -> None:
    async with http_of(server) as http:
        key = await register(http, "a")
        async with connect(address(server), proxy=None) as reader:
            snapshot = await message(reader)
        await beat(http, "a", key, items=1)
        await register(http, "b")
        behind = f"?stream={snapshot['stream']}&since={snapshot['seq']}"
        async with connect(address(server, behind), proxy=None) as reader:
            missed = await message(reader)
            assert (missed["type"], missed["since"]) == ("delta", snapshot["seq"])
            assert [(u["event"], u["agent_id"]) for u in missed["updates"]] == [("heartbeat", "a"), ("registered", "b")]
        for unknown in (f"?stream=another&since={snapshot['seq']}", f"?stream={snapshot['stream']}&since=999999"):
            async with connect(address(server, unknown), proxy=None) as reader:
                assert (await message(reader))["type"] == "snapshot"


@pytest.mark.parametrize(
    "wish",
    [
        "",
        "{",
        '{"action":"dance"}',
        '{"action":"subscribe","colour":"red"}',
        '{"action":"subscribe","' + "ä€" * 60 + '":1}',
        "[" * 5000,
    ],
)
async def test_what_is_not_understood_ends_the_conversation(server: HomeostatServer, wish: str) -> None:
    async with connect(address(server), proxy=None) as reader:
        await message(reader)
        await reader.send(wish)
        with pytest.raises(ConnectionClosed) as ended:
            await message(reader)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008


@pytest.mark.parametrize("query", ["?since=x", "?since=-1", "?type=" + "x" * 101, "?tag=" + "y" * 5000])
async def test_a_feed_asked_for_in_the_wrong_way(server: HomeostatServer, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(address(server, query), proxy=None):
            pass
    assert refused.value.response.status_code == 403


async def test_a_request_that_cannot_be_read_is_not_left_waiting(server: HomeostatServer) -> None:
    with pytest.raises(InvalidMessage):
        async with connect(address(server, "?tag=" + "y" * 9000), proxy=None):
            pass


async def test_a_page_of_another_site_may_not_follow(server: HomeostatServer) -> None:
    with pytest.raises(InvalidStatus):
        async with connect(address(server), proxy=None, origin="http://evil.example"):  # pyright: ignore[reportArgumentType]
            pass


# --- many readers ----------------------------------------------------------------------------------------------


def deaf(server: HomeostatServer) -> socket.socket:
    """A reader that does not read: its connection is open, and nothing is ever taken from it."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    connection.connect((host, int(port)))
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET /v1/ws/status HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    return connection


class Frames:
    """The messages in what a server has sent so far."""

    def __init__(self) -> None:
        self._data = b""
        self._upgraded = False

    def take(self, data: bytes) -> Iterator[Json]:
        self._data += data
        if not self._upgraded:
            head, found, rest = self._data.partition(b"\r\n\r\n")
            self._upgraded, self._data = bool(found), rest if found else head
            if not found:
                return
        while len(self._data) >= 10:
            size, start = self._data[1], 2
            if size == 126:
                size, start = int.from_bytes(self._data[2:4]), 4
            elif size == 127:
                size, start = int.from_bytes(self._data[2:10]), 10
            if len(self._data) < start + size:
                return
            if self._data[0] == 0x81:
                yield json.loads(self._data[start : start + size])
            self._data = self._data[start + size :]


async def test_of_two_hundred_readers_twenty_never_read(server: HomeostatServer) -> None:
    loop = asyncio.get_running_loop()
    async with http_of(server) as http:
        keys = {f"a{number:02}": await register(http, f"a{number:02}") for number in range(AGENTS)}
        feeds = [FleetFeed(server.url) for _ in range(READERS)]
        following = [asyncio.create_task(until(feed, lambda agents: agents.get("last") is not None)) for feed in feeds]
        silent = [deaf(server) for _ in range(DEAF)]
        async with asyncio.timeout(30):
            while await _metric(http, "homeostat_feed_readers") < READERS + DEAF:
                pass

        # More messages than are kept, with more in them than the deaf ones' connections hold.
        waited: list[float] = []
        for number in range(2 * FRAMES_KEPT_MAX + 20):
            began = loop.time()
            await asyncio.gather(*(beat(http, agent_id, key, items=number) for agent_id, key in keys.items()))
            waited.append(loop.time() - began)
            await register(http, f"n{number:03}")  # is told at once, in a message of its own
        await register(http, "last")
        await asyncio.gather(*following)
        truth = {row["agent_id"]: unpriced(row) for row in (await http.get("/v1/agents")).json()}
        for feed in feeds:
            assert {agent_id: unpriced(row) for agent_id, row in feed.agents.items()} == truth
        assert sorted(waited)[len(waited) // 2] < 2.0  # twelve heartbeats, whoever reads or does not

        # Those who read again are told the fleet anew, not everything that they missed.
        for kinds in await asyncio.gather(*(asyncio.to_thread(_catch_up, each, "last") for each in silent)):
            assert (kinds[0], kinds[-1], kinds.count("snapshot")) == ("snapshot", "snapshot", 2)
            assert len(kinds) < 2 * FRAMES_KEPT_MAX
        assert await _metric(http, "homeostat_feed_resyncs_total") >= DEAF


def _catch_up(connection: socket.socket, last: str) -> list[str]:
    """Read until the last agent is in a snapshot; returns what kinds of messages came."""
    connection.settimeout(20)
    kinds: list[str] = []
    incoming = Frames()
    with connection:
        while True:
            data = connection.recv(1 << 20)
            assert data, f"the connection was closed after {kinds}"
            for got in incoming.take(data):
                kinds.append(got["type"])
                if any(row["agent_id"] == last for row in got.get("agents", ())):
                    return kinds


async def _metric(http: httpx2.AsyncClient, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", (await http.get("/metrics")).text, re.MULTILINE)
    assert found is not None
    return float(found[1])


# --- several processes -----------------------------------------------------------------------------------------


async def test_every_reader_sees_every_update_of_every_process(tmp_path: Path) -> None:
    with NatsServer() as bus:
        store = f"sqlite:///{tmp_path / 'shared.db'}"
        options = ("--store-url", store, "--bus-url", bus.url)
        with HomeostatServer(*options) as here, HomeostatServer(*options) as there:
            async with http_of(here) as http, http_of(there) as other:
                feeds = [FleetFeed(here.url), FleetFeed(there.url)]
                key = await register(http, "a")
                following = [
                    asyncio.create_task(until(feed, lambda agents: agents.get("a", {}).get("items_processed") == 5))
                    for feed in feeds
                ]
                await beat(other, "a", key, items=4)  # registered there, beats here
                await beat(http, "a", key, items=5)
                await asyncio.gather(*following)
                seen = [await client.get("/v1/agents/a") for client in (http, other)]
                assert [answer.json()["items_processed"] for answer in seen] == [5, 5]

                set_there = await other.put("/v1/agents/a/config", json={"push_interval_seconds": 0.1})
                assert set_there.status_code == 200
                async with asyncio.timeout(20):
                    while (await http.get("/v1/agents/a/config")).json()["push_interval_seconds"] != 0.1:
                        pass
                leaving = [
                    asyncio.create_task(until(feed, lambda agents: agents.get("a", {}).get("presence") == "dead"))
                    for feed in feeds
                ]
                await beat(http, "a", key, items=6)  # is told 0.1 s, and falls silent
                await asyncio.gather(*leaving)
                gone = [asyncio.create_task(until(feed, lambda agents: "a" not in agents)) for feed in feeds]
                await other.post("/v1/agents/a/deregister")
                await asyncio.gather(*gone)
                with pytest.raises(AssertionError, match="agent_gone"):
                    await beat(http, "a", key, items=7)
