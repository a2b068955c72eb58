"""The floor of every HTTP benchmark: the same server, set up the same way, answering a constant."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
import uvloop

from homeostat.server.serving import bind, configured

BODY = b'{"received":true,"push_interval_seconds":30.0,"server_time":"2026-01-28T12:00:00.123Z"}'
HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(BODY)).encode()),
    (b"x-content-type-options", b"nosniff"),
]

Message = MutableMapping[str, Any]


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Hear everybody out, and say the same to all."""
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


async def serve(port: int) -> None:
    server = uvicorn.Server(configured(application))
    await server.serve([bind("127.0.0.1", port)])


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(serve(int(sys.argv[1])))
