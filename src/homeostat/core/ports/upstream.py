"""Where model calls go: one HTTP exchange at a time, as it is on the wire, whoever answers it."""

from collections.abc import AsyncIterable, Callable
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from homeostat.core.gateway_errors import UpstreamFailed

Headers = list[tuple[bytes, bytes]]
"""Header lines in order, names in lower case."""

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
UNSHARED: Final = HOP_BY_HOP | {b"set-cookie"}
"""What an upstream tells whoever asks it, and nobody behind that."""


class UpstreamRequest(Struct, frozen=True):
    """What is asked, already clean: no hop-by-hop header, no key of an agent.

    `target` is the path below the upstream's base URL, with its query string. `body` is whole, or comes in pieces.
    `written` are the headers as HTTP writes them, where somebody has written them already.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes | AsyncIterable[bytes] = b""
    written: bytes = b""


class UpstreamResponse(Protocol):
    """An answer whose head has arrived. Its body is read as it comes; what is not read is not asked for either."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived, so that one more `read` gives the rest of it."""
        ...

    async def read(self) -> bytes:
        """The bytes that have arrived since the last call, waiting for the first; empty once the body has ended.

        Raises `UpstreamFailed` when the answer breaks off.
        """
        ...

    def close(self) -> None:
        """Let go. An answer that was not read to its end is cancelled upstream; a `read` under way raises."""
        ...


class Upstream(Protocol):
    """One place that answers model calls, with its own key and its own connections."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Ask, and return when the head of the answer is here; cancelling the call cancels the exchange.

        Raises `UpstreamFailed` when there is no answer.
        """
        ...

    async def close(self) -> None: ...


class Pending(UpstreamResponse, Protocol):
    """An answer that was asked for and may not have begun: its status is 0 until its head has arrived.

    `written` are its headers as they came, without what is not shared, of an answer that came whole and is neither
    compressed nor made of events; else it is empty.
    """

    @property
    def written(self) -> bytes: ...

    arrived: Callable[[], None] | None
    """Called each time something of it has come, and when it has failed."""

    @property
    def error(self) -> UpstreamFailed | None: ...

    def take(self) -> bytes:
        """As `read`, of what is here. Empty also where nothing has come."""
        ...


@runtime_checkable
class QuickUpstream(Upstream, Protocol):
    """An upstream that can often be asked without waiting, and says when its answer is here."""

    def send_at_once(self, request: UpstreamRequest, arrived: Callable[[], None]) -> Pending | None:
        """Ask, and be called back; None where that would take time, as when no connection is open and idle."""
        ...

    def received(self, pending: Pending) -> UpstreamResponse:
        """The answer, once its head has arrived. Raises `UpstreamFailed` where it failed before."""
        ...
