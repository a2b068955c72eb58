"""One HTTP/1.1 connection to an upstream, be that a provider or our own server: it is read as fast as it is wanted."""

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import TYPE_CHECKING, cast

import httptools

from homeostat.core.gateway_errors import UpstreamBroke, UpstreamFailed
from homeostat.core.limits import UPSTREAM_BUFFER_BYTES_MAX, UPSTREAM_HEADER_BYTES_MAX
from homeostat.core.ports.upstream import Headers
from homeostat.http.plain_answers import Lines, header_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Released = Callable[["Connection"], None]

NEVER = float("inf")


class Answer:
    """The answer to one request: its head, and what has arrived of its body and not been read yet."""

    __slots__ = (
        "_blocks",
        "_connection",
        "_headers",
        "_lines",
        "_paused",
        "_size",
        "_waiter",
        "arrived",
        "complete",
        "error",
        "status",
        "written",
    )

    def __init__(self, connection: "Connection") -> None:
        self.status = 0
        self.written = b""
        self.complete = False
        self.error: UpstreamFailed | None = None
        self.arrived: Callable[[], None] | None = None
        self._blocks: list[bytes] = []
        self._lines: list[bytes] = []
        self._headers: Headers | None = None
        self._size = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._connection: Connection | None = connection

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = [header_of(line) for line in self._lines]
        return self._headers

    async def read(self) -> bytes:
        if not self._blocks and not self.complete:
            if self.error is not None:
                raise self.error
            await self.wait()
        return self.take()

    def close(self) -> None:
        self.arrived = None
        if self._connection is not None:
            self.fail(UpstreamBroke(upstream=self._connection.upstream, problem="it was cancelled"))
        elif self.error is None:
            self._blocks.clear()
            self.complete = True

    async def wait(self) -> None:
        """Until the head, the next block, the end or a failure is here."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take(self) -> bytes:
        blocks = self._blocks
        if not blocks:
            if self.error is not None:
                raise self.error
            return b""
        data = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        blocks.clear()
        self._size = 0
        if self._paused and self._connection is not None:
            self._paused = False
            self._connection.resume()
        return data

    # --- the connection's side -----------------------------------------------------------------------------

    def begin(self, status: int, headers: Headers) -> None:
        self.status = status
        self._headers = headers
        if self._waiter is not None:
            self._wake()

    def put(self, block: bytes) -> None:
        self._blocks.append(block)
        self._size += len(block)
        if self._size > UPSTREAM_BUFFER_BYTES_MAX and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.pause()
        if self._waiter is not None:
            self._wake()

    def arrive(self, status: int, lines: list[bytes], written: bytes, body: bytes) -> None:
        """All of it has come at once."""
        self.status = status
        self._lines = lines
        self.written = written
        if body:
            self._blocks.append(body)
            self._size = len(body)
        self.end()

    def end(self) -> None:
        self.complete = True
        self._connection = None
        if self._waiter is not None:
            self._wake()

    def fail(self, error: UpstreamFailed) -> None:
        """Break off; what has arrived can still be read."""
        connection, self._connection = self._connection, None
        if self.complete or self.error is not None:
            return
        self.error = error
        self._wake()
        if connection is not None:
            connection.abort()
        if self.arrived is not None:
            self.arrived()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """A connection of the pool; it carries one exchange at a time and is given back between two."""

    __slots__ = (
        "_answer",
        "_bodiless",
        "_drained",
        "_header_bytes",
        "_headers",
        "_lines",
        "_loop",
        "_parser",
        "_parsing",
        "_released",
        "_sending",
        "_transport",
        "closed",
        "deadline",
        "idle_seconds",
        "idle_since",
        "late",
        "upstream",
    )

    def __init__(
        self, upstream: str, loop: asyncio.AbstractEventLoop, released: Released, lines: Lines | None = None
    ) -> None:
        self.upstream = upstream
        self.closed = False
        self.deadline = NEVER
        self.late = ""
        self.idle_since = 0.0
        self.idle_seconds = NEVER
        self._loop = loop
        self._released = released
        self._transport: asyncio.Transport | None = None
        self._lines = lines or Lines()
        self._parser = httptools.HttpResponseParser(self)
        self._parsing = False
        self._answer: Answer | None = None
        self._headers: Headers = []
        self._header_bytes = 0
        self._bodiless = False
        self._sending = False
        self._drained: asyncio.Future[None] | None = None

    # --- sending -------------------------------------------------------------------------------------------

    def send(
        self, head: tuple[bytes, ...], body: bytes, *, bodiless: bool, first_byte_seconds: float, idle_seconds: float
    ) -> Answer:
        """Put a whole request on the wire."""
        answer = self._open(bodiless=bodiless, idle_seconds=idle_seconds)
        self.deadline = self._loop.time() + first_byte_seconds
        self.late = "before the first byte"
        transport = self._transport
        assert transport is not None
        if len(body) < UPSTREAM_HEADER_BYTES_MAX:
            transport.write(b"".join([*head, body]))
        else:
            transport.write(b"".join(head))
            transport.write(body)
        return answer

    async def send_pieces(
        self,
        head: tuple[bytes, ...],
        body: AsyncIterable[bytes],
        *,
        chunked: bool,
        bodiless: bool,
        first_byte_seconds: float,
        idle_seconds: float,
    ) -> Answer:
        """Put a request on the wire piece by piece, no faster than the upstream takes it."""
        answer = self._open(bodiless=bodiless, idle_seconds=idle_seconds)
        self._sending = True
        self._wire.write(b"".join(head))
        async for piece in body:
            if answer.error is not None or answer.complete:
                break
            if piece:
                self._wire.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if self._drained is not None:
                await self._drained
        if chunked and answer.error is None and not answer.complete:
            self._wire.write(b"0\r\n\r\n")
        self._sending = False
        if answer.complete:
            self._release()
        elif answer.status == 0:
            self.deadline = self._loop.time() + first_byte_seconds
            self.late = "before the first byte"
        return answer

    def _open(self, *, bodiless: bool, idle_seconds: float) -> Answer:
        assert self._answer is None, "a connection carries one exchange at a time"
        self._bodiless = self._parsing = bodiless
        self.idle_seconds = idle_seconds
        self._answer = answer = Answer(self)
        return answer

    @property
    def _wire(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    # --- what the answer's reader asks for -------------------------------------------------------------------

    def pause(self) -> None:
        self.deadline = NEVER  # whoever does not read cannot call the upstream silent
        self._wire.pause_reading()

    def resume(self) -> None:
        if not self.closed:
            self.deadline = self._loop.time() + self.idle_seconds
            self._wire.resume_reading()

    def abort(self) -> None:
        """Hang up at once."""
        self.closed = True
        self.deadline = NEVER
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.fail(UpstreamBroke(upstream=self.upstream, problem="the connection was given up"))
        if self._transport is not None:
            self._transport.abort()

    def expire(self, error: UpstreamFailed) -> None:
        """The upstream was silent for too long."""
        if self._answer is not None:
            self._answer.fail(error)
        self.abort()

    # --- asyncio's side ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.deadline = NEVER
        self.resume_writing()
        answer, self._answer = self._answer, None
        if answer is not None:
            if exc is None and answer.status and not _delimited(answer.headers):
                answer.end()
                if answer.arrived is not None:
                    answer.arrived()
            else:
                answer.fail(UpstreamBroke(upstream=self.upstream, problem=str(exc or "the connection was closed")))
        self._released(self)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()  # nobody asked
            return
        if not self._parsing:
            if (plain := self._lines.read(data)) is not None:
                status, lines, written, body = plain
                answer.arrive(status, lines, written, body)
                self._finished()
                if answer.arrived is not None:
                    answer.arrived()
                return
            self._parsing = True
        self.deadline = self._loop.time() + self.idle_seconds
        self.late = "in the middle of its answer"
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._garbled("it switched protocols")
        except httptools.HttpParserError as problem:
            self._garbled(f"it does not speak HTTP ({problem})")
        if answer.arrived is not None:
            answer.arrived()

    def _garbled(self, problem: str) -> None:
        if self._answer is not None:
            self._answer.fail(UpstreamBroke(upstream=self.upstream, problem=problem))
        self.abort()

    # --- the parser's side --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.abort()  # more than was asked for
        self._headers = []
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > UPSTREAM_HEADER_BYTES_MAX:
            self._garbled("its headers are too large")
            return
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        answer = self._answer
        status = self._parser.get_status_code()
        if answer is None or status < 200:
            return
        answer.begin(status, self._headers)
        self._headers = []  # trailers may follow, which are no headers: whoever reads has these by now
        if self._bodiless:
            self._finish(answer, keep=False)  # the parser would wait for the body that a HEAD only describes

    def on_body(self, body: bytes) -> None:
        if self._answer is not None:
            self._answer.put(body)

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is not None and answer.status:
            self._finish(answer, keep=self._parser.should_keep_alive())

    def _finish(self, answer: Answer, *, keep: bool) -> None:
        answer.end()
        if keep:
            self._finished()
        else:
            self._answer = None
            self.deadline = NEVER
            self.closed = True
            self._wire.close()

    def _finished(self) -> None:
        """The answer has ended, and the connection stays."""
        self._answer = None
        self.deadline = NEVER
        if not self._sending:
            self._release()

    def _release(self) -> None:
        if not self.closed:
            self.idle_since = self._loop.time()
            self._released(self)


def _delimited(headers: "Sequence[tuple[bytes, bytes]]") -> bool:
    """Whether the end of the body can be told without the connection's end."""
    for name, value in headers:
        if name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            return True
    return False
