"""What both feeds over a WebSocket have in common: what a reader may ask for, and how it is turned away."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec

from homeostat.core.codec import malformed
from homeostat.core.errors import HomeostatError
from homeostat.core.limits import QUERY_BYTES_MAX

QueryT = TypeVar("QueryT")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BAD_REQUEST: Final = 1008  # "policy violation", as RFC 6455 has nothing closer to a bad request
TRY_AGAIN: Final = 1013
REASON_BYTES_MAX: Final = 123  # what a closing frame has room for


def query_of(scope: Message, shape: type[QueryT]) -> QueryT:
    """What a reader asks for with its address."""
    raw: bytes = scope["query_string"]
    try:
        if len(raw) > QUERY_BYTES_MAX:
            raise msgspec.ValidationError("the query is too long")
        found = parse_qs(raw.decode("ascii"), max_num_fields=16)
        return msgspec.convert({name: values[-1] for name, values in found.items()}, shape, strict=False)
    except ValueError as problem:  # of msgspec, of parse_qs, and of what is no ASCII
        raise malformed(problem, what="query", shape=shape) from problem


async def turn_away(send: Send, error: HomeostatError) -> None:
    """End a conversation with its reason, and say whether it is worth another try."""
    code = BAD_REQUEST if error.http_status < 500 else TRY_AGAIN
    await hang_up(send, code, error.message)


async def hang_up(send: Send, code: int, reason: str) -> None:
    said = reason.encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": said})
