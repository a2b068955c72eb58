"""What an endpoint hands back to the edge."""

from dataclasses import dataclass

JSON_TYPE = b"application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, ready to be sent."""

    status: int
    body: bytes
    media_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()
