"""The one sequence of events over HTTP, as server-sent events: resumable, and honest about what was missed."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from homeostat.app.assemble import System
from homeostat.app.feed import Entry, FeedReader, Kind, text_of
from homeostat.core.errors import MalformedPayload, Overloaded
from homeostat.core.filter import Filter
from homeostat.core.filter_fields import READERS
from homeostat.core.ids import ProjectId
from homeostat.core.limits import EVENT_BEAT_SECONDS
from homeostat.core.wire.overview import EventsQuery
from homeostat.server.answers import Answer, StreamedAnswer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("live")

TextT = TypeVar("TextT", bytes, list[str])

STREAM = "text/event-stream"
HEADERS = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


@routes.taking("GET", "/v1/events", EventsQuery, media_type=STREAM, errors=(MalformedPayload, Overloaded))
async def follow_events(call: Call, query: EventsQuery) -> Answer:
    """Follow presence, turns, deliverables, calls, phases, approvals, alerts, policies, budgets, runs and memory.

    Each event has an id; a reader that comes back with the last one it saw (`Last-Event-ID`) misses nothing. Where
    that is not possible any more, an event `gap` comes first: read anew what you show. `beat` says that nothing is new.
    A WebSocket at `/v1/ws/events` takes the same query and tells the same events by the same ids: leave one, go on with
    the other. Heartbeats are not among the events; they are on `/v1/ws/status`.
    """
    shown = next((value for name, value in call.scope["headers"] if name == b"last-event-id"), None)
    last_id = query.last_event_id if shown is None else shown.decode("latin-1")
    wanted, reader = await begin(call.system, call.project, query, last_id)
    parts = told(reader, lambda: _text(reader, wanted), _control, follow=query.follow)
    return StreamedAnswer(200, b"", STREAM.encode(), HEADERS, parts=parts, close=reader.close)


async def begin(
    system: System, project: ProjectId, query: EventsQuery, last_id: str | None
) -> tuple[Filter, FeedReader]:
    """A reader of what is asked for, behind the event that was seen last; whoever gets it closes it."""
    wanted = READERS["events"].read(query.q, now_ms=system.clock.now_ms())
    feed = system.feed
    if feed.full:
        raise Overloaded(problem=f"{feed.readers} readers follow the events")
    reader = await feed.follow(project, _kinds(query.kinds), last_id or None)
    if query.tail and not last_id:
        reader.rewind(query.tail)
    return wanted, reader


async def told(
    reader: FeedReader, take: Callable[[], TextT], control: Callable[[str, str], TextT], *, follow: bool = True
) -> AsyncIterator[TextT]:
    """What a reader is sent, however it is written: `hello`, what happens, `gap` where it broke, `beat` in silence.

    A reader that does not follow is sent what there is, however busy it is here, and let go.
    """
    yield control("hello", reader.id)
    while True:
        if reader.missed():
            yield control("gap", reader.id)
        place = reader.place
        if text := take():
            yield text
        elif place == reader.place:
            if not follow:
                return
            await reader.news(EVENT_BEAT_SECONDS)
            if place == reader.place and not reader.behind:
                yield control("beat", reader.id)


def chosen(reader: FeedReader, wanted: Filter) -> list[Entry]:
    """What is new for a reader and meant by its filter."""
    return [one for one in reader.take() if not wanted or _covered(wanted, one)]


def _kinds(named: str | None) -> frozenset[Kind]:
    wanted = {word.strip() for word in (named or "").split(",")} - {""}
    if unknown := wanted - set(Kind):
        problem = f"{', '.join(sorted(unknown))[:100]} is none of {', '.join(Kind)}"
        raise MalformedPayload(field="kinds", problem=problem)
    return frozenset(map(Kind, wanted))


def _text(reader: FeedReader, wanted: Filter) -> bytes:
    return text_of(reader.stream, chosen(reader, wanted)) if wanted else reader.text()


def _covered(wanted: Filter, entry: Entry) -> bool:
    return wanted.covers({"event": entry.kind, "data": msgspec.json.decode(entry.data)})


def _control(name: str, event_id: str) -> bytes:
    if name == "beat":
        # A comment first: readers that know no `beat` still see that the line is alive.
        return f": nothing is new\nid: {event_id}\nevent: beat\ndata: {{}}\n\n".encode()
    return f'id: {event_id}\nevent: {name}\ndata: {{"id":"{event_id}"}}\n\n'.encode()
