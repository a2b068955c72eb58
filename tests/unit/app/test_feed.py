"""Many readers of the events are written one text, a few at a time, and none of them misses anything."""

import asyncio

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.feed import Feed, Kind
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids
from homeostat.core.limits import (
    EVENT_GAP_SECONDS,
    EVENT_READER_SECONDS,
    EVENTS_KEPT_MAX,
    READERS_WOKEN_MAX,
    RESUME_SECONDS,
)
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.event import Channel, Event
from homeostat.fleet.updates import Fell, UpdateEvent
from homeostat.testing.clock import ManualClock


def fell(name: str) -> Fell:
    return Fell(
        event=UpdateEvent.STALE,
        agent_id=AgentId(name),
        project=DEFAULT_PROJECT,
        agent_type="t",
        tags=(),
        presence=Liveness.STALE,
        since_ms=Millis(0),
    )


async def test_readers_at_one_place_share_a_text_and_nobody_misses_what_comes_meanwhile() -> None:
    clock = ManualClock()
    feed = Feed(bus=LocalBus(), clock=clock, ids=Ids(clock=clock))
    readers = [await feed.follow(DEFAULT_PROJECT, frozenset(), None) for _ in range(3 * READERS_WOKEN_MAX)]
    waits = [asyncio.ensure_future(reader.news(10)) for reader in readers]
    await asyncio.sleep(0)
    feed.hear(fell("a"))
    assert not readers[0].text(), "nothing was handed out yet"
    await waits[0]
    feed.hear(fell("b"))  # while most of them are not awake
    await asyncio.gather(*waits)
    texts = [reader.text() for reader in readers]
    assert len({id(text) for text in texts}) == 1
    assert (texts[0].count(b"id: "), b'"a"' in texts[0]) == (1, True)
    await asyncio.gather(*(reader.news(10) for reader in readers))
    assert all(b'"b"' in reader.text() for reader in readers)


async def test_the_more_read_the_less_often_they_are_written_to() -> None:
    clock = ManualClock()
    feed = Feed(bus=LocalBus(), clock=clock, ids=Ids(clock=clock))
    assert feed.gap == EVENT_GAP_SECONDS
    feed.readers = 1_000
    assert feed.gap == 1_000 * EVENT_READER_SECONDS < 1


async def test_what_seldom_happens_is_told_to_new_readers_after_a_flood_and_after_a_time_without_any() -> None:
    clock, bus = ManualClock(), LocalBus()
    feed = Feed(bus=bus, clock=clock, ids=Ids(clock=clock))
    kinds = frozenset({Kind.PRESENCE})
    reader = await feed.follow(DEFAULT_PROJECT, kinds, None)
    feed.hear(fell("a"))
    call = Event("c", DEFAULT_PROJECT, Channel.EVT, "agent", "a", "vitals", Json('{"sample_id":"s"}'))
    await bus.publish((call,) * (EVENTS_KEPT_MAX + 1))
    late = await feed.follow(DEFAULT_PROJECT, kinds, None)
    late.rewind(30)
    told = late.text()
    assert (told.count(b"id: "), b'"a"' in told) == (1, True)
    assert f"id: {late.id}\n".encode() in told, "whoever saw it last can go on from here"
    assert not (await feed.follow(DEFAULT_PROJECT, kinds, late.id)).missed()
    for _ in range(3):
        feed.leave()
    del reader
    clock.advance(2 * RESUME_SECONDS)
    await feed.tick()
    later = await feed.follow(DEFAULT_PROJECT, kinds, None)
    later.rewind(30)
    assert b'"a"' in later.text()
    assert later.text() == b""
