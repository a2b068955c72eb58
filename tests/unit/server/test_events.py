"""The sequence of events: complete, resumable, and honest about gaps."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

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
