"""The fleet as its callers see it, on a clock that is turned by hand and on both keepers."""

from collections.abc import AsyncGenerator

import pytest

from homeostat.core.clock import Millis
from homeostat.core.errors import AgentExpired, AgentUnknown, Forbidden, IntervalInvalid, MalformedPayload
from homeostat.core.ids import AgentId
from homeostat.core.limits import LAST_ACTION_CHARS_MAX
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import AgentStatus, Census, IntervalScope, PushInterval
from homeostat.fleet.broadcast import Interest
from homeostat.fleet.registry import Introduction, Member
from homeostat.testing.fleets import FleetWorld, fleet_world
from homeostat.testing.suites.status import status

HOUR = 3600.0


@pytest.fixture(params=["local", "redis"])
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[FleetWorld]:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    async with fleet_world(status_url=url) as made:
        yield made


async def join(world: FleetWorld, name: str, *tags: str, agent_type: str = "inference") -> Member:
    hello = Introduction(agent_type=agent_type, tags=tags, agent_id=AgentId(name))
    return (await world.fleet.register(hello)).member


def words(member: Member, **changes: object) -> AgentStatus:
    from msgspec.structs import replace

    entry = member.entry
    said = replace(status(entry.agent_id), agent_type=entry.agent_type, tags=entry.tags)
    return replace(said, **changes)


async def presences(world: FleetWorld) -> dict[str, str]:
    return {row.agent_id: row.presence.value for row in (await world.fleet.agents(Interest())).agents}


# --- liveness ----------------------------------------------------------------------------------------------------


async def test_stale_after_three_intervals_dead_after_five_and_only_by_the_sweep(world: FleetWorld) -> None:
    member = await join(world, "a")
    await world.fleet.beat(member, words(member))
    world.clock.advance(89.999)
    assert await world.fleet.sweeper.tick() == 0
    world.clock.advance(0.001)
    assert await presences(world) == {"a": "alive"}  # nobody has judged it yet
    assert await world.fleet.sweeper.tick() == 1
    row = await world.fleet.agent(AgentId("a"))
    assert (row.presence, row.status, row.reported_status) == (Liveness.STALE, "stale", "running")
    world.clock.advance(59.999)
    assert await world.fleet.sweeper.tick() == 0
    world.clock.advance(0.001)
    assert await world.fleet.sweeper.tick() == 1
    row = await world.fleet.agent(AgentId("a"))
    assert (row.presence, row.status, row.reported_status) == (Liveness.DEAD, "dead", "running")
    assert row.last_seen_at == "2025-06-15T15:06:40.000Z"


async def test_a_late_sweep_goes_straight_to_dead(world: FleetWorld) -> None:
    await join(world, "a")
    world.clock.advance(150)
    assert await world.fleet.sweeper.tick() == 1
    assert await presences(world) == {"a": "dead"}


async def test_the_agents_own_clock_decides_nothing(world: FleetWorld) -> None:
    from datetime import UTC, datetime

    member = await join(world, "a")
    future = datetime(9999, 12, 31, tzinfo=UTC)
    await world.fleet.beat(member, words(member, timestamp=future, started_at=future))
    row = await world.fleet.agent(AgentId("a"))
    assert (row.timestamp, row.presence) == (future, Liveness.ALIVE)
    world.clock.advance(150)
    await world.fleet.sweeper.tick()
    assert (await world.fleet.agent(AgentId("a"))).presence is Liveness.DEAD


async def test_reading_changes_nothing(world: FleetWorld) -> None:
    member = await join(world, "a")
    await world.fleet.beat(member, words(member))
    world.clock.advance(HOUR)
    first = await world.fleet.agent(AgentId("a"))
    seq = world.fleet.broadcaster.seq
    for _ in range(3):
        await world.fleet.agents(Interest())
        await world.fleet.interval(AgentId("a"))
        await world.fleet.history(AgentId("a"), since=Millis(0), limit=10)
        assert await world.fleet.agent(AgentId("a")) == first
    assert world.fleet.broadcaster.seq == seq
    assert first.presence is Liveness.ALIVE


async def test_the_dead_stay_listed_until_their_time_is_over(world: FleetWorld) -> None:
    member = await join(world, "a")
    await world.fleet.beat(member, words(member))
    world.clock.advance(150)
    await world.fleet.sweeper.tick()
    world.clock.advance(24 * HOUR - 1)
    assert await world.fleet.sweeper.tick() == 0
    assert await presences(world) == {"a": "dead"}
    world.clock.advance(1)
    assert await world.fleet.sweeper.tick() == 1
    assert await presences(world) == {}
    with pytest.raises(AgentExpired):
        await world.fleet.registry.confirm(AgentId("a"))


async def test_a_heartbeat_brings_back_the_dead(world: FleetWorld) -> None:
    member = await join(world, "a")
    world.clock.advance(150)
    await world.fleet.sweeper.tick()
    await world.fleet.beat(member, words(member))
    assert await presences(world) == {"a": "alive"}
    assert await world.fleet.census() == Census(alive=1)


async def test_silence_is_measured_by_the_interval_that_was_given(world: FleetWorld) -> None:
    member = await join(world, "a")
    await world.fleet.beat(member, words(member))  # is told 30 s
    await world.fleet.set_interval(IntervalScope.AGENT, "a", 0.1)
    world.clock.advance(80)
    assert await world.fleet.sweeper.tick() == 0  # it cannot know of 0.1 s before its next heartbeat
    receipt = await world.fleet.beat(member, words(member))
    assert receipt.interval == PushInterval(0.1, "agent")
    world.clock.advance(0.5)
    await world.fleet.sweeper.tick()
    assert await presences(world) == {"a": "dead"}


async def test_a_sweep_passes_many_verdicts_and_no_more_than_are_due(world: FleetWorld) -> None:
    for number in range(300):
        await join(world, f"old{number:03}")
    world.clock.advance(80)
    young = [await join(world, f"young{number}") for number in range(3)]
    world.clock.advance(10)
    assert await world.fleet.sweeper.tick() == 300
    assert await world.fleet.census() == Census(alive=3, stale=300)
    assert len(young) == 3


# --- heartbeats --------------------------------------------------------------------------------------------------


async def test_a_heartbeat_is_answered_with_the_interval_and_the_servers_time(world: FleetWorld) -> None:
    member = await join(world, "a", "gpu")
    await world.fleet.set_interval(IntervalScope.TAG, "gpu", 5)
    world.clock.advance(1.5)
    receipt = await world.fleet.beat(member, words(member))
    assert receipt.interval == PushInterval(5.0, "tag:gpu")
    assert receipt.received_ms == world.clock.now_ms()


async def test_nobody_reports_for_somebody_else(world: FleetWorld) -> None:
    mallory, alice = await join(world, "mallory"), await join(world, "alice")
    with pytest.raises(Forbidden):
        await world.fleet.beat(mallory, words(alice))
    assert (await world.fleet.agent(AgentId("alice"))).reported_status is None


async def test_the_register_has_the_last_word_on_type_and_tags(world: FleetWorld) -> None:
    member = await join(world, "a", "gpu")
    await world.fleet.beat(member, words(member, agent_type="cli", tags=("root",)))
    row = await world.fleet.agent(AgentId("a"))
    assert (row.agent_type, row.tags) == ("inference", ("gpu",))
    assert (await world.fleet.agents(Interest(tag="root"))).agents == []


async def test_a_long_description_is_cut(world: FleetWorld) -> None:
    member = await join(world, "a")
    await world.fleet.beat(member, words(member, last_action="x" * 10_000))
    row = await world.fleet.agent(AgentId("a"))
    assert row.last_action == "x" * (LAST_ACTION_CHARS_MAX - 1) + "…"


async def test_history_tells_the_last_heartbeats(world: FleetWorld) -> None:
    member = await join(world, "a")
    for number in range(5):
        await world.fleet.beat(member, words(member, items_processed=number))
        world.clock.advance(30)
    samples = await world.fleet.history(AgentId("a"), since=Millis(0), limit=3)
    assert [sample.items_processed for sample in samples] == [2, 3, 4]
    with pytest.raises(AgentUnknown):
        await world.fleet.history(AgentId("b"), since=Millis(0), limit=3)


# --- intervals ---------------------------------------------------------------------------------------------------


async def test_an_agent_resolves_the_same_on_every_route(world: FleetWorld) -> None:
    member = await join(world, "a", "gpu", "primary")
    steps = [
        (IntervalScope.DEFAULT, "", 20.0, PushInterval(20.0, "default")),
        (IntervalScope.TYPE, "inference", 10.0, PushInterval(10.0, "type:inference")),
        (IntervalScope.TAG, "gpu", 5.0, PushInterval(5.0, "tag:gpu")),
        (IntervalScope.TAG, "primary", 2.0, PushInterval(2.0, "tag:primary")),
        (IntervalScope.AGENT, "a", 60.0, PushInterval(60.0, "agent")),
        (IntervalScope.AGENT, "a", None, PushInterval(2.0, "tag:primary")),
        (IntervalScope.TAG, "primary", None, PushInterval(5.0, "tag:gpu")),
        (IntervalScope.TAG, "gpu", None, PushInterval(10.0, "type:inference")),
        (IntervalScope.TYPE, "inference", None, PushInterval(20.0, "default")),
        (IntervalScope.DEFAULT, "", None, PushInterval(30.0, "default")),
    ]
    for scope, name, seconds, expected in steps:
        await world.fleet.set_interval(scope, name, seconds)
        assert await world.fleet.interval(AgentId("a")) == expected
        assert (await world.fleet.beat(member, words(member))).interval == expected
        row = await world.fleet.agent(AgentId("a"))
        assert (row.push_interval_seconds, row.push_interval_source) == (expected.seconds, expected.source)
        [listed] = (await world.fleet.agents(Interest())).agents
        assert (listed.push_interval_seconds, listed.push_interval_source) == (expected.seconds, expected.source)


async def test_an_absurd_interval_changes_nothing(world: FleetWorld) -> None:
    await join(world, "a")
    for seconds in (0, -5, 1e-9, float("nan"), float("inf"), 3601):
        with pytest.raises(IntervalInvalid):
            await world.fleet.set_interval(IntervalScope.AGENT, "a", seconds)
    for scope, name in ((IntervalScope.TAG, ""), (IntervalScope.TYPE, "a b"), (IntervalScope.TAG, "x" * 101)):
        with pytest.raises(MalformedPayload):
            await world.fleet.set_interval(scope, name, 5)
    with pytest.raises(AgentUnknown):
        await world.fleet.set_interval(IntervalScope.AGENT, "nobody", 5)
    assert await world.store.intervals(0) == []


async def test_settings_survive_a_restart_and_reach_other_processes(world: FleetWorld) -> None:
    member = await join(world, "a", "gpu")
    await world.fleet.set_interval(IntervalScope.TAG, "gpu", 5)
    async with world.another() as other:
        assert await other.interval(AgentId("a")) == PushInterval(5.0, "tag:gpu")
        await world.fleet.set_interval(IntervalScope.TAG, "gpu", None)  # told through the bus
        assert await other.interval(AgentId("a")) == PushInterval(30.0, "default")
    assert member.entry.tags == ("gpu",)


# --- lists -------------------------------------------------------------------------------------------------------


async def test_agents_are_listed_by_type_tag_and_status(world: FleetWorld) -> None:
    a = await join(world, "a", "gpu")
    await join(world, "b", "gpu", "primary")
    c = await join(world, "c", "gpu", agent_type="cli")
    world.clock.advance(90)
    await world.fleet.beat(a, words(a))
    await world.fleet.beat(c, words(c))
    await world.fleet.sweeper.tick()

    async def listed(agent_type: str | None = None, tag: str | None = None, said: str | None = None) -> str:
        page = await world.fleet.agents(Interest(agent_type, tag), status=said)
        return "".join(row.agent_id for row in page.agents)

    assert await listed() == "abc"
    assert await listed("inference") == "ab"
    assert await listed(tag="gpu") == "abc"
    assert await listed("inference", "primary") == "b"
    assert await listed(said="stale") == "b"
    assert await listed(said="running") == "ac"
    assert await listed("cli", said="alive") == "c"
    assert await listed("nothing") == ""


async def test_pages_meet_without_gap_or_repeat(world: FleetWorld) -> None:
    names = [f"a{number:03}" for number in range(25)]
    for name in reversed(names):
        await join(world, name)
    seen: list[str] = []
    after = None
    while True:
        page = await world.fleet.agents(Interest(), after=after, limit=10)
        seen += [row.agent_id for row in page.agents]
        if (after := page.following) is None:
            break
    assert seen == names
    exact = await world.fleet.agents(Interest(), limit=25)
    assert exact.following is None
