"""Connections to one server over HTTP/1.1: kept open, lent for one exchange at a time."""

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from homeostat.core.errors import SettingInvalid
from homeostat.core.gateway_errors import UpstreamFailed, UpstreamTimedOut, UpstreamUnreachable
from homeostat.core.limits import (
    UPSTREAM_CONNECT_ATTEMPTS,
    UPSTREAM_CONNECT_SECONDS,
    UPSTREAM_CONNECTIONS_MAX,
    UPSTREAM_FIRST_BYTE_SECONDS,
    UPSTREAM_IDLE_SECONDS,
    UPSTREAM_SILENCE_SECONDS,
    UPSTREAM_SWEEP_SECONDS,
)
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.http.connection import Answer, Connection
from homeostat.http.plain_answers import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long each part of an exchange may take, and how many may be open."""

    connect_seconds: float = UPSTREAM_CONNECT_SECONDS
    connect_attempts: int = UPSTREAM_CONNECT_ATTEMPTS
    first_byte_seconds: float = UPSTREAM_FIRST_BYTE_SECONDS
    silence_seconds: float = UPSTREAM_SILENCE_SECONDS
    idle_seconds: float = UPSTREAM_IDLE_SECONDS
    connections_max: int = UPSTREAM_CONNECTIONS_MAX
    sweep_seconds: float = UPSTREAM_SWEEP_SECONDS


class Pool:
    """Sends requests below one base URL. The newest idle connection goes first, so that surplus ones age and leave.

    `lines` go along with every request; `setting` is what is wrong where the URL is.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        setting: str,
        lines: Sequence[tuple[bytes, bytes]] = (),
        limits: HttpLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as problem:
            raise SettingInvalid(setting=setting, problem=f"its URL cannot be read ({problem})") from problem
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingInvalid(setting=setting, problem="its URL must begin with http:// or https://")
        try:
            port = parts.port
        except ValueError as problem:
            raise SettingInvalid(
                setting=setting, problem="the port in its URL must be a number up to 65535"
            ) from problem
        self.name = name
        self.host = parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        self._base = parts.path.rstrip("/").encode()
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self.limits = limits or HttpLimits()
        host = (b"host", parts.netloc.rpartition("@")[2].encode())
        self._own_lines = b" HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % line for line in (host, *lines))
        self._lines = Lines()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self.connects = 0

    @property
    def open_connections(self) -> int:
        return len(self._open)

    @property
    def idle_connections(self) -> int:
        return len(self._idle)

    # --- an exchange ---------------------------------------------------------------------------------------

    async def exchange(self, request: UpstreamRequest, *, first_byte_seconds: float | None = None) -> Answer:
        """Ask, and return when the head of the answer is here, or that there will be none."""
        limits = self.limits
        patience = first_byte_seconds or limits.first_byte_seconds
        connection = self.take_idle() or await self._connect()
        body = request.body
        bodiless = request.method == b"HEAD"
        answer: Answer | None = None
        try:
            if isinstance(body, bytes):
                head = self.head(request, b"content-length: %d\r\n" % len(body) if body else b"")
                answer = connection.send(
                    head,
                    body,
                    bodiless=bodiless,
                    first_byte_seconds=patience,
                    idle_seconds=limits.silence_seconds,
                )
            else:
                sized = any(name == b"content-length" for name, _ in request.headers)
                answer = await connection.send_pieces(
                    self.head(request, b"" if sized else b"transfer-encoding: chunked\r\n"),
                    body,
                    chunked=not sized,
                    bodiless=bodiless,
                    first_byte_seconds=patience,
                    idle_seconds=limits.silence_seconds,
                )
            if answer.status == 0 and answer.error is None:
                await answer.wait()
        except BaseException:
            if answer is None:
                connection.abort()
            else:
                answer.close()  # once it is complete, its connection may carry another's call
            raise
        return answer

    async def close(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._open):
            connection.abort()
        for waiting in self._waiting:
            waiting.cancel()

    # --- the request's head -----------------------------------------------------------------------------------

    def head(self, request: UpstreamRequest, framing: bytes) -> tuple[bytes, ...]:
        """In pieces, as it is joined with the body."""
        lines = request.written or b"".join([b"%b: %b\r\n" % line for line in request.headers])
        return (request.method, b" ", self._base, request.target, self._own_lines, lines, framing, b"\r\n")

    # --- the pool ----------------------------------------------------------------------------------------------

    def take_idle(self) -> Connection | None:
        idle = self._idle
        while idle:
            connection = idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self) -> Connection:
        """Open a connection, trying again where nobody answered: nothing has been sent yet."""
        problem: Exception | None = None
        for _ in range(self.limits.connect_attempts):
            while len(self._open) + self._opening >= self.limits.connections_max:
                await self._wait_for_room()
                if (connection := self.take_idle()) is not None:
                    return connection
            self._opening += 1
            try:
                return await self._dial()
            except TimeoutError as slow:
                seconds = self.limits.connect_seconds
                raise UpstreamTimedOut(upstream=self.name, seconds=seconds, problem="while connecting") from slow
            except (OSError, ssl.SSLError) as refused:
                problem = refused
            finally:
                self._opening -= 1
                if len(self._open) + self._opening < self.limits.connections_max:
                    self._wake_next()
        raise UpstreamUnreachable(upstream=self.name, problem=str(problem))

    async def _dial(self) -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.limits.connect_seconds):
            _, connection = await loop.create_connection(
                lambda: Connection(self.name, loop, self._released, self._lines),
                self.host,
                self.port,
                ssl=self._tls,
                server_hostname=self.host if self._tls is not None else None,
            )
        self._open.add(connection)
        self.connects += 1
        if self._sweeper is None:
            self._sweeper = loop.call_later(self.limits.sweep_seconds, self._sweep)
        return connection

    async def _wait_for_room(self) -> None:
        seconds = self.limits.connect_seconds
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(seconds):
                await waiting
        except BaseException as given_up:
            if waiting.done() and not waiting.cancelled():
                self._wake_next()  # the room was meant for somebody
            if isinstance(given_up, TimeoutError):
                problem = "every connection is busy"
                raise UpstreamTimedOut(upstream=self.name, seconds=seconds, problem=problem) from given_up
            raise

    def _released(self, connection: Connection) -> None:
        """A connection is free again, or gone."""
        if connection.closed:
            self._open.discard(connection)
        else:
            self._idle.append(connection)
        self._wake_next()

    def _wake_next(self) -> None:
        """There is room for one who waits for it."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                break

    def _sweep(self) -> None:
        """Hang up on what is late and on what nobody has used for a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [c for c in self._open if c.deadline <= now]:
            connection.expire(self._late(connection))
        aged = now - self.limits.idle_seconds
        for connection in [c for c in self._idle if c.idle_since <= aged]:
            connection.abort()
        self._idle = [connection for connection in self._idle if not connection.closed]
        self._sweeper = None
        if self._open and not self._closed:
            self._sweeper = loop.call_later(self.limits.sweep_seconds, self._sweep)

    def _late(self, connection: Connection) -> UpstreamFailed:
        limits = self.limits
        seconds = limits.first_byte_seconds if "first" in connection.late else limits.silence_seconds
        return UpstreamTimedOut(upstream=self.name, seconds=seconds, problem=connection.late)
