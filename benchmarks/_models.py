"""A fast upstream: answers that were made beforehand, whole or in events, on bare protocols."""

import asyncio
import sys
from typing import cast

import uvloop

ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"' + b"word " * 60 + b'"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,'
    b'"completion_tokens":60,"total_tokens":80}}'
)
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = 200
PACED_EVENTS = 20
PACE_SECONDS = 0.02


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENT = _chunk(
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o-mini","choices":'
    b'[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
LAST = (
    _chunk(
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o-mini","choices":[],'
        b'"usage":{"prompt_tokens":20,"completion_tokens":200,"total_tokens":220}}\n\ndata: [DONE]\n\n'
    )
    + b"0\r\n\r\n"
)


class Model(asyncio.Protocol):
    """Answers each request as its body says: whole, as fast as it can, or at a steady pace."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is the protocol's
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator or self._transport is None:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length or 0):
            return
        self._buffer = b""
        if b'"paced"' in body:
            self._transport.write(HEAD + EVENT)
            self._next(PACED_EVENTS)
        elif b'"stream":true' in body:
            self._transport.write(HEAD)
            self._burst(EVENTS)
        else:
            self._transport.write(WHOLE)

    def _burst(self, left: int) -> None:
        """A few events per round of the loop, as a model's server would write them."""
        if self._transport is None:
            return
        for _ in range(4):
            self._transport.write(EVENT)
        if left > 4:
            asyncio.get_running_loop().call_soon(self._burst, left - 4)
        else:
            self._transport.write(LAST)

    def _next(self, left: int) -> None:
        if self._transport is None:
            return
        if left:
            self._transport.write(EVENT)
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._next, left - 1)
        else:
            self._transport.write(LAST)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Model, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_serve(int(sys.argv[1])))
