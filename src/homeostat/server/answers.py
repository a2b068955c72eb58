"""What an endpoint hands back to the edge."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

JSON_TYPE = b"application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, ready to be sent."""

    status: int
    body: bytes
    media_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedAnswer(Answer):
    """A response that goes on until the caller leaves or the server stops; `close` is called either way."""

    parts: AsyncIterator[bytes]
    close: Callable[[], None]
