"""The live feed over a WebSocket: a snapshot, then deltas; a reader may change its filter while it reads."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec

from homeostat.app.assemble import System
from homeostat.core.codec import malformed
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import ProjectId
from homeostat.core.limits import QUERY_BYTES_MAX
from homeostat.core.wire.fleet import FeedQuery, SubscribeMessage
from homeostat.fleet.broadcast import Interest, Reader
from homeostat.server.frames import SharedMessage

log = logging.getLogger(__name__)

QueryT = TypeVar("QueryT")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PATH: Final = "/v1/ws/status"
BAD_REQUEST: Final = 1008  # "policy violation", as RFC 6455 has nothing closer to a bad request
TRY_AGAIN: Final = 1013

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
            query = query_of(scope["query_string"], FeedQuery)
            project = ProjectId(scope["homeostat.project"])
            reader = self._system.fleet.subscribe(
                Interest(query.agent_type, query.tag, project), stream=query.stream, after=query.since
            )
        except msgspec.ValidationError as problem:
            reason = malformed(problem, what="query", shape=FeedQuery).message[:120]
            await send({"type": "websocket.close", "code": BAD_REQUEST, "reason": reason})
            return
        except HomeostatError as error:
            await send({"type": "websocket.close", "code": TRY_AGAIN, "reason": error.message[:120]})
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
                    await send({"type": "websocket.close", "code": BAD_REQUEST, "reason": reason})
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
            await send({"type": "websocket.close", "code": TRY_AGAIN, "reason": error.message[:120]})


async def _heed(reader: Reader, project: ProjectId, receive: Receive) -> str | None:
    """Take the reader's wishes until it leaves; what is not understood ends the conversation, with a reason."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        try:
            wish = _read(message.get("text") or message.get("bytes") or b"")
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
            return f"not understood: {problem}"[:120]
        reader.change(Interest(wish.agent_type, wish.tag, project))


def query_of(raw: bytes, shape: type[QueryT]) -> QueryT:
    """What a reader asks for; raises a ValidationError where that cannot be read."""
    if len(raw) > QUERY_BYTES_MAX:
        raise msgspec.ValidationError("the query is too long")
    try:
        found = parse_qs(raw.decode("ascii"), max_num_fields=16)
    except (UnicodeDecodeError, ValueError) as problem:
        raise msgspec.ValidationError(str(problem)) from problem
    return msgspec.convert({name: values[-1] for name, values in found.items()}, shape, strict=False)
