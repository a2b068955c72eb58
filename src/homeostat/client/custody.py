"""The line from whoever runs an agent to the custody desk of a server on the same machine."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from homeostat.core.errors import HomeostatError
from homeostat.core.wire.custody import LINE_BYTES_MAX, Answer, Claim, CustodyShape, News, Order, OrderWord

if TYPE_CHECKING:
    from homeostat.client.client import Client

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_encoder = msgspec.json.Encoder()


class CustodyLine:
    """Claims custody, and again whenever the server was away. Nothing that goes wrong here disturbs the agent."""

    def __init__(
        self,
        client: "Client",
        api_key: str,
        *,
        supervises: bool,
        shared: bool = False,
        control_url: str = "",
        on_order: Callable[[OrderWord], None] | None = None,
    ) -> None:
        self._client = client
        self._claim = Claim(api_key=api_key, supervises=supervises, shared=shared, control_url=control_url)
        self._on_order = on_order
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._spawned: int | None = None
        self.refusal = ""
        self.notice = ""  # what the desk said of an agent that it took and does not let run

    async def open(self) -> bool:
        """Claim once; then stay in touch. False, with the reason in `refusal`, where this process is not held."""
        taken = await self._connect()
        if taken or not self.refusal:
            self._task = asyncio.create_task(self._stay(), name="custody")
        return taken

    async def spawned(self, pid: int) -> None:
        """Tell which process was started, so that one which is to be held is held at once."""
        self._spawned = pid
        if self._writer is not None:
            with suppress(ConnectionError):
                self._writer.write(_encoder.encode(News(spawned=pid)) + b"\n")
                await self._writer.drain()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._writer is not None:
            self._writer.close()

    async def _connect(self) -> bool:
        try:
            place = await place_of(self._client)
            if place is None or place.socket is None:
                return False
            reader, writer = await asyncio.open_unix_connection(place.socket, limit=LINE_BYTES_MAX)
        except (HomeostatError, OSError) as problem:
            log.debug("no custody for now: %s", problem)
            return False
        if not _ours(writer):
            self.refusal = "the custody socket belongs to another user"
            writer.close()
            return False
        try:
            writer.write(_encoder.encode(self._claim) + b"\n")
            answer = msgspec.json.decode(await reader.readline() or b"{}", type=Answer)
        except (OSError, ValueError, msgspec.MsgspecError) as problem:
            log.debug("the custody desk did not answer: %s", problem)
            writer.close()
            return False
        if not answer.taken:
            self.refusal = answer.message
            writer.close()
            return False
        self.refusal, self.notice = "", answer.message
        self._reader, self._writer = reader, writer
        if self._spawned is not None:
            await self.spawned(self._spawned)
        return True

    async def _stay(self) -> None:
        while True:
            if self._reader is None:
                await asyncio.sleep(RETRY_SECONDS)
                await self._connect()
                continue
            try:
                line = await self._reader.readline()
                if line and self._on_order is not None:
                    self._on_order(msgspec.json.decode(line, type=Order).order)
            except (OSError, ValueError, msgspec.MsgspecError) as problem:
                log.debug("the line to the custody desk broke: %s", problem)
                line = b""
            if not line:
                self._reader = self._writer = None


async def place_of(client: "Client") -> CustodyShape | None:
    """Where custody is taken on this machine, if the server is on it."""
    try:
        place = (await client.transport.send("GET", "/v1/custody", retry_seconds=0)).read(CustodyShape)
    except HomeostatError:
        return None
    return None if place.socket is None or place.boot_id != _boot_id() else place


def _ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the desk is run by the same user: nobody else is told a key."""
    link: socket.socket = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in {os.geteuid(), 0}


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
