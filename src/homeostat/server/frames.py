"""WebSocket messages that are framed and compressed once, however many readers they go to.

What a server sends is not masked, so one message is the same bytes for everybody; and if no context is kept from one
message to the next, so are its compressed bytes. The server's own protocol would frame and compress for each reader.
"""

import logging
import socket
import struct
import zlib
from functools import cached_property
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.server import ServerProtocol

from homeostat.core.limits import READER_BYTES_MAX

LEVEL: Final = 1  # a tenth of the size; higher levels take three times as long for little more
WINDOW_BITS: Final = 15
WORTH_BYTES: Final = 512  # smaller messages are sent as they are

_FINAL_TEXT: Final = 0x81
_COMPRESSED: Final = 0x40
_EMPTY_BLOCK: Final = b"\x00\x00\xff\xff"  # ends what was flushed, and is left out on the wire


class SharedMessage:
    """A text message as bytes on the wire, made when the first reader needs them."""

    __slots__ = ("_deflated", "_plain", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._plain: bytes | None = None
        self._deflated: bytes | None = None

    @property
    def plain(self) -> bytes:
        if self._plain is None:
            self._plain = framed(_FINAL_TEXT, self._text.encode())
        return self._plain

    @property
    def deflated(self) -> bytes:
        if len(self._text) < WORTH_BYTES:
            return self.plain
        if self._deflated is None:
            press = zlib.compressobj(LEVEL, zlib.DEFLATED, -WINDOW_BITS)
            pressed = press.compress(self._text.encode()) + press.flush(zlib.Z_SYNC_FLUSH)
            self._deflated = framed(_FINAL_TEXT | _COMPRESSED, pressed.removesuffix(_EMPTY_BLOCK))
        return self._deflated


def framed(first: int, payload: bytes) -> bytes:
    """A whole message as one unmasked frame."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", first, size) + payload
    if size < 65_536:
        return struct.pack("!BBH", first, 126, size) + payload
    return struct.pack("!BBQ", first, 127, size) + payload


class SharingProtocol(WebSocketsSansIOProtocol):
    """The server's WebSocket protocol, which also sends what is under `shared` in a message, as it is."""

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self.conn = ServerProtocol(
            extensions=[ServerPerMessageDeflateFactory(server_no_context_takeover=True)],
            max_size=config.ws_max_size,
            logger=logging.getLogger("uvicorn.error"),
        )

    def connection_made(self, transport: Any) -> None:
        """Bound what the system holds for a reader that does not read; left alone, it would be megabytes."""
        super().connection_made(transport)
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, READER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        """Hang up on whoever asks for a connection in a way that cannot be read; they would wait for ever."""
        super().data_received(data)
        if self.conn.handshake_exc is not None:
            self.transport.close()

    async def send(self, message: Any) -> None:
        shared: SharedMessage | None = message.get("shared")
        if shared is None:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        if not self.close_sent:
            self.transport.write(shared.deflated if self._deflates else shared.plain)

    @cached_property
    def _deflates(self) -> bool:
        """Whether this reader understands what is compressed for all: it may have asked for a smaller window."""
        return any(
            isinstance(extension, PerMessageDeflate)
            and extension.local_no_context_takeover
            and extension.local_max_window_bits == WINDOW_BITS
            for extension in self.conn.extensions
        )
