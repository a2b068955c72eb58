"""One request and its answer on a connection: what the application hears, and what it says, as bytes on the wire."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import unquote

from homeostat.gateway.asgi import Repeated

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
HeaderLines = list[tuple[bytes, bytes]]
Work = Coroutine[Any, Any, None]
App = Callable[[Any, Any, Any], Work]

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
BODILESS: Final = frozenset({204, 304})
COPIED_BYTES_MAX: Final = 64 << 10  # a longer body is not copied to save a write
UNREAD_BYTES_MAX: Final = 64 << 10  # of a body, before the client is asked to wait
BROKEN: Final = b'{"type":"about:blank","title":"Internal server error","status":500,"code":"internal_error"}'
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})
CHUNKED: Final = (b"transfer-encoding", b": ", b"chunked", b"\r\n")
CLOSING: Final = (b"connection", b": ", b"close", b"\r\n")
LAST_CHUNK: Final = b"0\r\n\r\n"
GONE: Final[Message] = {"type": "http.disconnect"}


class Wire(Protocol):
    """The connection, as far as an answer needs it."""

    transport: asyncio.Transport
    write_paused: bool

    async def drain(self) -> None:
        """Until the client has taken what it was sent."""
        ...

    def resume_reading(self) -> None: ...

    def perform(self, cycle: "Cycle", work: Work) -> object:
        """Have a task do the work of a request."""
        ...

    def finished(self, cycle: "Cycle") -> None:
        """An answer is complete."""
        ...

    def left(self, cycle: "Cycle") -> None:
        """The application is done with a request."""
        ...

    def hang_up(self) -> None:
        """Close the connection, once the client has taken what it was sent or has had its time to."""
        ...


class Known(Repeated, Protocol):
    """A head that was said before, but for the length of the body."""

    def lines(self, length: int) -> HeaderLines: ...


class Cycle:
    """A request under way. `answer` sends a whole answer in one write; `send` is ASGI's way, and streams.

    It does not hold the scope, which holds it: what is answered is gone without a collector having to find it. Whoever
    answers without a task sets `on_lost` to hear of a client that leaves, and forgets it with the answer.
    """

    __slots__ = (
        "_chunked",
        "_head",
        "_headers",
        "_left",
        "_pieces",
        "_told",
        "_waiter",
        "_wire",
        "awaits_continue",
        "bodiless",
        "complete",
        "gone",
        "head",
        "keep_alive",
        "length",
        "method",
        "more_body",
        "old",
        "on_drained",
        "on_lost",
        "query",
        "raw_path",
        "started",
        "task",
        "unread",
    )

    def __init__(
        self,
        wire: Wire,
        method: str,
        raw_path: bytes,
        query: bytes,
        headers: HeaderLines | None,
        *,
        keep_alive: bool = True,
        old: bool = False,
        awaits_continue: bool = False,
    ) -> None:
        self._wire = wire
        self.method = method
        self.raw_path = raw_path
        self.query = query
        self._headers = headers  # None where its head is known: few ask for them then
        self.keep_alive = keep_alive
        self.old = old
        self.bodiless = method == "HEAD"
        self.awaits_continue = awaits_continue
        self.head: Known | None = None
        self.length = 0  # as a head that is known said it
        self.on_lost: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.more_body = True
        self.unread = 0
        self.started = False
        self.complete = False
        self.gone = False
        self.task: asyncio.Task[None] | None = None
        self._pieces: list[bytes] = []
        self._told = False
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._chunked = False
        self._left: int | None = None

    @property
    def headers(self) -> HeaderLines:
        if self._headers is None:
            assert self.head is not None, "what has no lines has a head that is known"
            self._headers = self.head.lines(self.length)
        return self._headers

    @property
    def path(self) -> str:
        path = self.raw_path.decode("ascii")
        return unquote(path) if "%" in path else path

    async def run(self, work: Awaitable[None]) -> None:
        """Let the application answer; whatever becomes of it, the client is not left waiting."""
        try:
            await work
        except asyncio.CancelledError:
            self._wire.transport.abort()
            raise
        except Exception:
            log.exception("%s %s failed", self.method, self.path)
        finally:
            self._wire.left(self)
        self.give_up()

    def perform(self, work: Work) -> None:
        """Have a task do what is left to do."""
        self._wire.perform(self, work)

    def give_up(self) -> None:
        """Nothing more will be said: the client is told so, unless it has its answer."""
        if not self.complete and not self.gone:
            if self.started:
                self.flush()
                self._wire.hang_up()  # in the middle of an answer, so that nobody takes it for whole
            else:
                self.keep_alive = False
                self.answer(500, [(b"content-type", b"application/problem+json")], BROKEN)

    # --- what the connection tells -----------------------------------------------------------------------------

    def put(self, body: bytes) -> None:
        self._pieces.append(body)
        self.unread += len(body)
        self._wake()

    def end(self) -> None:
        self.more_body = False
        self._wake()

    def put_whole(self, body: bytes) -> None:
        """All of a body at once, before anybody waits for it."""
        self._pieces.append(body)
        self.unread = len(body)
        self.more_body = False

    def lose(self) -> None:
        """The client is gone."""
        if not self.complete:
            self.gone = True
            lost, self.on_lost, self.on_drained = self.on_lost, None, None
            if lost is not None:
                lost()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what the application asks -----------------------------------------------------------------------------

    async def receive(self) -> Message:
        if self.awaits_continue:
            self.awaits_continue = False
            if not self.gone:
                self._wire.transport.write(CONTINUE)
        while not self.gone and not self.complete:
            if self._pieces or not (self.more_body or self._told):
                return self._take()
            self._wire.resume_reading()
            await self._wait()
        return GONE

    def take_whole(self) -> bytes | None:
        """The whole body, if it has come and nothing of it was taken yet; else it has to be waited for."""
        body = self.whole()
        if body is not None:
            self._pieces = []
            self.unread = 0
            self._told = True
        return body

    def whole(self) -> bytes | None:
        """As `take_whole`, and all of it is left where it is."""
        if self.more_body or self._told or self.gone or self.awaits_continue:
            return None
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take(self) -> Message:
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        self.unread = 0
        self._told = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def answer(self, status: int, headers: HeaderLines, body: bytes) -> None:
        """The whole answer at once; its length is told here where the headers do not."""
        if self.gone:
            return
        assert not self.started, "an answer is given once"
        head = self._compose(status, headers, len(body))
        self.started = True
        if self.bodiless or status in BODILESS:
            body = b""
        self._write(head, body)
        self._finish()

    def answer_as_written(self, status: int, lines: tuple[bytes, ...], body: bytes) -> None:
        """As `answer`, with headers as HTTP writes them, in pieces. The length is among them, and no other framing."""
        if self.gone:
            return
        assert not self.started, "an answer is given once"
        self.started = True
        first = STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        if self.bodiless or len(body) > COPIED_BYTES_MAX:
            self._write(b"".join([first, *lines, end]), b"" if self.bodiless else body)
        else:
            self._wire.transport.write(b"".join([first, *lines, end, body]))
        self._finish()

    async def reply(self, status: int, headers: HeaderLines, body: bytes) -> None:
        """As `answer`, for whoever does not know that it takes no time."""
        self.answer(status, headers, body)

    async def send(self, message: Message) -> None:
        wire = self._wire
        if not self.gone and wire.write_paused:
            await wire.drain()
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self.start(message["status"], message.get("headers", ()))
            asyncio.get_running_loop().call_soon(self.flush)
        else:
            self.push(message.get("body", b""), more=message.get("more_body", False))

    @property
    def write_paused(self) -> bool:
        """Whether the client has not taken what it was sent."""
        return self._wire.write_paused

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Begin an answer; its head waits a moment for the first part of the body."""
        if self.gone:
            return
        assert not self.started, "an answer begins once"
        self.awaits_continue = False
        self._head = self._compose(status, headers, None)
        self.started = True
        self.bodiless = self.bodiless or status in BODILESS

    def push(self, body: bytes, *, more: bool) -> None:
        """The next part of an answer, or the last."""
        if self.gone:
            return
        assert self.started, "an answer begins with its head"
        assert not self.complete, "an answer ends once"
        if self.bodiless:
            body = b""
        elif self._chunked:
            if body:
                body = b"%x\r\n%b\r\n" % (len(body), body) if more else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            elif not more:
                body = LAST_CHUNK
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the answer is not as long as its head says")
        head, self._head = self._head, b""
        self._write(head, body)
        if not more:
            self._finish()

    def _compose(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None) -> bytes:
        """The head of an answer. Without a length of either kind it is sent in chunks, or until the connection ends."""
        parts = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        keep_alive, sized = self.keep_alive, False
        for name, value in headers:
            if name in FRAMING:
                if name == b"content-length":
                    sized = True
                    self._left = None if self.bodiless else int(value)
                elif name == b"connection":
                    keep_alive = keep_alive and b"close" not in value.lower()
                    continue
                else:
                    continue  # how an answer is cut is ours to say
            parts += (name, b": ", value, b"\r\n")
        if not sized and status not in BODILESS:
            if length is not None:
                parts += (b"content-length", b": ", b"%d" % length, b"\r\n")
            elif self.old:
                keep_alive = False
            else:
                self._chunked = True
                parts += CHUNKED
        self.keep_alive = keep_alive
        if not keep_alive:
            parts += CLOSING
        parts.append(b"\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != 2 + len(parts) // 4:  # four parts make a line, and the first and the last are one each
            raise ValueError("a header has a line break in it")
        return head

    def _write(self, head: bytes, body: bytes) -> None:
        write = self._wire.transport.write
        if head and body and len(body) > COPIED_BYTES_MAX:
            write(head)
            write(body)
        elif head or body:
            write(head + body if body else head)

    def flush(self) -> None:
        """A head whose body takes its time goes ahead."""
        if self._head and not self.gone:
            head, self._head = self._head, b""
            self._wire.transport.write(head)

    def _finish(self) -> None:
        self.complete = True
        if self._waiter is not None:
            self._wake()
        self._wire.finished(self)
