"""The sequence of events: complete, resumable, and honest about gaps."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from homeostat import Client
from homeostat.app.assemble import System
from homeostat.app.feed import BUSY
from homeostat.core.limits import EVENTS_KEPT_MAX
from homeostat.server import events

Told = tuple[str, str, dict[str, Any]]


class Lines:
    """Events out of a response, one at a time."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> Told:
        found: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                return found["event"], found["id"], msgspec.json.decode(found["data"])
            name, _, value = line.partition(": ")
            found[name] = value
        raise EOFError

    async def until(self, kind: str) -> Told:
        while (told := await self.next())[0] != kind:
            pass
        return told


@asynccontextmanager
async def following(
    http: httpx2.AsyncClient, last_id: str | None = None, kinds: str = "phase,presence"
) -> AsyncGenerator[Lines]:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with http.stream("GET", "/v1/events", params={"kinds": kinds}, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        yield Lines(response)


async def test_a_reader_that_comes_back_misses_nothing(http: httpx2.AsyncClient, client: Client) -> None:
    async with following(http) as lines:
        assert (await lines.next())[0] == "hello"
        await client.register("echo", agent_id="echo-1")
        kind, last_id, told = await lines.next()
        assert (kind, told["agent_id"], told["event"]) == ("presence", "echo-1", "registered")
    for reason in ("first", "second"):
        await http.post("/v1/agents/echo-1/quarantine", json={"reason": reason})
        await http.post("/v1/agents/echo-1/release", json={"reason": f"{reason} over"})
    async with following(http, last_id) as lines:
        assert (await lines.next())[0] == "hello"
        causes: list[str] = []
        while "second over" not in causes:
            _, _, told = await lines.until("phase")
            causes.append(told["cause"])
        assert [cause for cause in causes if cause in ("first", "first over", "second")] == [
            "first",
            "first over",
            "second",
        ]


async def message(socket: ClientConnection) -> Told:
    async with asyncio.timeout(20):
        said = msgspec.json.decode(await socket.recv())
    return said["event"], said["id"], said["data"]


def socket_url(url: str, **query: str) -> str:
    return f"{url.replace('http', 'ws', 1)}/v1/ws/events?{urlencode(query)}"


async def test_a_reader_leaves_one_way_and_goes_on_by_the_other(http: httpx2.AsyncClient, url: str) -> None:
    """Server-sent events and the WebSocket carry one sequence: ids of one are ids of the other."""
    seen: list[Told] = []

    async def happen(*numbers: int) -> None:
        for number in numbers:
            await http.post("/v1/agents/register", json={"agent_type": "echo", "agent_id": f"echo-{number}"})
            await http.post(f"/v1/agents/echo-{number}/quarantine", json={"reason": f"number {number}"})

    async with following(http) as lines:
        assert (await lines.next())[0] == "hello"
        await happen(0, 1, 2)
        seen += [await lines.next() for _ in range(4)]
    async with connect(socket_url(url, last_event_id=seen[-1][1], kinds="phase,presence"), proxy=None) as socket:
        kind, place, _ = await message(socket)
        assert (kind, place) == ("hello", seen[-1][1])
        await happen(3, 4)
        seen += [await message(socket) for _ in range(5)]
    await happen(5)
    async with following(http, seen[-1][1]) as lines:
        assert (await lines.next())[:2] == ("hello", seen[-1][1])
        while seen[-1][2].get("cause") != "number 5":
            seen.append(await lines.next())
    async with connect(socket_url(url, last_event_id=seen[0][1], kinds="phase,presence"), proxy=None) as socket:
        await message(socket)
        assert [await message(socket) for _ in seen[1:]] == seen[1:], "no gap, no repeat, and word for word the same"
    joined = [told["agent_id"] for kind, _, told in seen if kind == "presence"]
    assert joined == [f"echo-{number}" for number in range(6)]


@pytest.mark.parametrize("last_id", ["elsewhere.3", "nonsense"])
async def test_a_socket_tells_of_a_gap_too(url: str, last_id: str) -> None:
    async with connect(socket_url(url, last_event_id=last_id), proxy=None) as socket:
        assert [(await message(socket))[0], (await message(socket))[0]] == ["hello", "gap"]


@pytest.mark.parametrize("query", [{"kinds": "weather"}, {"tail": "-1"}, {"q": "colour:red"}])
async def test_a_socket_refuses_what_it_does_not_understand(url: str, system: System, query: dict[str, str]) -> None:
    with pytest.raises((WebSocketException, OSError)):
        async with connect(socket_url(url, **query), proxy=None) as socket:
            await socket.recv()
    assert system.feed.readers == 0


async def test_a_socket_sends_what_its_filter_means(http: httpx2.AsyncClient, url: str) -> None:
    async with connect(socket_url(url, q="agent:echo-2"), proxy=None) as socket:
        await message(socket)
        for number in range(3):
            await http.post("/v1/agents/register", json={"agent_type": "echo", "agent_id": f"echo-{number}"})
        assert (await message(socket))[2]["agent_id"] == "echo-2"


@pytest.mark.parametrize("last_id", ["elsewhere.3", "nonsense", "{stream}.999"])
async def test_what_cannot_be_resumed_is_told_as_a_gap(http: httpx2.AsyncClient, system: System, last_id: str) -> None:
    async with following(http, last_id.format(stream=system.feed.stream)) as lines:
        assert [(await lines.next())[0], (await lines.next())[0]] == ["hello", "gap"]


async def test_a_reader_too_far_behind_is_told_of_the_gap(http: httpx2.AsyncClient, system: System) -> None:
    async with following(http) as lines:
        _, last_id, _ = await lines.next()
    for _ in range(EVENTS_KEPT_MAX + 1):
        system.feed._add(next(iter(BUSY.values())), system.settings.project, {})  # pyright: ignore[reportArgumentType]
    async with following(http, last_id) as lines:
        assert [(await lines.next())[0], (await lines.next())[0]] == ["hello", "gap"]


async def test_costly_kinds_are_said_only_while_somebody_reads(
    http: httpx2.AsyncClient, client: Client, system: System
) -> None:
    await client.register("echo", agent_id="echo-1")
    assert not system.bus.wanted("state")
    async with following(http, kinds="turn") as lines:
        await lines.next()
        assert system.bus.wanted("state")
        turn = await http.post("/v1/agents/echo-1/inbox", json={"type": "turn", "payload": {}})
        _, _, told = await lines.until("turn")
        assert told["turn_id"] == turn.json()["turn_id"]
    for _ in range(100):
        if not system.feed.readers:
            break
        await http.get("/livez")
    assert system.feed.readers == 0


async def test_a_new_reader_may_begin_with_what_was_before(http: httpx2.AsyncClient, client: Client) -> None:
    for number in range(3):
        await client.register("echo", agent_id=f"echo-{number}")
    async with http.stream("GET", "/v1/events", params={"kinds": "presence", "tail": 2}) as response:
        lines = Lines(response)
        assert [(await lines.until("presence"))[2]["agent_id"] for _ in range(2)] == ["echo-1", "echo-2"]


async def test_an_unknown_kind_is_refused(http: httpx2.AsyncClient) -> None:
    refused = await http.get("/v1/events", params={"kinds": "phase,weather"})
    assert (refused.status_code, refused.json()["code"]) == (422, "malformed_payload")


async def test_silence_is_told_by_a_comment_and_a_beat(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands between sees that the line is alive, and a reader that knows no `beat` is not disturbed."""
    monkeypatch.setattr(events, "EVENT_BEAT_SECONDS", 0.01)
    async with http.stream("GET", "/v1/events", params={"kinds": "alert"}) as response:
        lines = response.aiter_lines()
        async for line in lines:
            if line.startswith(":"):
                break
        _, event, _ = [await anext(lines) for _ in range(3)]
        assert event == "event: beat"


async def test_what_has_happened_so_far_has_an_end_however_much_goes_on(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})
    stop = asyncio.Event()

    async def bustle() -> None:
        while not stop.is_set():
            await http.post("/v1/agents/ann/cordon", json={"reason": "to see"})
            await http.post("/v1/agents/ann/uncordon", json={"reason": "to see"})

    busy = asyncio.create_task(bustle())
    asked, told = {"kinds": "presence", "tail": 5, "follow": "false"}, ""
    try:
        async with asyncio.timeout(30):
            while "event: presence" not in told:  # it is told some time after it was done
                told = (await http.get("/v1/events", params=asked)).text
    finally:
        stop.set()
        await busy


@pytest.mark.parametrize("place", ["²", "x", "-1", "9" * 19, "9" * 5_000])
async def test_behind_a_number_that_cannot_be_there_is_a_gap(http: httpx2.AsyncClient, place: str) -> None:
    async with following(http) as lines:
        stream = (await lines.next())[1].partition(".")[0]
    shown = [(b"last-event-id", f"{stream}.{place}".encode("latin-1"))]
    answer = await http.get("/v1/events", params={"follow": "false"}, headers=shown)
    assert answer.status_code == 200
    assert [line for line in answer.text.splitlines() if line.startswith("event")] == ["event: hello", "event: gap"]
