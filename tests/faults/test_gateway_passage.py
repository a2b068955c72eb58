"""A stream that needs no task ends as any other does, whatever the upstream or the agent does in its middle."""

import asyncio
import json

import pytest

from homeostat.core.records.call import Metered, Outcome
from homeostat.gateway.office import Manners
from homeostat.http.connection import Connection
from homeostat.server import protocol
from homeostat.testing.gateways import ANN, KEY, until
from tests.faults.test_gateway_faults import REQUESTS, chunked, recorded
from tests.faults.test_gateway_quick import Scene, Upstreamed, quick

PATH = "/openai/v1/chat/completions"
PING = b": ping\n\n"
END = b"0\r\n\r\n"


def asked(path: str = PATH, **fields: object) -> bytes:
    body = json.dumps({**REQUESTS[path], **fields}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def dechunked(reader: asyncio.StreamReader) -> bytes:
    """The body of an answer in chunks, to its end or to where it is cut."""
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


async def hear(scene: Scene, request: bytes) -> tuple[bytes, bytes]:
    scene.writer.write(request)
    head = await scene.reader.readuntil(b"\r\n\r\n")
    return head, await dechunked(scene.reader)


@pytest.mark.parametrize("path", [path for path in REQUESTS if path.startswith("/openai")])
async def test_each_event_is_passed_on_when_it_is_here_and_no_task_is_needed(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    head, events = await recorded(path)
    go_on = asyncio.Event()

    async def one_by_one(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for event in events:
            writer.write(chunked(event))
            await go_on.wait()
            go_on.clear()
        writer.write(END)

    async with quick(monkeypatch) as scene:
        scene.then = one_by_one
        for number in range(2):
            scene.writer.write(asked(path))
            assert (await scene.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            for event in events:
                assert await scene.reader.readexactly(len(chunked(event))) == chunked(event)
                go_on.set()
            assert await scene.reader.readexactly(len(END)) == END
            call = await scene.last()
            assert (call.outcome, call.metered, call.streamed) == (Outcome.ANSWERED, Metered.REPORTED, True)
            assert call.first_token_ms is not None
            assert call.usage.tokens_out > 0
            assert len(await scene.desk.log()) == 2 + number
        assert scene.tasks == 0
        assert scene.upstream.connects == 1


async def test_usage_that_nobody_asked_for_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)

    async def all_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"".join(chunked(event) for event in events) + END)

    async with quick(monkeypatch) as scene:
        scene.then = all_at_once
        _, body = await hear(scene, asked(stream_options=None))
        assert b"prompt_tokens" not in body
        assert body.endswith(b"data: [DONE]\n\n")
        assert (await scene.last()).metered is Metered.REPORTED
        assert scene.tasks == 0


@pytest.mark.parametrize("middle", [False, True])
async def test_a_stream_that_is_cut_says_so_where_it_can(monkeypatch: pytest.MonkeyPatch, *, middle: bool) -> None:
    head, events = await recorded(PATH)

    async def cuts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"".join(chunked(event) for event in events[:3]))
        if middle:
            writer.write(chunked(events[3][:9]))
        await writer.drain()
        writer.close()
        raise ConnectionAbortedError

    async with quick(monkeypatch) as scene:
        scene.then = cuts
        scene.writer.write(asked())
        await scene.reader.readuntil(b"\r\n\r\n")
        if middle:
            with pytest.raises(asyncio.IncompleteReadError):
                await dechunked(scene.reader)
        else:
            body = await dechunked(scene.reader)
            assert body.startswith(b"".join(events[:3]))
            assert json.loads(body.removeprefix(b"".join(events[:3])).removeprefix(b"data: "))["error"]["code"]
        call = await scene.last()
        assert (call.outcome, call.metered) == (Outcome.FAILED, Metered.ESTIMATED)
        assert scene.tasks == 0


async def test_an_upstream_that_falls_silent_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)

    async def stops(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + chunked(events[0]))
        await reader.readexactly(1)

    async with quick(monkeypatch) as scene:
        scene.then = stops
        _, body = await hear(scene, asked())
        assert b"upstream_timed_out" in body
        assert (await scene.last()).outcome is Outcome.FAILED


async def test_an_agent_that_hangs_up_cancels_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)

    async with quick(monkeypatch) as scene:
        scene.then = goes_on_for_ever(head, events)
        scene.writer.write(asked())
        await scene.reader.readuntil(events[2])
        assert scene.desk.gateway.in_flight_here(ANN) == 1
        scene.writer.close()
        await scene.hung_up.wait()
        call = await scene.last()
        assert (call.outcome, call.code, call.metered) == (Outcome.ABANDONED, "hung_up", Metered.ESTIMATED)
        assert scene.tasks == 0


def goes_on_for_ever(head: bytes, events: list[bytes], size: int = 1) -> Upstreamed:
    async def goes_on(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"".join(chunked(event) for event in events[:3]))
        while True:
            writer.write(chunked(events[1] * size))
            await writer.drain()
            await asyncio.sleep(0)

    return goes_on


async def test_a_slow_agent_gets_everything_and_the_upstream_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)
    flood = events[1] * 2_000
    waits = asyncio.Event()
    pause = Connection.pause

    def paused(connection: Connection) -> None:
        waits.set()
        pause(connection)

    monkeypatch.setattr(Connection, "pause", paused)

    async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(head)
        for _ in range(60):
            writer.write(chunked(flood))
            await writer.drain()
        writer.write(b"".join(chunked(event) for event in events[2:]) + END)

    async with quick(monkeypatch, silence_seconds=20) as scene:
        scene.then = floods
        scene.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        scene.writer.write(asked())
        await waits.wait()  # who does not read is not read for
        scene.writer.transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await scene.reader.readuntil(b"\r\n\r\n")
        assert await dechunked(scene.reader) == flood * 60 + b"".join(events[2:])
        call = await scene.last()
        assert (call.outcome, call.metered) == (Outcome.ANSWERED, Metered.REPORTED)
        assert scene.tasks == 0


async def test_an_agent_that_stops_reading_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "FAREWELL_SECONDS", 0.05)
    head, events = await recorded(PATH)
    strict = Manners(ping_seconds=60, patience_seconds=0.001, client_stall_seconds=0.02)
    async with quick(monkeypatch, manners=strict) as scene:
        scene.then = goes_on_for_ever(head, events, 2_000)
        scene.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        scene.writer.write(asked())
        await scene.hung_up.wait()
        call = await scene.last()
        assert (call.outcome, call.code) == (Outcome.ABANDONED, "client_stalled")
        assert scene.tasks == 0


async def test_silence_between_events_is_filled_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)
    go_on = asyncio.Event()

    async def dawdles(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + chunked(events[0]))
        await go_on.wait()
        writer.write(b"".join(chunked(event) for event in events[1:]) + END)

    watchful = Manners(ping_seconds=0.002, patience_seconds=0.001, client_stall_seconds=60)
    async with quick(monkeypatch, manners=watchful, silence_seconds=20) as scene:
        scene.then = dawdles
        scene.writer.write(asked())
        await scene.reader.readuntil(PING)
        await scene.reader.readuntil(PING + b"\r\n")
        go_on.set()
        rest = await dechunked(scene.reader)
        assert rest.replace(PING, b"") == b"".join(events[1:])
        assert (await scene.last()).outcome is Outcome.ANSWERED
        assert scene.tasks == 0


async def test_a_gateway_that_ends_settles_a_stream_at_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    head, events = await recorded(PATH)
    async with quick(monkeypatch) as scene:
        scene.then = goes_on_for_ever(head, events)
        scene.writer.write(asked())
        await scene.reader.readuntil(events[2])
        for call in tuple(scene.desk.gateway.clerk.airspace.calls):
            call.abandon()
        await until(lambda: scene.desk.gateway.in_flight_here(ANN) == 0)
        call = await scene.last()
        assert (call.outcome, call.metered) == (Outcome.ABANDONED, Metered.ESTIMATED)
        await scene.hung_up.wait()
