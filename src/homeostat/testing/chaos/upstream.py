"""A model provider on a port of its own that says the same few words to everybody, and counts them honestly."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from homeostat.testing.servers import free_port

WORDS: Final = "Nothing is lost as long as somebody wrote it down"
USAGE: Final = {"prompt_tokens": 12, "completion_tokens": 10, "total_tokens": 22}
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
).encode()
_WHOLE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_ANSWER),
    _ANSWER,
)


@asynccontextmanager
async def provider() -> AsyncGenerator[str]:
    """Where to reach it."""
    port = free_port()
    server = await asyncio.start_server(_serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if found := _LENGTH.search(head):
                await reader.readexactly(int(found[1]))
            writer.write(_WHOLE)
            await writer.drain()
    writer.close()
