"""An upstream that dawdles, or an agent that hangs up or stops reading, at each event of each API: all ends well."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from homeostat.adapters.upstreams.http import HttpUpstream
from homeostat.core.records.call import Metered, Outcome
from homeostat.gateway.office import Manners
from homeostat.server import protocol
from homeostat.server.patience import Patience
from homeostat.server.serving import bind, serving_app, url_of
from homeostat.testing.gateways import ANN, KEY, Booth, booth, until
from tests.faults.test_gateway_faults import REQUESTS, chunked, recorded

PING = b": ping\n\n"
WATCHFUL = Manners(ping_seconds=0.002, patience_seconds=0.001, client_stall_seconds=60)
STRICT = Manners(ping_seconds=60, patience_seconds=0.001, client_stall_seconds=0.02)


class Source:
    """An upstream that sends its events one by one, each when it is let go."""

    def __init__(self, head: bytes, events: list[bytes]) -> None:
        self._parts = [head, *(chunked(event) for event in events), b"0\r\n\r\n"]
        self._allowed = 1
        self._moved = asyncio.Event()
        self.closed = asyncio.Event()

    def allow(self, events: int) -> None:
        self._allowed = 1 + events
        self._moved.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.create_task(self._watch(reader))
        with suppress(ConnectionError):
            for number, part in enumerate(self._parts):
                while number >= self._allowed and not self.closed.is_set():
                    self._moved.clear()
                    await self._moved.wait()
                writer.write(part)
                await writer.drain()
        await gone
        writer.close()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        self.closed.set()
        self._moved.set()


@asynccontextmanager
async def before(source: Source, manners: Manners) -> AsyncGenerator[Booth]:
    """A gateway in front of it, which holds nothing any more at the end."""
    listener = await asyncio.start_server(source.connected, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    upstream = HttpUpstream(name="test", url=f"http://127.0.0.1:{port}")
    try:
        async with booth(upstream=upstream, manners=manners) as desk:
            await desk.grant(tokens_max=1_000_000)
            yield desk
            await until(lambda: upstream.open_connections == upstream.idle_connections)
            assert desk.gateway.office.in_flight.total == 0
            assert await desk.gateway.in_flight(ANN) == 0
    finally:
        listener.close()


async def charged_once(desk: Booth) -> Any:
    (call,) = await desk.log()
    account = await desk.account()
    assert account.spent.tokens == call.usage.tokens
    assert account.held.tokens <= 1_000_000 - account.spent.tokens
    assert desk.gateway.office.counters == {(call.outcome, call.code): 1}, "each end is counted, once"
    return call


@pytest.mark.parametrize("path", REQUESTS)
async def test_slowness_before_any_event_holds_nothing_back_and_is_filled_with_comments(path: str) -> None:
    head, events = await recorded(path)
    source = Source(head, events)
    async with asyncio.timeout(60), before(source, WATCHFUL) as desk:
        conversation = desk.open(path, REQUESTS[path])
        talking = asyncio.create_task(desk.talk(conversation))
        heard = conversation.heard
        for count in range(len(events) + 1):
            source.allow(count)
            so_far = b"".join(events[:count])
            await until_heard(conversation, so_far)
            if 0 < count < len(events):
                pings = heard.body.count(PING)
                await until(lambda pings=pings: heard.body.count(PING) > pings)
        source.allow(len(events) + 1)
        await talking
        assert heard.ended
        assert heard.body.replace(PING, b"") == b"".join(events)
        call = await charged_once(desk)
        assert (call.outcome, call.metered) == (Outcome.ANSWERED, Metered.REPORTED)


async def until_heard(conversation: Any, said: bytes) -> None:
    await until(lambda: conversation.heard.body.replace(PING, b"") == said)


@pytest.mark.parametrize("path", REQUESTS)
async def test_an_agent_that_stops_reading_behind_any_event_is_given_up(path: str) -> None:
    head, events = await recorded(path)
    for count in range(len(events)):
        source = Source(head, events)
        async with asyncio.timeout(30), before(source, STRICT) as desk:
            conversation = desk.open(path, REQUESTS[path])
            talking = asyncio.create_task(desk.talk(conversation))
            source.allow(count)
            await until_heard(conversation, b"".join(events[:count]))
            conversation.reading.clear()
            source.allow(len(events) + 1)
            await talking
            call = await charged_once(desk)
            assert (call.outcome, call.code) == (Outcome.ABANDONED, "client_stalled")
            assert call.usage.tokens > 0


@pytest.mark.parametrize("path", REQUESTS)
async def test_an_agent_that_hangs_up_behind_any_event_cancels_the_upstream(path: str) -> None:
    head, events = await recorded(path)
    for count in range(len(events)):
        source = Source(head, events)
        async with asyncio.timeout(30), before(source, WATCHFUL) as desk:
            conversation = desk.open(path, REQUESTS[path])
            talking = asyncio.create_task(desk.talk(conversation))
            source.allow(count)
            await until_heard(conversation, b"".join(events[:count]))
            conversation.hang_up()
            await talking
            await source.closed.wait()
            call = await charged_once(desk)
            assert (call.outcome, call.code) == (Outcome.ABANDONED, "hung_up")
            assert call.metered in {Metered.ESTIMATED, Metered.RESERVED, Metered.REPORTED}


class Alone:
    """The gateway of a booth as a server's application."""

    def __init__(self, desk: Booth) -> None:
        self.patience = Patience()
        self._application = desk.gateway.application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)


async def test_a_deaf_agent_on_a_real_connection_is_cut_off_and_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is in the sockets' buffers is never read; neither connection may outlive the call."""
    monkeypatch.setattr(protocol, "FAREWELL_SECONDS", 0.05)
    path = "/openai/v1/chat/completions"
    head, events = await recorded(path)
    flood = events[1].replace(b'"content":"', b'"content":"' + b"word " * 20_000)
    source = Source(head, [events[0], *([flood] * 400)])
    source.allow(1_000)
    async with asyncio.timeout(60), before(source, STRICT) as desk:
        listener = bind("127.0.0.1", 0)
        async with serving_app(Alone(desk), listener) as server:
            port = int(url_of(listener).rsplit(":", 1)[1])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
            body = b'{"model":"gpt-4o-mini","messages":[],"max_tokens":40,"stream":true}'
            lines = b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n" % (KEY.encode(), len(body))
            writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\n" % path.encode() + lines + body)
            await source.closed.wait()
            while server.server_state.connections:  # noqa: ASYNC110 - nobody signals
                await asyncio.sleep(0.01)
            writer.close()
        call = await charged_once(desk)
        assert (call.outcome, call.code) == (Outcome.ABANDONED, "client_stalled")
