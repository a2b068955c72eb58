"""The shapes of ASGI, as far as the gateway speaks it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

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
