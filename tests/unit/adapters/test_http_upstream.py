"""The pool keeps connections and drops bad ones, times what is slow, and repeats nothing that was sent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from homeostat.adapters.upstreams.http import HttpLimits, HttpUpstream
from homeostat.core.errors import SettingInvalid
from homeostat.core.gateway_errors import UpstreamBroke, UpstreamFailed, UpstreamTimedOut, UpstreamUnreachable
from homeostat.core.ports.upstream import Pending, UpstreamRequest, UpstreamResponse
from homeostat.http.connection import Connection
from homeostat.testing.gateways import until

Handler = Callable[["Peer"], Awaitable[None]]
QUICK = HttpLimits(connect_seconds=2, first_byte_seconds=0.05, silence_seconds=0.05, sweep_seconds=0.01)
GET = UpstreamRequest(b"GET", b"/v1/models", [])


class Peer:
    """One connection as the other side sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> tuple[bytes, bytes]:
        """The next request's head and body; empty when the connection ends."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b"", b""
        lines = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        if b"content-length" in lines:
            return head, await self._reader.readexactly(int(lines[b"content-length"]))
        if lines.get(b"transfer-encoding") == b"chunked":
            body = b""
            while size := int(await self._reader.readline(), 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readline()
            return head, body
        return head, b""

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.close()

    async def gone(self) -> bool:
        return not await self._reader.read(1)


@asynccontextmanager
async def server(handler: Handler, **options: object) -> AsyncGenerator[HttpUpstream, None]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(Peer(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    upstream = HttpUpstream(name="test", url=f"http://127.0.0.1:{port}/base", **options)  # pyright: ignore[reportArgumentType]
    try:
        yield upstream
    finally:
        await upstream.close()
        listener.close()
        await asyncio.sleep(0)


def whole(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = b"".join(line + b"\r\n" for line in headers)
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, lines, len(body), body)


async def read(response: UpstreamResponse) -> bytes:
    parts: list[bytes] = []
    while part := await response.read():
        parts.append(part)
    return b"".join(parts)


def answering(*answers: bytes) -> tuple[Handler, list[tuple[bytes, bytes]]]:
    seen: list[tuple[bytes, bytes]] = []

    async def handle(peer: Peer) -> None:
        for answer in answers:
            head, body = await peer.request()
            if not head:
                return
            seen.append((head, body))
            await peer.say(answer)
        await peer.gone()

    return handle, seen


async def test_one_connection_carries_many_requests() -> None:
    handle, seen = answering(*(whole(b"answer %d" % n, b"x-a: b") for n in range(5)))
    async with server(handle, authorization=(b"authorization", b"Bearer sk-1"), secret="sk-1") as upstream:  # noqa: S106
        for n in range(5):
            request = UpstreamRequest(b"POST", b"/v1/x?y=1", [(b"x-c", b"d")], b"body %d" % n)
            response = await upstream.send(request)
            assert (response.status, await read(response)) == (200, b"answer %d" % n)
            assert (b"x-a", b"b") in response.headers
        assert upstream.connects == 1
        assert upstream.idle_connections == 1
    head, body = seen[-1]
    assert head.startswith(b"POST /base/v1/x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"authorization: Bearer sk-1\r\n" in head
    assert b"x-c: d\r\n" in head
    assert body == b"body 4"


async def test_what_is_said_behind_an_answer_is_none_of_its_headers() -> None:
    said = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nset-cookie: late\r\n\r\n"
    handle, _ = answering(said)
    async with server(handle) as upstream:
        response = await upstream.send(GET)
        assert await read(response) == b"a"
        assert [name for name, _ in response.headers] == [b"transfer-encoding"]


async def test_a_stream_arrives_as_it_is_sent() -> None:
    turn = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b"a", b"bc"):
            await turn.wait()
            turn.clear()
            await peer.say(b"%x\r\n%b\r\n" % (len(piece), piece))
        await turn.wait()
        await peer.say(b"0\r\n\r\n")
        await peer.gone()

    async with server(handle) as upstream:
        response = await upstream.send(GET)
        for piece in (b"a", b"bc", b""):
            assert not response.complete
            turn.set()
            assert await response.read() == piece
        assert response.complete


async def test_whoever_does_not_read_is_not_sent_more() -> None:
    sent = 0

    async def handle(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        for _ in range(2000):
            await peer.say(b"x" * 65_536)
            sent += 65_536

    async with server(handle, limits=QUICK) as upstream:
        response = await upstream.send(GET)
        quiet = -1
        while quiet != sent:
            quiet = sent
            await asyncio.sleep(0.15)  # longer than silence may last: a paused reader is not the upstream's fault
        assert sent < 32 << 20
        assert len(await read(response)) == 2000 * 65_536


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"ok"), 200, b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + whole(b"ok"), 200, b"ok"),
        (whole(b"no", status=b"500 Oops"), 500, b"no"),
        (whole(b""), 200, b""),
    ],
)
async def test_kinds_of_answers(answer: bytes, status: int, body: bytes) -> None:
    handle, _ = answering(answer, whole(b"next"))
    async with server(handle) as upstream:
        response = await upstream.send(GET)
        assert (response.status, await read(response)) == (status, body)
        assert await read(await upstream.send(GET)) == b"next"
        assert upstream.connects == 1


async def test_an_answer_may_end_with_its_connection() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")

    async with server(handle) as upstream:
        assert await read(await upstream.send(GET)) == b"until the end"
        await until(lambda: upstream.open_connections == 0)


async def test_a_head_has_no_body() -> None:
    handle, _ = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
    async with server(handle) as upstream:
        response = await upstream.send(UpstreamRequest(b"HEAD", b"/", []))
        assert (response.status, await read(response)) == (200, b"")


@pytest.mark.parametrize("sized", [True, False])
async def test_a_body_in_pieces(sized: bool) -> None:  # noqa: FBT001 - a parameter of the test
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b""
        yield b"two"

    handle, seen = answering(whole(b"ok"), whole(b"ok"))
    headers = [(b"content-length", b"7")] if sized else []
    async with server(handle) as upstream:
        for _ in range(2):
            assert await read(await upstream.send(UpstreamRequest(b"POST", b"/", headers, pieces()))) == b"ok"
        assert upstream.connects == 1
    assert [body for _, body in seen] == [b"one two", b"one two"]


# --- what goes wrong -------------------------------------------------------------------------------------------


async def test_nobody_there() -> None:
    upstream = HttpUpstream(name="test", url="http://127.0.0.1:1")
    with pytest.raises(UpstreamUnreachable):
        await upstream.send(GET)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1", "http://"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(SettingInvalid):
        HttpUpstream(name="test", url=url)


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"]
)
async def test_an_answer_that_never_begins_is_not_asked_for_again(said: bytes) -> None:
    requests = 0

    async def handle(peer: Peer) -> None:
        nonlocal requests
        await peer.request()
        requests += 1
        await peer.say(said)

    async with server(handle) as upstream:
        with pytest.raises(UpstreamBroke):
            await upstream.send(GET)
        assert requests == 1
        await until(lambda: upstream.open_connections == 0)


@pytest.mark.parametrize(
    "framing", [b"content-length: 100\r\n\r\nhalf", b"transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
)
async def test_an_answer_that_breaks_off(framing: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n" + framing)

    async with server(handle) as upstream:
        response = await upstream.send(GET)
        assert await response.read() == b"half"
        with pytest.raises(UpstreamBroke):
            await response.read()


async def test_garbage_in_the_middle() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nZZZ\r\n")
        await peer.gone()

    async with server(handle) as upstream:
        response = await upstream.send(GET)
        with pytest.raises(UpstreamBroke):
            await read(response)


async def test_more_than_was_asked_for_is_not_taken_for_the_next_answer() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(whole(b"one") + whole(b"smuggled"))
        await peer.gone()

    async with server(handle) as upstream:
        for _ in range(2):
            assert await read(await upstream.send(GET)) == b"one"
        assert upstream.connects == 2


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"])
async def test_silence_is_timed(said: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        await peer.gone()

    async with server(handle, limits=QUICK) as upstream:
        with pytest.raises(UpstreamTimedOut) as error:
            await read(await upstream.send(GET))
        assert ("first byte" in str(error.value)) == (said == b"")
        await until(lambda: upstream.open_connections == 0)


async def test_letting_go_cancels_upstream() -> None:
    left = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        assert await peer.gone()
        left.set()

    async with server(handle) as upstream:
        response = await upstream.send(GET)
        reading = asyncio.create_task(read(response))
        await asyncio.sleep(0)
        response.close()
        with pytest.raises(UpstreamFailed):
            await reading
        await left.wait()
        await until(lambda: upstream.open_connections == 0)


async def test_a_cancelled_call_leaves_no_connection_behind() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.request()
        asked.set()
        assert await peer.gone()
        left.set()

    async with server(handle) as upstream:
        sending = asyncio.create_task(upstream.send(GET))
        await asked.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await left.wait()
        await until(lambda: upstream.open_connections == 0)


async def test_a_call_that_is_cancelled_when_its_answer_is_here_spares_whoever_has_its_connection_now() -> None:
    handle, _ = answering(whole(b"first"), whole(b"second"))
    loop = asyncio.get_running_loop()
    async with server(handle) as upstream:
        sending = asyncio.create_task(upstream.send(GET))
        arrived = asyncio.Event()
        found: list[Pending] = []

        def look() -> None:
            """In the round of the loop in which the connection is free again, before the one who waits is told."""
            if not upstream.idle_connections:
                loop.call_soon(look)
                return
            assert not sending.done()
            pending = upstream.send_at_once(GET, arrived.set)
            assert pending is not None
            found.append(pending)
            sending.cancel()

        loop.call_soon(look)
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(10):
            await arrived.wait()
        assert (found[0].status, found[0].error, found[0].take()) == (200, None, b"second")
        assert upstream.connects == 1


async def test_a_connection_the_other_side_closed_is_not_used_again() -> None:
    handle, _ = answering(whole(b"ok"))

    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.say(whole(b"ok"))

    del handle
    async with server(once) as upstream:
        for _ in range(3):
            assert await read(await upstream.send(GET)) == b"ok"
            await until(lambda: not upstream.open_connections)
        assert upstream.connects == 3


async def test_connections_are_bounded_and_shared_in_turn() -> None:
    busy = most = 0

    async def handle(peer: Peer) -> None:
        nonlocal busy, most
        while (await peer.request())[0]:
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            await peer.say(whole(b"ok"))

    async def ask(upstream: HttpUpstream) -> bytes:
        return await read(await upstream.send(GET))

    async with server(handle, limits=HttpLimits(connections_max=3)) as upstream:
        assert set(await asyncio.gather(*(ask(upstream) for _ in range(40)))) == {b"ok"}
        assert upstream.connects == 3
        assert most <= 3


async def test_room_that_somebody_gave_up_is_the_next_ones() -> None:
    arrived, answer_now = asyncio.Event(), asyncio.Event()

    async def handle(peer: Peer) -> None:
        while (await peer.request())[0]:
            arrived.set()
            await answer_now.wait()
            await peer.say(whole(b"ok"))

    async with server(handle, limits=HttpLimits(connections_max=1, connect_seconds=5)) as upstream:
        first = asyncio.create_task(upstream.send(GET))
        await arrived.wait()
        quitter, patient = (asyncio.create_task(upstream.send(GET)) for _ in range(2))
        await asyncio.sleep(0)
        (connection,) = upstream._open
        released = connection._released

        def told_and_gone(freed: Connection) -> None:
            released(freed)
            quitter.cancel()  # before it could do anything with the room

        connection._released = told_and_gone
        answer_now.set()
        await read(await first)
        assert await read(await asyncio.wait_for(patient, 4)) == b"ok"
        assert quitter.cancelled()


async def test_idle_connections_are_closed() -> None:
    handle, _ = answering(whole(b"ok"))
    async with server(handle, limits=HttpLimits(idle_seconds=0.02, sweep_seconds=0.01)) as upstream:
        await read(await upstream.send(GET))
        await until(lambda: not upstream.open_connections)
        assert upstream.idle_connections == 0


@pytest.mark.parametrize("cut", [0, 10, 24])
async def test_a_key_that_is_repeated_is_starred_out(cut: int) -> None:
    secret = "sk-planted-secret"  # noqa: S105 - it is meant to be found
    body = b"Incorrect API key: " + secret.encode() + b"."

    async def handle(peer: Peer) -> None:
        await peer.request()
        answer = whole(body, b"x-echo: " + secret.encode(), status=b"401 Unauthorized")
        at = len(answer) - len(body) + cut
        await peer.say(answer[:at])
        await asyncio.sleep(0.01)
        await peer.say(answer[at:])
        await peer.gone()

    async with server(handle, secret=secret, authorization=(b"x-api-key", secret.encode())) as upstream:
        response = await upstream.send(GET)
        heard = await read(response)
        assert len(heard) == len(body)
        assert secret.encode() not in heard + b"".join(value for _, value in response.headers)
        assert b"Incorrect API key: ***" in heard
