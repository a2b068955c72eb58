"""The one sequence of events over a WebSocket: what server-sent events tell, by the same ids, one message for each."""

import asyncio
import contextlib
from typing import Final

from homeostat.app.assemble import System
from homeostat.app.feed import Entry, FeedReader
from homeostat.core.errors import HomeostatError
from homeostat.core.filter import Filter
from homeostat.core.ids import ProjectId
from homeostat.core.wire.overview import EventsQuery
from homeostat.server.events import begin, chosen, told
from homeostat.server.sockets import Message, Receive, Send, query_of, turn_away

PATH: Final = "/v1/ws/events"


class EventSocket:
    """Tells, and listens only for the reader to leave."""

    verb = "follow_events"

    def __init__(self, system: System) -> None:
        self._system = system

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        message = await receive()
        assert message["type"] == "websocket.connect"
        try:
            query = query_of(scope, EventsQuery)
            project = ProjectId(scope["homeostat.project"])
            wanted, reader = await begin(self._system, project, query, query.last_event_id)
        except HomeostatError as error:
            await turn_away(send, error)
            return
        try:
            await send({"type": "websocket.accept"})
            await _serve(reader, wanted, receive, send)
        finally:
            reader.close()


async def _serve(reader: FeedReader, wanted: Filter, receive: Receive, send: Send) -> None:
    sending = asyncio.create_task(_send_all(reader, wanted, send), name="event feed")
    try:
        while (await receive())["type"] != "websocket.disconnect":
            pass  # whatever a reader says, there is nothing to be said here
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending


async def _send_all(reader: FeedReader, wanted: Filter, send: Send) -> None:
    def take() -> list[str]:
        return [_message(reader.stream, one) for one in chosen(reader, wanted)]

    with contextlib.suppress(OSError):
        async for messages in told(reader, take, _control):
            for text in messages:
                await send({"type": "websocket.send", "text": text})


def _message(stream: str, entry: Entry) -> str:
    return f'{{"id":"{stream}.{entry.seq}","event":"{entry.kind}","data":{entry.data.decode()}}}'


def _control(name: str, event_id: str) -> list[str]:
    return [f'{{"id":"{event_id}","event":"{name}","data":{{}}}}']
