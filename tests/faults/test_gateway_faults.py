"""An upstream that cuts, stalls, dawdles or talks garbage at any point: nobody hangs, leaks or is charged twice."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from homeostat.adapters.upstreams.http import HttpLimits, HttpUpstream
from homeostat.adapters.upstreams.simulated import SimulatedUpstream
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.call import Metered, Outcome
from homeostat.testing.gateways import ANN, INSTANT, Booth, Heard, booth, until

QUICK = HttpLimits(connect_seconds=2, first_byte_seconds=0.03, silence_seconds=0.03, sweep_seconds=0.005)
HELLO: Any = [{"role": "user", "content": "How is the weather?"}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/openai/v1/chat/completions": {
        "model": "gpt-4o-mini",
        "messages": HELLO,
        "max_tokens": 40,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "/openai/v1/responses": {"model": "gpt-4o-mini", "input": "Hello", "max_output_tokens": 40, "stream": True},
    "/anthropic/v1/messages": {"model": "claude-haiku-4-5", "max_tokens": 40, "messages": HELLO, "stream": True},
}
GARBAGE = b"\x00\xff\xfe{]\n"

Misdeed = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def recorded(path: str) -> tuple[bytes, list[bytes]]:
    """The head and the events of a sound answer, as they are on the wire."""

    target = "/" + path.split("/", 2)[2]
    request = UpstreamRequest(b"POST", target.encode(), [], json.dumps(REQUESTS[path]).encode())
    response = await SimulatedUpstream(pace=INSTANT).send(request)
    body = b""
    while block := await response.read():
        body += block
    events = [event + b"\n\n" for event in body.removesuffix(b"\n\n").split(b"\n\n")]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head, events


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del writer
    await reader.read()


async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader
    writer.transport.abort()


async def broken_framing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(GARBAGE)
    await reader.read()


@asynccontextmanager
async def faulty(head: bytes, parts: list[bytes], misdeed: Misdeed | None) -> AsyncGenerator[Booth]:
    """A gateway in front of a server that sends its parts and then does something wrong."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        length = int(request.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        for part in (head, *parts):
            writer.write(part)
            await writer.drain()
        if misdeed is not None:
            await misdeed(reader, writer)
        writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    upstream = HttpUpstream(name="test", url=f"http://127.0.0.1:{port}", limits=QUICK)
    try:
        async with booth(upstream=upstream) as desk:
            await desk.grant(tokens_max=1_000_000)
            yield desk
            await until(lambda: upstream.open_connections == upstream.idle_connections)
            assert desk.gateway.office.in_flight.total == 0
    finally:
        listener.close()


async def settled(desk: Booth, heard: Heard) -> Any:
    """The one row of the log, once it is certain that the ledger agrees with it."""
    del heard
    assert await desk.gateway.in_flight(ANN) == 0
    (call,) = await desk.log()
    assert (await desk.account()).spent.tokens == call.usage.tokens
    return call


@pytest.mark.parametrize("misdeed", [cut, silence, broken_framing])
@pytest.mark.parametrize("path", REQUESTS)
async def test_a_stream_that_fails_behind_any_event(path: str, misdeed: Misdeed) -> None:
    head, events = await recorded(path)
    for count in range(len(events)):
        async with asyncio.timeout(10), faulty(head, [chunked(event) for event in events[:count]], misdeed) as desk:
            heard = await desk.call(path, REQUESTS[path])
            call = await settled(desk, heard)
            assert heard.status == 200
            said = b"".join(events[:count])
            assert heard.body.startswith(said)
            assert heard.ended, "a stream that broke between two events is closed in an orderly way"
            assert b'"error"' in heard.body[len(said) :]
            assert call.outcome is Outcome.FAILED
            assert call.code in {"upstream_broke", "upstream_timed_out"}
            if count == 0:
                assert call.metered is Metered.RESERVED
            else:
                assert call.metered in {Metered.ESTIMATED, Metered.RESERVED, Metered.REPORTED}
                assert 0 < call.usage.tokens <= 1_000


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_stream_that_is_cut_inside_an_event_is_cut_for_the_agent_too(path: str) -> None:
    head, events = await recorded(path)
    for count in range(len(events)):
        half = events[count][: len(events[count]) // 2]
        parts = [chunked(event) for event in (*events[:count], half)]
        async with asyncio.timeout(10), faulty(head, parts, cut) as desk:
            heard = await desk.call(path, REQUESTS[path])
            assert (await settled(desk, heard)).outcome is Outcome.FAILED
            assert heard.body == b"".join(events[:count]) + half
            assert not heard.ended, "whoever reads it must not take it for whole"


@pytest.mark.parametrize("path", REQUESTS)
async def test_garbage_between_events_passes_and_is_survived(path: str) -> None:
    head, events = await recorded(path)
    for count in range(len(events) + 1):
        said = [*events[:count], b"data: " + GARBAGE + b"\n", *events[count:]]
        parts = [*(chunked(event) for event in said), b"0\r\n\r\n"]
        async with asyncio.timeout(10), faulty(head, parts, None) as desk:
            heard = await desk.call(path, REQUESTS[path])
            call = await settled(desk, heard)
            assert heard.ended
            assert heard.body == b"".join(said)
            assert call.outcome is Outcome.ANSWERED


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("path", REQUESTS)
async def test_a_stream_in_crumbs_is_the_same_stream(path: str, size: int) -> None:
    head, events = await recorded(path)
    whole = b"".join(events)
    crumbs = [chunked(whole[at : at + size]) for at in range(0, len(whole), size)]
    async with asyncio.timeout(20), faulty(head, [*crumbs, b"0\r\n\r\n"], None) as desk:
        heard = await desk.call(path, REQUESTS[path])
        call = await settled(desk, heard)
        assert heard.body == whole
        assert (call.outcome, call.metered) == (Outcome.ANSWERED, Metered.REPORTED)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        GARBAGE,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
    ],
    ids=["nothing", "half", "garbage", "endless head"],
)
@pytest.mark.parametrize("misdeed", [cut, silence])
async def test_an_answer_that_is_none(answer: bytes, misdeed: Misdeed) -> None:
    path = "/openai/v1/chat/completions"
    async with asyncio.timeout(10), faulty(answer, [], misdeed) as desk:
        heard = await desk.call(path, {**REQUESTS[path], "stream": False})
        call = await settled(desk, heard)
        assert call.outcome is Outcome.FAILED
        if answer.endswith(b"{"):
            assert (heard.status, heard.ended) == (200, False)
        else:
            assert heard.status in {502, 504}
            assert heard.json["error"]["code"] in {"upstream_broke", "upstream_timed_out"}
        counted = {key: count for key, count in desk.gateway.office.counters.items() if key[0] is Outcome.FAILED}
        assert sum(counted.values()) == 1


async def test_a_report_nobody_can_believe_is_not_charged() -> None:
    path = "/openai/v1/chat/completions"
    for tokens in (-5, 1 << 70):
        body = b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1}}' % tokens
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        async with asyncio.timeout(10), faulty(head + body, [], None) as desk:
            heard = await desk.call(path, {**REQUESTS[path], "stream": False})
            call = await settled(desk, heard)
            assert heard.body == body
            assert call.metered is Metered.ESTIMATED
            assert 0 < call.usage.tokens < 1_000
