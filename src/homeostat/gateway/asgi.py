"""The shapes of ASGI, as far as the gateway speaks it."""

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Final, Protocol

from homeostat.core.ports.upstream import Headers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ANSWER: Final = "homeostat.answer"
"""The extension of a server that takes a whole answer in one call: status, headers, body."""

AGENT: Final = "homeostat.agent"
"""Where a scope that was made in this process says who is calling. No request from outside can set it."""

BODY: Final = "homeostat.body"
"""The extension of a server that hands out a whole body without waiting, or None where it has to be received."""


async def reply(scope: Scope, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole answer, in one step where the server can."""
    extensions = scope.get("extensions")
    answer = extensions.get(ANSWER) if extensions is not None else None
    if answer is not None:
        answer(status, headers, body)
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Inbound(Protocol):
    """One request on its way in, and the way back to whoever sent it."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def raw_path(self) -> bytes: ...
    @property
    def query(self) -> bytes: ...
    @property
    def headers(self) -> Headers: ...

    def take_whole(self) -> bytes | None:
        """All of its body, if that is here and nothing of it was taken yet; else it has to be received."""
        ...

    @property
    def receive(self) -> Receive: ...
    @property
    def send(self) -> Send: ...

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        ...


class Repeated(Protocol):
    """A head that its sender said before. What was made of it then can be kept here, and holds again."""

    reading: Any


class AtOnce(Inbound, Protocol):
    """A request that can be answered without a task.

    `on_lost` is called should its sender leave before that, `on_drained` once a sender that was slow has taken what it
    was sent: as long as writing is paused, nothing more should be pushed.
    """

    on_lost: Callable[[], None] | None
    on_drained: Callable[[], None] | None

    @property
    def head(self) -> Repeated | None: ...

    @property
    def write_paused(self) -> bool: ...

    def whole(self) -> bytes | None:
        """As `take_whole`, and all of it is left where it is."""
        ...

    def answer(self, status: int, headers: Headers, body: bytes) -> None: ...

    def answer_as_written(self, status: int, lines: tuple[bytes, ...], body: bytes) -> None:
        """As `answer`, with headers as HTTP writes them, in pieces. The length is among them, and no other framing."""
        ...

    def start(self, status: int, headers: Headers) -> None:
        """Begin an answer; its head goes with what is pushed first, or with `flush`."""
        ...

    def push(self, body: bytes, *, more: bool) -> None:
        """The next part of an answer that was begun."""
        ...

    def flush(self) -> None: ...

    def perform(self, work: Coroutine[Any, Any, None]) -> None:
        """Have a task do what is left to do."""
        ...

    def give_up(self) -> None:
        """There will be no answer: its sender is told so."""
        ...


class Asked:
    """A request as ASGI hands it over."""

    __slots__ = ("_receive", "_scope", "_send", "headers", "method", "path", "query", "raw_path")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.headers: Headers = scope["headers"]
        self._receive = receive
        self._send = send

    @property
    def receive(self) -> Receive:
        return self._receive

    @property
    def send(self) -> Send:
        return self._send

    def take_whole(self) -> bytes | None:
        extensions = self._scope.get("extensions")
        take = extensions.get(BODY) if extensions is not None else None
        return take() if take is not None else None

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        await reply(self._scope, self._send, status, headers, body)
