"""Many readers of the events are written one text, a few at a time, and none of them misses anything."""

import asyncio

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.feed import Feed
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids
from homeostat.core.limits import EVENT_GAP_SECONDS, EVENT_READER_SECONDS, READERS_WOKEN_MAX
from homeostat.core.machines.liveness import Liveness
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
