"""A stretch of network that goes bad on purpose: what passes is held up, cut off, reset, or never heard of again."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from homeostat.testing.servers import free_port

CHUNK_BYTES: Final = 1 << 16
_NO_GOODBYE: Final = struct.pack("ii", 1, 0)  # closing a socket so resets the connection


class Link:
    """An address of its own in front of a server's. Nothing here knows what the bytes mean."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target: Final = (parts.hostname, parts.port)
        self.port: Final = free_port()
        login, at, _ = parts.netloc.rpartition("@")
        self.url: Final = urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}"))
        self.delay_seconds = 0.0
        self.passed = 0
        self.suffered: Counter[str] = Counter()
        """What troubles really did: bytes that were held up, connections that were ended."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as both ends want it."""
        self._open.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            self.suffered["black-holed"] += not self._flowing.is_set()
            await self._flowing.wait()
            back, there = await asyncio.open_connection(*self._target)
            self._open.add(there)
            pumps = [asyncio.create_task(self._pump(*ends)) for ends in ((reader, there), (back, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
        except OSError:
            pass  # nobody is there: whoever came is turned away
        finally:
            for one in (writer, there):
                if one is not None:
                    self._open.discard(one)
                    one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if not self._flowing.is_set():
                    self.suffered["black-holed"] += len(data)
                    await self._flowing.wait()
                if self.delay_seconds:
                    self.suffered["delayed"] += len(data)
                    await asyncio.sleep(self.delay_seconds)
                writer.write(data)
                await writer.drain()
                self.passed += len(data)

    # --- what goes bad -------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End every connection in good manners, as a proxy that is restarted does."""
        for writer in list(self._open):
            self.suffered["cut"] += 1
            writer.close()

    def reset(self) -> None:
        """End every connection without a word more."""
        for writer in list(self._open):
            self.suffered["reset"] += 1
            raw = writer.get_extra_info("socket")
            if raw is not None:
                with suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_GOODBYE)
            writer.transport.abort()

    def swallow(self) -> None:
        """Let nothing through, and tell nobody."""
        self._flowing.clear()

    def let_through(self) -> None:
        self._flowing.set()


@asynccontextmanager
async def link_to(url: str) -> AsyncGenerator[Link]:
    """A link that is good until somebody spoils it."""
    link = Link(url)
    server = await asyncio.start_server(link.serve, "127.0.0.1", link.port)
    try:
        yield link
    finally:
        server.close()
        link.let_through()
        link.reset()
