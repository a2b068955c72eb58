"""The one sequence of events over HTTP, as server-sent events: resumable, and honest about what was missed."""

from collections.abc import AsyncIterator

import msgspec

from homeostat.app.feed import Entry, FeedReader, Kind, text_of
from homeostat.core.errors import MalformedPayload, Overloaded
from homeostat.core.filter import Filter
from homeostat.core.limits import EVENT_BEAT_SECONDS
from homeostat.core.wire.overview import EventsQuery
from homeostat.server.answers import Answer, StreamedAnswer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.sifting import asked

routes = Routes("live")

STREAM = "text/event-stream"
HEADERS = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


@routes.taking("GET", "/v1/events", EventsQuery, media_type=STREAM, errors=(MalformedPayload, Overloaded))
async def follow_events(call: Call, query: EventsQuery) -> Answer:
    """Follow what happens: presence, turns, deliverables, calls, phases, approvals, alerts, policies, budgets, runs.

    Each event has an id; a reader that comes back with the last one it saw (`Last-Event-ID`) misses nothing. Where
    that is not possible any more, an event `gap` comes first: read anew what you show. `beat` says that nothing is new.
    Heartbeats are not among the events; they are on `/v1/ws/status`.
    """
    wanted = asked(call, "events", query.q)
    feed = call.system.feed
    if feed.full:
        raise Overloaded(problem=f"{feed.readers} readers follow the events")
    shown = next((value for name, value in call.scope["headers"] if name == b"last-event-id"), None)
    last_id = query.last_event_id if shown is None else shown.decode("latin-1")
    reader = await feed.follow(call.project, _kinds(query.kinds), last_id or None)
    if query.tail and not last_id:
        reader.rewind(query.tail)
    return StreamedAnswer(200, b"", STREAM.encode(), HEADERS, parts=_parts(reader, wanted), close=reader.close)


def _kinds(named: str | None) -> frozenset[Kind]:
    wanted = {word.strip() for word in (named or "").split(",")} - {""}
    if unknown := wanted - set(Kind):
        problem = f"{', '.join(sorted(unknown))[:100]} is none of {', '.join(Kind)}"
        raise MalformedPayload(field="kinds", problem=problem)
    return frozenset(map(Kind, wanted))


async def _parts(reader: FeedReader, wanted: Filter) -> AsyncIterator[bytes]:
    yield _event("hello", reader.id, {"id": reader.id})
    while True:
        if reader.missed():
            yield _event("gap", reader.id, {"id": reader.id})
        place = reader.place
        if wanted:
            stream = reader.id.partition(".")[0]
            text = text_of(stream, [one for one in reader.take() if _covered(wanted, one)])
        else:
            text = reader.text()
        if text:
            yield text
        elif place == reader.place:
            await reader.news(EVENT_BEAT_SECONDS)
            if place == reader.place and not reader.behind:
                # A comment first: readers that know no `beat` still see that the line is alive.
                yield b": nothing is new\n" + _event("beat", reader.id, {})


def _covered(wanted: Filter, entry: Entry) -> bool:
    return wanted.covers({"event": entry.kind, "data": msgspec.json.decode(entry.data)})


def _event(name: str, event_id: str, data: dict[str, str]) -> bytes:
    return f"id: {event_id}\nevent: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()
