"""The live feed over a WebSocket: a snapshot, then deltas; a reader may change its filter while it reads."""

import asyncio
import contextlib
from typing import Final

import msgspec

from homeostat.app.assemble import System
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import ProjectId
from homeostat.core.wire.fleet import FeedQuery, SubscribeMessage
from homeostat.fleet.broadcast import Interest, Reader
from homeostat.server.frames import SharedMessage
from homeostat.server.sockets import BAD_REQUEST, Message, Receive, Send, hang_up, query_of, turn_away

PATH: Final = "/v1/ws/status"

_read = msgspec.json.Decoder(SubscribeMessage).decode


class StatusSocket:
    """Each socket has two halves: what is sent waits for the reader alone, what is received may change the filter."""

    verb = "follow_status"

    def __init__(self, system: System) -> None:
        self._system = system

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        message = await receive()
        assert message["type"] == "websocket.connect"
        try:
            query = query_of(scope, FeedQuery)
            project = ProjectId(scope["homeostat.project"])
            reader = self._system.fleet.subscribe(
                Interest(query.agent_type, query.tag, project), stream=query.stream, after=query.since
            )
        except HomeostatError as error:
            await turn_away(send, error)
            return
        try:
            await send({"type": "websocket.accept"})
            await self._serve(reader, project, receive, send)
        finally:
            reader.close()

    async def _serve(self, reader: Reader, project: ProjectId, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(_send_all(reader, send), name="status feed")
        try:
            reason = await _heed(reader, project, receive)
            if reason is not None:
                with contextlib.suppress(OSError, RuntimeError):
                    await hang_up(send, BAD_REQUEST, reason)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending


async def _send_all(reader: Reader, send: Send) -> None:
    """Send until the reader is gone; a send waits while the reader does not read, and nobody waits for that."""
    try:
        while True:
            frame = await reader.next()
            if frame.made is None:
                frame.made = SharedMessage(frame.text)
            await send({"type": "websocket.send", "text": frame.text, "shared": frame.made})
    except OSError:
        return
    except HomeostatError as error:
        with contextlib.suppress(OSError, RuntimeError):
            await turn_away(send, error)


async def _heed(reader: Reader, project: ProjectId, receive: Receive) -> str | None:
    """Take the reader's wishes until it leaves; what is not understood ends the conversation, with a reason."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        try:
            wish = _read(message.get("text") or message.get("bytes") or b"")
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
            return f"not understood: {problem}"
        reader.change(Interest(wish.agent_type, wish.tag, project))
