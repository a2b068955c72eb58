"""Requests in any shape and order get their answers, in order; whoever misbehaves is told, or hung up on."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from homeostat.server import protocol
from homeostat.server.cycle import Cycle
from homeostat.server.patience import Patience
from homeostat.server.serving import HttpServer, bind, serving_app, url_of

Handler = Callable[[Any, Any, Any], Awaitable[None]]


class Echo:
    """Answers with what it was asked; paths say how."""

    def __init__(self) -> None:
        self.patience = Patience()
        self.gone = asyncio.Event()
        self.going = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: C901 - one line per behaviour
        if scope["path"] == "/breaks":
            raise RuntimeError("on purpose")
        if scope["path"] == "/silent":
            return
        if scope["path"] == "/early":
            scope["extensions"]["homeostat.answer"](200, [], b"early")
            return
        body = b""
        more = True
        while more:
            message = await receive()
            assert message["type"] == "http.request", "nobody hangs up in the middle here"
            body += message["body"]
            more = message["more_body"]
        said = b"%b %b ?%b %d" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"], len(body))
        if scope["path"] == "/whole":
            scope["extensions"]["homeostat.answer"](200, [(b"x-kind", b"whole")], said)
        elif scope["path"] == "/waits":
            self.going.set()
            assert (await receive())["type"] == "http.disconnect"
            self.gone.set()
        elif scope["path"] == "/cut":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        elif scope["path"] == "/short":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
            await send({"type": "http.response.body", "body": b"half"})
        elif scope["path"] == "/smuggle":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y\r\nset-cookie: a=b")]})
        elif scope["path"] == "/sized":
            lines = [(b"content-length", b"%d" % len(said))]
            await send({"type": "http.response.start", "status": 200, "headers": lines})
            await send({"type": "http.response.body", "body": said})
        elif scope["path"] == "/none":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for piece in (said[:3], said[3:]):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b""})


class Hasty(Echo):
    """Answers some paths while it is being asked, and begins others that it has to think about."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Cycle] = []

    def quick(self, cycle: Cycle) -> bool:
        match cycle.raw_path:
            case b"/now":
                cycle.answer(200, [], b"now")
            case b"/later":
                cycle.perform(self._think(cycle))
            case b"/breaks":
                raise RuntimeError("on purpose")
            case b"/open":
                self.open.append(cycle)
                cycle.on_lost = self.gone.set
                self.going.set()
            case _:
                return False
        return True

    async def _think(self, cycle: Cycle) -> None:
        await asyncio.sleep(0)
        await cycle.reply(200, [], b"later")


@asynccontextmanager
async def talking(echo: Echo | None = None) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Any]]:
    echo = echo or Echo()
    listener = bind("127.0.0.1", 0)
    async with serving_app(echo, listener) as server:
        port = int(url_of(listener).rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer, server
        finally:
            writer.close()


async def ask(request: bytes, *, pieces: int = 1, echo: Echo | None = None) -> bytes:
    """Everything that is heard on a connection until it ends; the request is sent in so many pieces."""
    async with talking(echo) as (reader, writer, _), asyncio.timeout(30):
        step = -(-len(request) // pieces)
        for at in range(0, len(request), step):
            writer.write(request[at : at + step])
            await writer.drain()
            await asyncio.sleep(0)
        return await reader.read()


LAST = b"GET /sized HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
BYE = b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\nconnection: close\r\n\r\nGET /sized ? 0"


def post(path: str, body: bytes, lines: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%b\r\n%b" % (path.encode(), len(body), lines, body)


@pytest.mark.parametrize("pieces", [1, 2, 7, 60])
async def test_requests_in_pieces_and_one_after_the_other(pieces: int) -> None:
    heard = await ask(post("/whole?a=1", b"abc") + post("/%41/streamed", b"defg") + LAST, pieces=pieces)
    assert heard.startswith(b"HTTP/1.1 200 OK\r\nx-kind: whole\r\ncontent-length: 18\r\n\r\nPOST /whole ?a=1 3")
    assert b"transfer-encoding: chunked\r\n\r\n3\r\nPOS\r\n" in heard
    assert heard.count(b"0\r\n\r\n") == 1
    assert heard.endswith(BYE)


async def test_a_body_in_chunks_and_one_that_asks_first() -> None:
    chunked = b"POST /whole HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    heard = await ask(chunked + post("/whole", b"abc", b"expect: 100-continue\r\n") + LAST)
    assert b"POST /whole ? 5HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK" in heard
    assert heard.endswith(BYE)


async def test_heads_without_bodies() -> None:
    heard = await ask(b"HEAD /sized HTTP/1.1\r\nhost: x\r\n\r\n" + b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n" + LAST)
    assert heard == b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n" + BYE


async def test_old_clients_hear_until_the_connection_ends() -> None:
    heard = await ask(b"GET /streamed HTTP/1.0\r\n\r\n")
    assert heard == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nGET /streamed ? 0"


@pytest.mark.parametrize("pieces", [1, 9])
async def test_what_is_answered_at_once_keeps_its_place(pieces: int) -> None:
    asked = [b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path for path in (b"/now", b"/later", b"/now", b"/whole")]
    heard = await ask(b"".join(asked) * 15 + LAST, pieces=pieces, echo=Hasty())
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in heard.split(b"HTTP/1.1 200 OK\r\n")]
    assert bodies[1:] == [b"now", b"later", b"now", b"GET /whole ? 0"] * 15 + [b"GET /sized ? 0"]


async def test_what_fails_at_once_is_answered_for() -> None:
    heard = await ask(b"GET /breaks HTTP/1.1\r\nhost: x\r\n\r\n", echo=Hasty())
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close\r\n" in heard


async def test_whoever_answers_without_a_task_hears_that_its_client_is_gone() -> None:
    hasty = Hasty()
    async with talking(hasty) as (_, writer, _), asyncio.timeout(30):
        writer.write(b"GET /open HTTP/1.1\r\nhost: x\r\n\r\n")
        await hasty.going.wait()
        writer.close()
        await hasty.gone.wait()
        assert hasty.open[0].on_lost is None


@pytest.mark.parametrize("address", [b"/\xc3\xa4", b"http://x/\xff"])
async def test_an_address_that_is_not_in_ascii(address: bytes) -> None:
    assert (await ask(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % address)).startswith(b"HTTP/1.1 400 ")


async def test_an_address_in_its_long_form() -> None:
    heard = await ask(b"GET http://x/whole?q HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert heard.endswith(b"GET /whole ?q 0")


async def test_an_answer_before_the_question_has_ended_does_not_confuse_the_next_one() -> None:
    async with talking() as (reader, writer, _), asyncio.timeout(30):
        writer.write(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"x" * 50_000)
        assert (await reader.readuntil(b"early")).startswith(b"HTTP/1.1 200 OK")
        writer.write(b"x" * 150_000 + LAST)
        assert await reader.read() == BYE


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"NONSENSE\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 30_000 + b"\r\n", b"431"),
    ],
)
async def test_what_cannot_be_read_is_told_and_hung_up_on(request_: bytes, status: bytes) -> None:
    try:
        heard = await ask(request_)
    except ConnectionResetError:  # it was still speaking
        return
    assert heard.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in heard


@pytest.mark.parametrize(("path", "status"), [("/breaks", b"500"), ("/silent", b"500"), ("/smuggle", b"500")])
async def test_an_application_that_fails_is_answered_for(path: str, status: bytes) -> None:
    heard = await ask(post(path, b"") + LAST)
    assert heard.startswith(b"HTTP/1.1 " + status)
    assert b"set-cookie" not in heard
    assert heard.endswith(b'"code":"internal_error"}')


@pytest.mark.parametrize("path", ["/cut", "/short"])
async def test_half_an_answer_is_never_taken_for_a_whole_one(path: str) -> None:
    heard = await ask(post(path, b"") + LAST)
    assert b"half" in heard or path == "/short"
    assert not heard.endswith(b"0\r\n\r\n")
    assert BYE not in heard


async def test_the_application_hears_that_its_client_is_gone() -> None:
    echo = Echo()
    async with talking(echo) as (_, writer, _), asyncio.timeout(30):
        writer.write(post("/waits", b""))
        await echo.going.wait()
        writer.close()
        await echo.gone.wait()


async def test_a_client_that_falls_silent_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.server.serving.KEEP_ALIVE_SECONDS", 0.05)
    for said in (b"", b"GET / HT", post("/whole", b"abc")[:-1], post("/whole", b"")):
        async with talking() as (reader, writer, server), asyncio.timeout(30):
            writer.write(said)
            await reader.read()
            while server.server_state.connections:  # noqa: ASYNC110 - nobody signals
                await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_its_farewell_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "FAREWELL_SECONDS", 0.05)

    class Flood(Echo):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            del receive
            scope["extensions"]["homeostat.answer"](200, [(b"connection", b"close")], b"x" * (32 << 20))

    async with talking(Flood()) as (_, writer, server), asyncio.timeout(30):
        writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        writer.write(post("/", b""))
        await writer.drain()
        while not server.server_state.total_requests:  # noqa: ASYNC110 - nobody signals
            await asyncio.sleep(0.01)
        while server.server_state.connections:  # noqa: ASYNC110 - nobody signals
            await asyncio.sleep(0.01)


async def test_an_answered_request_leaves_nothing_for_the_collector() -> None:
    async with talking() as (reader, writer, _), asyncio.timeout(30):
        gc.collect()
        gc.disable()
        try:
            for path in ("/whole", "/sized"):
                writer.write(post(path, b"abc"))
                await reader.readuntil(b"? 3")
            await asyncio.sleep(0)
            left = [one for one in gc.get_objects() if isinstance(one, Cycle)]
        finally:
            gc.enable()
        assert not left


async def test_a_server_that_stops_answers_what_is_under_way() -> None:
    echo = Echo()
    listener = bind("127.0.0.1", 0)
    async with asyncio.timeout(30):
        async with serving_app(echo, listener) as server:
            assert isinstance(server, HttpServer)
            port = int(url_of(listener).rsplit(":", 1)[1])
            idle, waiting = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /sized HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nab")
            while len(server.server_state.tasks) < 1:  # noqa: ASYNC110 - nobody signals
                await asyncio.sleep(0.01)
            server.finish()
            assert await idle.read() == b""
            writer.write(b"c")
            heard = await reader.read()
            assert b"connection: close" in heard
            assert heard.endswith(b"POST /sized ? 3")
            waiting.close()
            writer.close()
