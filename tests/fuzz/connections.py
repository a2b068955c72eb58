"""Targets: HTTP/1.1 as our server, our upstream connections and a worker's control desk read it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httptools

from homeostat.client.control import ControlDesk, Rejected
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.gateway.asgi import ANSWER
from homeostat.http.connection import Answer, Connection
from homeostat.server.cycle import App
from homeostat.server.protocol import LeanProtocol
from homeostat.testing.clock import ManualClock
from tests.fuzz.harness import StillLoop, Wire, pieces, target

WORDS = (
    b"\r\n", b"\r\n\r\n", b"GET ", b"POST ", b"HEAD ", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"content-length: ",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: ", b"connection: close\r\n", b"connection: upgrade\r\n",
    b"upgrade: websocket\r\n", b"expect: 100-continue\r\n", b"host: x\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"%41",
    b"http://x/y", b"?a=b#c", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 \r\n", b";x=y",
    b"ffffffffffffffff\r\n", b"-1", b"\0",
)  # fmt: skip

Heard = tuple[str, bytes, bytes, tuple[tuple[bytes, bytes], ...], bytes]


class Served:
    """One connection to the server, and what its application heard."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.loop = StillLoop()
        self.wire = Wire()
        config = SimpleNamespace(
            loaded=True, loaded_app=cast("App", self._app), timeout_keep_alive=5, ws_protocol_class=None
        )
        state = SimpleNamespace(connections=set(), tasks=set(), total_requests=0)
        self.protocol = LeanProtocol(cast("Any", config), cast("Any", state), {}, cast("Any", self.loop))
        self.protocol.connection_made(cast("Any", self.wire))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        asked = (scope["method"], scope["raw_path"], scope["query_string"], tuple(scope["headers"]), body)
        self.heard.append(asked)
        if len(body) % 2:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"streamed"})
        else:
            scope["extensions"][ANSWER](200, [], b"ok")

    def take(self, blocks: list[bytes]) -> None:
        asyncio.events._set_running_loop(cast("Any", self.loop))
        try:
            for block in blocks:
                if self.wire.closing:
                    break
                self.protocol.data_received(block)
                self.loop.settle()
                assert not self.wire.paused or self.wire.closing, "it waits for what it does not read"
            self.protocol.connection_lost(None)
            self.loop.settle()
        finally:
            asyncio.events._set_running_loop(None)
            self.loop.close()


class Answers:
    """Counts the answers in what a server said."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.statuses.append(self.parser.get_status_code())


@target(
    b"\2\5\x30POST /a?b=c HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabcGET /%41 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"\1\x40POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n3;e\r\nabc\r\n0\r\n\r\n",
    b"\0GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    b"\0GET http://x/y#z HTTP/1.0\r\n\r\n",
    words=WORDS,
)
def requests(data: bytes) -> None:
    """Requests are heard the same wherever they are cut, nothing waits for ever, and every answer is HTTP."""
    stream, cut = pieces(data)
    if b"HEAD " in stream or b"CONNECT " in stream:
        return  # answers without a body cannot be counted without knowing what was asked
    whole, parts = Served(), Served()
    whole.take([stream])
    parts.take(cut)
    assert parts.heard[: len(whole.heard)] == whole.heard, "where it is cut matters"
    for served in (whole, parts):
        answers = Answers()
        if served.wire.written:
            answers.parser.feed_data(bytes(served.wire.written))
        finals = [status for status in answers.statuses if status >= 200]
        assert finals.count(200) == len(served.heard), "an answer is missing, or one too many"
        assert len(finals) - finals.count(200) <= 1, "it went on after it could not read"


class Asked:
    """One exchange with an upstream that says what it likes."""

    def __init__(self, *, bodiless: bool) -> None:
        self.loop = StillLoop()
        self.wire = Wire()
        self.released: list[Connection] = []
        self.connection = Connection("x", cast("Any", self.loop), self.released.append)
        self.connection.connection_made(cast("Any", self.wire))
        self.answer = self.connection.send(
            (b"GET / HTTP/1.1\r\n\r\n",), b"", bodiless=bodiless, first_byte_seconds=1, idle_seconds=1
        )
        self.body = b""

    def take(self, blocks: list[bytes]) -> tuple[object, ...]:
        answer = self.answer
        for block in blocks:
            if self.wire.closing:
                break
            self.connection.data_received(block)
            self.body += _read(answer)
            assert not self.wire.paused or self.wire.closing, "it waits for what it does not read"
        if not self.wire.closing:
            self.connection.connection_lost(None)
        assert answer.complete or isinstance(answer.error, UpstreamFailed), "an answer neither ends nor fails"
        self.body += _read(answer)
        return answer.status, tuple(answer.headers), self.body, answer.complete


def _read(answer: Answer) -> bytes:
    return answer.take() if answer._blocks else b""


@target(
    b"\0\2\5\x30HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello",
    b"\0\1\x41HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\ntrailer: x\r\n\r\n",
    b"\0\0HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end",
    b"\1\0HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
    b"\0\0HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    words=WORDS,
)
def upstreams(data: bytes) -> None:
    """An upstream's answer ends or fails as `UpstreamFailed`, and says the same wherever it is cut."""
    if not data:
        return
    stream, cut = pieces(data[1:])
    bodiless = bool(data[0] & 1)
    whole = Asked(bodiless=bodiless).take([stream] if stream else [])
    parts = Asked(bodiless=bodiless).take(cut)
    assert whole == parts, "where it is cut matters"


class Script:
    """A reader that has everything already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def readuntil(self, mark: bytes) -> bytes:
        at = self._data.find(mark)
        if at < 0:
            raise asyncio.IncompleteReadError(self._data, None)
        said, self._data = self._data[: at + len(mark)], self._data[at + len(mark) :]
        return said

    async def readexactly(self, size: int) -> bytes:
        if size > len(self._data):
            raise asyncio.IncompleteReadError(self._data, size)
        return self._data[:size]


async def _never(agent_id: str, action: RemedyAction) -> tuple[Applied, str]:
    raise AssertionError(f"{action} of {agent_id} was followed, and nobody signed it")


DESK = ControlDesk(public_key="d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", project="p",
                   treat=_never, clock=ManualClock())  # fmt: skip


@target(
    b'POST /control/reset-memory HTTP/1.1\r\ncontent-length: 31\r\n\r\n{"agent_id":"a","project":"p"}',
    b"GET / HTTP/1.1\r\n\r\n",
    words=(*WORDS, b"/control/", b"x-homeostat-signature: ", b"x-homeostat-nonce: ", b"\xb2", b"9" * 40),
)
def orders_of_control(data: bytes) -> None:
    """Whatever comes to a worker's desk is refused as `Rejected` unless the server signed it."""
    try:
        DESK._follow(cast("Any", Script(data))).send(None)
    except (Rejected, asyncio.IncompleteReadError):
        return
    raise AssertionError("an order waits for something")
