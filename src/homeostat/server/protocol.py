"""HTTP/1.1 as our routes need it: a request begins when what has come of it is read, and is answered in one write.

It stands in the place of the server's own protocol, under the same application.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from homeostat.core.urgency import urgent_context
from homeostat.gateway.asgi import ANSWER, BODY
from homeostat.server.cycle import UNREAD_BYTES_MAX, App, Cycle, HeaderLines, Work
from homeostat.server.heads import HEADS_LEARNT_MAX, Head, learn, target_of
from homeostat.server.turnstile import AT_ONCE, BY_A_TASK, Turnstile, is_control

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

log = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 64 << 10  # the first line and the headers of a request
PIPELINED_MAX: Final = 64  # requests that wait behind one another on a connection
FAREWELL_SECONDS: Final = 10.0  # how long a client that is hung up on may take to read the rest
ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
TOO_LARGE: Final = b"431 Request Header Fields Too Large"
MALFORMED: Final = b"400 Bad Request"


class LeanProtocol(asyncio.Protocol):
    """One connection of a client. Requests that follow one another too fast wait for their turn."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        turnstile: Turnstile | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config = config
        self._app = cast("App", config.loaded_app)
        self._quick = cast("Callable[[Cycle], bool] | None", getattr(self._app, "quick", None))
        self._state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._turnstile = turnstile or Turnstile()
        self._patience = config.timeout_keep_alive
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: HeaderLines = []
        self._head_bytes = 0
        self._continues = False
        self._reading: Cycle | None = None
        self._between = True
        self._head: Head | None = None
        self._heads_learnt = 0
        self._owed = 0
        self._active: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._starting = False
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._read_paused = False
        self._drained: asyncio.Future[None] | None = None
        self.write_paused = False
        self.transport: asyncio.Transport
        self._client: Any = None
        self._server: Any = None
        self._scheme = "http"

    # --- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._state.connections.add(cast("Any", self))
        self._client = _place(transport.get_extra_info("peername"))
        self._server = _place(transport.get_extra_info("sockname"))
        if transport.get_extra_info("sslcontext"):
            self._scheme = "https"
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(self._patience, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is the protocol's
        self._state.connections.discard(cast("Any", self))
        if self._timer is not None:
            self._timer.cancel()
        if self._active is not None:
            self._active.lose()
        if self._reading is not None:
            self._reading.lose()
        self._waiting.clear()
        self.resume_writing()
        del self._parser  # they know one another: the collector would have to find them

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        head, between = self._head, self._between
        if self._owed:
            self._hear_out(data)
            return
        if head is not None and between and self._active is None and not self._waiting:
            body = head.again(data)
            if body is not None and len(body) <= head.length:
                self._repeat(head, body)
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
            return
        except httptools.HttpParserError:
            self._refuse(MALFORMED)
            return
        if between and len(self._waiting) == 1 and self._heads_learnt < HEADS_LEARNT_MAX:
            self._heads_learnt += 1
            self._head = learn(data, self._waiting[0])
        self._start()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        self.write_paused = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        if self._active is not None and self._active.on_drained is not None:
            self._active.on_drained()

    async def drain(self) -> None:
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def resume_reading(self) -> None:
        if self._read_paused and not self._waiting:
            self._read_paused = False
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    # --- the parser's side ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._head_bytes = 0
        self._continues = False
        self._reading = None
        self._between = False

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise OverflowError

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect":
            self._continues = value.lower() == b"100-continue"
        self._headers.append((name, value))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEAD_BYTES_MAX:
            raise OverflowError

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade() and self._wants_socket():
            return
        raw_path, query = target_of(self._url)
        if not raw_path.isascii():
            raise ValueError("an address has only letters of ASCII")
        cycle = Cycle(
            self,
            parser.get_method().decode("ascii"),
            raw_path,
            query,
            self._headers,
            keep_alive=parser.should_keep_alive(),
            old=parser.get_http_version() == "1.0",
            awaits_continue=self._continues,
        )
        self._reading = cycle
        self._waiting.append(cycle)
        if len(self._waiting) > PIPELINED_MAX:
            raise OverflowError

    def on_body(self, body: bytes) -> None:
        cycle = self._reading
        if cycle is not None and not cycle.complete:
            cycle.put(body)
            if cycle.unread > UNREAD_BYTES_MAX:
                self._pause_reading()

    def on_message_complete(self) -> None:
        cycle, self._reading = self._reading, None
        self._between = True
        if cycle is not None:
            cycle.end()

    # --- instead of the parser -----------------------------------------------------------------------------------

    def _repeat(self, head: Head, body: bytes) -> None:
        """A request whose head is known: the parser is between two requests, and would read the same in it again."""
        cycle = head.begin(self)
        if len(body) < head.length:
            self._waiting.append(cycle)
            self._reading = cycle
            self._owed = head.length
            self._hear_out(body)
            return
        cycle.put_whole(body)
        if head.is_control:
            self._waiting.append(cycle)
            self._start()
            return
        self._active = cycle  # nothing is before it and nothing behind it
        self._turnstile.enter(self._loop, self._begin, cycle)

    def _hear_out(self, data: bytes) -> None:
        """What comes next of a body that the parser does not know of."""
        body = data if len(data) <= self._owed else data[: self._owed]
        self._owed -= len(body)
        if body:
            self.on_body(body)
        if not self._owed:
            self.on_message_complete()
        if len(body) < len(data):
            self.data_received(data[len(body) :])
        else:
            self._start()

    # --- requests and answers ------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin the next request; those behind one that is under way wait, and no more are read meanwhile."""
        if self._starting:
            return  # what was begun below has ended already: its turn comes in the loop
        waiting = self._waiting
        self._starting = True
        while self._active is None and waiting:
            cycle = self._active = waiting.popleft()
            if is_control(cycle.raw_path):
                order = self.perform(cycle, self._app(self._scope(cycle), cycle.receive, cycle.send), urgent_context())
                self._turnstile.attend(self._loop, order, cycle)
            else:
                self._turnstile.enter(self._loop, self._begin, cycle)
        self._starting = False
        if waiting:
            self._pause_reading()

    def _begin(self, cycle: Cycle) -> int:
        """Have the application do what it can at once, if all is here; returns the room that this takes."""
        if cycle.gone:
            return AT_ONCE
        if self._quick is not None and not cycle.more_body and not cycle.awaits_continue:
            try:
                if self._quick(cycle):
                    return AT_ONCE
            except Exception:
                log.exception("%s %s failed", cycle.method, cycle.path)
                cycle.give_up()
                return AT_ONCE
        self.perform(cycle, self._app(self._scope(cycle), cycle.receive, cycle.send))
        return BY_A_TASK

    def perform(self, cycle: Cycle, work: Work, context: "Context | None" = None) -> "asyncio.Task[None]":
        cycle.task = task = self._loop.create_task(cycle.run(work), context=context)
        self._state.tasks.add(task)
        return task

    def _scope(self, cycle: Cycle) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": ASGI,
            "http_version": "1.0" if cycle.old else "1.1",
            "method": cycle.method,
            "scheme": self._scheme,
            "path": cycle.path,
            "raw_path": cycle.raw_path,
            "query_string": cycle.query,
            "root_path": "",
            "headers": cycle.headers,
            "client": self._client,
            "server": self._server,
            "state": self._app_state.copy(),
            "extensions": {ANSWER: cycle.answer, BODY: cycle.take_whole},
        }

    def finished(self, cycle: Cycle) -> None:
        self._active = None
        self._heard_at = self._loop.time()
        self._state.total_requests += 1
        if not cycle.keep_alive:
            self.hang_up()
            return
        if self._waiting:
            self._start()
        if self._read_paused:
            self.resume_reading()

    def left(self, cycle: Cycle) -> None:
        """The application has nothing more to do for a request: who stops the server need not wait for it."""
        if cycle.task is not None:
            self._state.tasks.discard(cycle.task)
            cycle.task = None

    def hang_up(self) -> None:
        self._head = None
        self.transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def shutdown(self) -> None:
        """The server stops: what is under way is answered, and nothing else."""
        if self._active is None:
            self.hang_up()
        else:
            self._active.keep_alive = False

    def _tick(self) -> None:
        """Hang up on a client that has nothing to say, or does not come to an end."""
        idle = self._loop.time() - self._heard_at
        answering = self._active is not None and not self._active.more_body
        if idle >= self._patience and not answering and not self._read_paused:
            self.hang_up()
            return
        left = self._patience - idle
        self._timer = self._loop.call_later(left if left > 0 else self._patience, self._tick)

    def _refuse(self, status: bytes) -> None:
        """What cannot be read cannot be answered in any other way, nor can what follows it."""
        if self._head_bytes > HEAD_BYTES_MAX:
            status = TOO_LARGE
        if self._active is None and not self.transport.is_closing():
            body = status[4:]
            lines = (
                b"HTTP/1.1 " + status,
                b"content-type: text/plain; charset=utf-8",
                b"content-length: %d" % len(body),
                b"connection: close",
            )
            self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self._waiting.clear()
        self.hang_up()

    # --- other protocols -----------------------------------------------------------------------------------------

    def _wants_socket(self) -> bool:
        asked = {name: value.lower() for name, value in self._headers if name in (b"upgrade", b"connection")}
        return asked.get(b"upgrade") == b"websocket" and b"upgrade" in asked.get(b"connection", b"")

    def _upgrade(self) -> None:
        """Hand the connection to the protocol of WebSockets; anything else asked for is answered as if it were not."""
        make = cast("Callable[..., asyncio.Protocol] | None", self._config.ws_protocol_class)
        if make is None or not self._wants_socket():
            if self._waiting:
                cycle = self._waiting[-1]
                cycle.keep_alive = False
                cycle.end()
            self._start()
            return
        self._state.connections.discard(cast("Any", self))
        if self._timer is not None:
            self._timer.cancel()
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        lines += [b"%b: %b\r\n" % line for line in self._headers]
        protocol = make(config=self._config, server_state=self._state, app_state=self._app_state)
        protocol.connection_made(self.transport)
        protocol.data_received(b"".join(lines) + b"\r\n")
        self.transport.set_protocol(protocol)


def _place(address: object) -> tuple[str, int] | None:
    """Who, as ASGI writes it."""
    if isinstance(address, tuple):
        host, port, *_ = cast("tuple[Any, ...]", address)
        return str(host), int(port)
    return None
