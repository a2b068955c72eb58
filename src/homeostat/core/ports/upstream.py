"""Where model calls go: one HTTP exchange at a time, as it is on the wire, whoever answers it."""

from collections.abc import AsyncIterable
from typing import Protocol

from msgspec import Struct

Headers = list[tuple[bytes, bytes]]
"""Header lines in order, names in lower case."""


class UpstreamRequest(Struct, frozen=True):
    """What is asked, already clean: no hop-by-hop header, no key of an agent.

    `target` is the path below the upstream's base URL, with its query string. `body` is whole, or comes in pieces.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes | AsyncIterable[bytes] = b""


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
