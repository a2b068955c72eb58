"""Puts the head of an answer and its body on the wire together: a write to a socket costs more than making it."""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD: Final = b"HTTP/1.1 "
COPIED_BYTES_MAX: Final = 64 << 10  # a longer body is not copied to save a write


class CorkedTransport:
    """A transport that holds the head of an answer back until its body follows, or until everybody had a go."""

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= COPIED_BYTES_MAX:
                self._transport.write(head + data)
                return
            self._transport.write(head)
        elif data.startswith(HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's own."""
        return getattr(self._transport, name)


class CorkedProtocol(HttpToolsProtocol):
    """The server's protocol, writing once where it would write twice."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(cast("asyncio.Transport", CorkedTransport(transport, self.loop)))
