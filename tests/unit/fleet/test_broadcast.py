"""The live feed: what a reader has put together is always what the fleet is, however it came by it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from homeostat.core.errors import Overloaded
from homeostat.core.ids import AgentId
from homeostat.core.limits import FRAMES_KEPT_MAX, UPDATES_KEPT_MAX
from homeostat.core.records.fleet import AgentStatus
from homeostat.fleet import broadcast
from homeostat.fleet.broadcast import Interest, Reader
from homeostat.fleet.registry import Introduction, Member
from homeostat.testing.fleets import FleetWorld, fleet_world
from homeostat.testing.suites.status import status

Row = dict[str, Any]


class Follower:
    """What a client does: keep rows current, and notice whether a message follows on what it has."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.rows: dict[str, Row] = {}
        self.seq = 0
        self.stream = ""
        self.snapshots = 0
        self.events: list[tuple[str, str]] = []

    async def read(self) -> None:
        """Take one message."""
        async with asyncio.timeout(5):
            self.take(json.loads((await self.reader.next()).text))

    def take(self, message: Row) -> None:
        self.stream = message["stream"]
        if message["type"] == "snapshot":
            if message["part"] == 1:
                self.rows.clear()
                self.snapshots += 1
            self.rows |= {agent["agent_id"]: agent for agent in message["agents"]}
        else:
            assert message["since"] <= self.seq < message["seq"] or not message["updates"], "a message is missing"
            for update in message["updates"]:
                self.apply(update)
        self.seq = message["seq"]

    def apply(self, update: Row) -> None:
        self.events.append((update["event"], update["agent_id"]))
        if update["event"] == "registered":
            self.rows[update["agent_id"]] = update["agent"]
        elif update["presence"] == "gone":
            self.rows.pop(update["agent_id"], None)
        else:
            self.rows[update["agent_id"]] |= {k: v for k, v in update.items() if k not in ("seq", "event")}

    async def read_up_to(self, seq: int) -> None:
        while self.seq < seq:
            await self.read()


@pytest.fixture
async def world() -> AsyncGenerator[FleetWorld]:
    async with fleet_world() as made:
        yield made


async def join(world: FleetWorld, name: str, *tags: str, agent_type: str = "inference") -> Member:
    hello = Introduction(agent_type=agent_type, tags=tags, agent_id=AgentId(name))
    return (await world.fleet.register(hello)).member


def words(member: Member, items: int = 0) -> AgentStatus:
    from msgspec.structs import replace

    entry = member.entry
    return replace(status(entry.agent_id, items=items), agent_type=entry.agent_type, tags=entry.tags)


async def beat(world: FleetWorld, member: Member, items: int = 0) -> None:
    await world.fleet.beat(member, words(member, items))


async def truth(world: FleetWorld, interest: Interest = Interest()) -> dict[str, Row]:  # noqa: B008
    import msgspec

    page = await world.fleet.agents(interest)
    return {row.agent_id: json.loads(msgspec.json.encode(row)) for row in page.agents}


async def test_a_snapshot_then_deltas(world: FleetWorld) -> None:
    a = await join(world, "a")
    follower = Follower(world.fleet.subscribe(Interest()))
    await follower.read()
    assert follower.rows == await truth(world)
    await beat(world, a, items=7)
    await join(world, "b")
    await world.fleet.broadcaster.tick()
    await follower.read_up_to(world.fleet.broadcaster.seq)
    assert follower.rows == await truth(world)
    assert follower.rows["a"]["items_processed"] == 7
    assert follower.snapshots == 1


async def test_silence_and_departures_are_told(world: FleetWorld) -> None:
    await join(world, "a")
    await join(world, "b")
    follower = Follower(world.fleet.subscribe(Interest()))
    await follower.read()
    world.clock.advance(90)
    await world.fleet.sweeper.tick()
    world.clock.advance(60)
    await world.fleet.sweeper.tick()
    await world.fleet.deregister(AgentId("b"))
    await world.fleet.broadcaster.tick()
    await follower.read_up_to(world.fleet.broadcaster.seq)
    assert follower.events[-5:] == [("stale", "a"), ("stale", "b"), ("dead", "a"), ("dead", "b"), ("deregistered", "b")]
    assert follower.rows == await truth(world)
    world.clock.advance(24 * 3600)
    await world.fleet.sweeper.tick()
    await world.fleet.broadcaster.tick()
    await follower.read()
    assert follower.events[-1] == ("expired", "a")
    assert follower.rows == {}


async def test_a_filter_shows_its_agents_and_no_others(world: FleetWorld) -> None:
    members = [
        await join(world, "a", "gpu"),
        await join(world, "b", "gpu", "primary"),
        await join(world, "c", "gpu", agent_type="cli"),
    ]
    interests = [
        Interest(),
        Interest("inference"),
        Interest("cli"),
        Interest(tag="gpu"),
        Interest("inference", "primary"),
        Interest("cli", "primary"),
    ]
    followers = [Follower(world.fleet.subscribe(interest)) for interest in interests]
    for follower in followers:
        await follower.read()
    for round_number in range(3):
        for member in members:
            await beat(world, member, items=round_number)
        await world.fleet.broadcaster.tick()
    for interest, follower in zip(interests, followers, strict=True):
        expected = await truth(world, interest)
        if expected:
            await follower.read_up_to(world.fleet.broadcaster.seq)
        assert follower.rows == expected
        assert follower.snapshots == 1


async def test_who_followed_an_agent_by_its_old_words_hears_that_it_has_others(world: FleetWorld) -> None:
    hello = Introduction(agent_type="inference", tags=("gpu",), agent_id=AgentId("a"))
    enrolled = await world.fleet.register(hello)
    followers = {tag: Follower(world.fleet.subscribe(Interest(tag=tag))) for tag in ("gpu", "cpu", "tpu")}
    for follower in followers.values():
        await follower.read()
    await world.fleet.register(replace(hello, tags=("cpu",)), enrolled.api_key)
    await world.fleet.broadcaster.tick()
    for tag in ("gpu", "cpu"):
        await followers[tag].read_up_to(world.fleet.broadcaster.seq)
        assert followers[tag].rows["a"]["tags"] == ["cpu"], tag
    assert followers["tpu"].events == []


async def test_a_filter_can_be_changed_while_reading(world: FleetWorld) -> None:
    a, b = await join(world, "a"), await join(world, "b", agent_type="cli")
    follower = Follower(world.fleet.subscribe(Interest("inference")))
    await follower.read()
    assert set(follower.rows) == {"a"}
    waiting = asyncio.create_task(follower.read())
    await asyncio.sleep(0)
    follower.reader.change(Interest("cli"))
    await waiting
    assert set(follower.rows) == {"b"}
    await beat(world, a, items=1)
    await beat(world, b, items=2)
    await world.fleet.broadcaster.tick()
    await follower.read()
    assert follower.rows == await truth(world, Interest("cli"))


async def test_a_reader_resumes_where_it_stopped(world: FleetWorld) -> None:
    a = await join(world, "a")
    follower = Follower(world.fleet.subscribe(Interest()))
    await follower.read()
    follower.reader.close()
    await beat(world, a, items=1)
    await world.fleet.broadcaster.tick()
    await beat(world, a, items=2)
    follower.reader = world.fleet.subscribe(Interest(), stream=follower.stream, after=follower.seq)
    await follower.read()
    assert follower.events == [("heartbeat", "a"), ("heartbeat", "a")]
    await beat(world, a, items=3)
    await world.fleet.broadcaster.tick()
    await follower.read_up_to(world.fleet.broadcaster.seq)
    assert follower.rows == await truth(world)
    assert follower.snapshots == 1


async def test_to_resume_without_having_missed_anything_is_acknowledged(world: FleetWorld) -> None:
    await join(world, "a")
    await join(world, "b", agent_type="cli")
    await world.fleet.broadcaster.tick()
    follower = Follower(world.fleet.subscribe(Interest("inference")))
    await follower.read()
    follower.reader.close()
    await join(world, "c", agent_type="cli")
    follower.reader = world.fleet.subscribe(Interest("inference"), stream=follower.stream, after=follower.seq)
    await follower.read()
    assert (follower.seq, follower.events) == (world.fleet.broadcaster.seq, [])


@pytest.mark.parametrize(("stream", "after"), [("another", 1), (None, 1), ("this", 10_000), ("this", -5)])
async def test_who_cannot_resume_gets_a_snapshot(world: FleetWorld, stream: str | None, after: int) -> None:
    for name in "abc":
        await join(world, name)
    known = world.fleet.broadcaster.stream if stream == "this" else stream
    follower = Follower(world.fleet.subscribe(Interest(), stream=known, after=after))
    await follower.read()
    assert follower.snapshots == 1
    assert set(follower.rows) == {"a", "b", "c"}


async def test_what_is_too_long_ago_cannot_be_resumed(world: FleetWorld) -> None:
    a = await join(world, "a")
    for _ in range(UPDATES_KEPT_MAX):
        await beat(world, a)
    stream = world.fleet.broadcaster.stream
    follower = Follower(world.fleet.subscribe(Interest(), stream=stream, after=0))
    await follower.read()
    assert follower.snapshots == 1
    follower = Follower(world.fleet.subscribe(Interest(), stream=stream, after=1))
    follower.seq, follower.rows = 1, {"a": {}}
    await follower.read_up_to(world.fleet.broadcaster.seq)
    assert follower.snapshots == 0


async def test_a_slow_reader_is_resynchronised_and_holds_nobody_up(world: FleetWorld) -> None:
    a = await join(world, "a")
    slow, quick = (Follower(world.fleet.subscribe(Interest())) for _ in range(2))
    await slow.read()
    await quick.read()
    for number in range(FRAMES_KEPT_MAX + 10):
        await beat(world, a, items=number)
        await world.fleet.broadcaster.tick()
        await quick.read_up_to(world.fleet.broadcaster.seq)
    assert quick.snapshots == 1
    await slow.read_up_to(world.fleet.broadcaster.seq)
    assert slow.snapshots == 2
    assert world.fleet.broadcaster.resyncs == 1
    assert slow.rows == quick.rows == await truth(world)
    channel = world.fleet.broadcaster._channels[Interest()]
    assert len(channel.frames) == FRAMES_KEPT_MAX


async def test_large_fleets_come_in_parts(world: FleetWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from homeostat.fleet import fleet

    monkeypatch.setattr(fleet, "SNAPSHOT_AGENTS_MAX", 4)
    monkeypatch.setattr(broadcast, "FRAME_UPDATES_MAX", 3)
    members = [await join(world, f"a{number}") for number in range(10)]
    follower = Follower(world.fleet.subscribe(Interest()))
    messages = [json.loads((await follower.reader.next()).text) for _ in range(3)]
    assert [(m["part"], m["parts"], len(m["agents"])) for m in messages] == [(1, 3, 4), (2, 3, 4), (3, 3, 2)]
    for message in messages:
        follower.take(message)
    for member in members:
        await beat(world, member, items=5)
    await world.fleet.broadcaster.tick()
    deltas = [json.loads((await follower.reader.next()).text) for _ in range(4)]
    assert [len(m["updates"]) for m in deltas] == [3, 3, 3, 1]
    for message in deltas:
        follower.take(message)
    assert follower.rows == await truth(world)


async def test_readers_who_come_together_share_a_snapshot(world: FleetWorld) -> None:
    await join(world, "a")
    built = 0
    pages = world.fleet.broadcaster._rows

    def counted(interest: Interest) -> Any:
        nonlocal built
        built += 1
        return pages(interest)

    world.fleet.broadcaster._rows = counted
    followers = [Follower(world.fleet.subscribe(Interest())) for _ in range(50)]
    await asyncio.gather(*(follower.read() for follower in followers))
    assert built == 1
    world.clock.advance(5)
    late = Follower(world.fleet.subscribe(Interest()))
    await late.read()
    assert built == 2


async def test_a_shared_snapshot_loses_nothing_that_came_after_it(world: FleetWorld) -> None:
    a = await join(world, "a")
    first = Follower(world.fleet.subscribe(Interest()))
    await first.read()
    for number in range(3):
        await beat(world, a, items=number)
        await world.fleet.broadcaster.tick()
    late = Follower(world.fleet.subscribe(Interest()))
    await late.read_up_to(world.fleet.broadcaster.seq)
    assert late.rows == await truth(world)


async def test_channels_go_with_their_last_reader(world: FleetWorld) -> None:
    readers = [world.fleet.subscribe(Interest("inference", f"t{number % 3}")) for number in range(9)]
    assert len(world.fleet.broadcaster._channels) == 3
    for reader in readers:
        reader.close()
    assert world.fleet.broadcaster._channels == {}
    assert world.fleet.broadcaster.readers == 0


async def test_there_is_a_limit_to_readers(world: FleetWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "READERS_MAX", 2)
    for _ in range(2):
        world.fleet.subscribe(Interest())
    with pytest.raises(Overloaded):
        world.fleet.subscribe(Interest())


async def test_every_process_sees_every_update(world: FleetWorld) -> None:
    async with world.another() as other:
        followers = [Follower(fleet.subscribe(Interest())) for fleet in (world.fleet, other)]
        for follower in followers:
            await follower.read()
        here = await join(world, "here")
        there = (await other.register(Introduction(agent_type="cli", agent_id=AgentId("there")))).member
        await world.fleet.broadcaster.tick_relay()
        await other.broadcaster.tick_relay()
        await world.fleet.beat(here, words(here, items=1))
        await other.beat(there, words(there, items=2))
        for fleet in (world.fleet, other):
            await fleet.broadcaster.tick_relay()
        for fleet, follower in zip((world.fleet, other), followers, strict=True):
            await fleet.broadcaster.tick()
            await follower.read_up_to(fleet.broadcaster.seq)
            assert {name: row["items_processed"] for name, row in follower.rows.items()} == {"here": 1, "there": 2}
        # Each has heard the other's heartbeats, and calls nobody dead whom the other hears.
        for _ in range(10):
            world.clock.advance(30)
            await other.beat(there, words(there))
            await other.broadcaster.tick_relay()
            await world.fleet.sweeper.tick()
        rows = {row.agent_id: row.presence.value for row in (await world.fleet.agents(Interest())).agents}
        assert rows == {"here": "dead", "there": "alive"}


async def test_a_heartbeat_that_was_overtaken_on_its_way_is_not_told(world: FleetWorld) -> None:
    async with world.another() as other:
        here = await join(world, "a")
        await world.fleet.broadcaster.tick_relay()
        there = other.registry.get(AgentId("a"))
        assert there is not None
        follower = Follower(world.fleet.subscribe(Interest()))
        await follower.read()
        await other.beat(there, words(there, items=1))
        world.clock.advance(0.01)
        await world.fleet.beat(here, words(here, items=2))
        await other.broadcaster.tick_relay()  # arrives late
        await world.fleet.broadcaster.tick()
        await follower.read_up_to(world.fleet.broadcaster.seq)
        assert follower.rows == await truth(world)
        assert follower.rows["a"]["items_processed"] == 2


async def test_news_is_told_at_once_and_heartbeats_wait_for_company(world: FleetWorld) -> None:
    a = await join(world, "a")
    running = asyncio.create_task(world.fleet.broadcaster.run())
    try:
        follower = Follower(world.fleet.subscribe(Interest()))
        await follower.read()
        await beat(world, a)
        await follower.read_up_to(world.fleet.broadcaster.seq)
        frames = len(world.fleet.broadcaster._channels[Interest()].frames)
        for number in range(5):
            await beat(world, a, items=number)
            await asyncio.sleep(0)
        assert len(world.fleet.broadcaster._channels[Interest()].frames) == frames
        await world.fleet.deregister(AgentId("a"))  # does not wait, and takes the heartbeats along
        await follower.read()
        assert follower.events[-6:] == [*[("heartbeat", "a")] * 5, ("deregistered", "a")]
    finally:
        running.cancel()


async def test_what_nobody_follows_is_not_kept() -> None:
    async with fleet_world(alone=True) as world:
        a = await join(world, "a")
        feed = world.fleet.broadcaster
        await beat(world, a)
        assert (feed.seq, len(feed._kept)) == (2, 0)
        follower = Follower(world.fleet.subscribe(Interest()))
        await follower.read()
        await beat(world, a, items=1)
        await feed.tick()
        await follower.read()
        follower.reader.close()
        world.clock.advance(59)
        await beat(world, a, items=2)
        await feed.tick()
        follower.reader = world.fleet.subscribe(Interest(), stream=follower.stream, after=follower.seq)
        await follower.read()  # whoever comes back soon goes on where it was
        assert (follower.snapshots, follower.rows["a"]["items_processed"]) == (1, 2)
        follower.reader.close()
        world.clock.advance(61)
        await beat(world, a, items=3)
        await feed.tick()
        assert not feed.followed
        await beat(world, a, items=4)
        follower.reader = world.fleet.subscribe(Interest(), stream=follower.stream, after=follower.seq)
        await follower.read()
        assert (follower.snapshots, follower.rows) == (2, await truth(world))
