"""Redis is killed and comes back with nothing: no registration is lost, and nobody is called dead for it."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from homeostat.core.errors import AgentGone, StatusUnavailable
from homeostat.core.ids import AgentId
from homeostat.core.records.fleet import AgentStatus, Census, IntervalScope, PushInterval
from homeostat.fleet.broadcast import Interest
from homeostat.fleet.fleet import Fleet
from homeostat.fleet.registry import Enrolled, Introduction, Member
from homeostat.testing.fleets import fleet_world
from homeostat.testing.servers import RedisServer
from homeostat.testing.suites.status import CASES, Case, status


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


def words(member: Member) -> AgentStatus:
    entry = member.entry
    return replace(status(entry.agent_id), agent_type=entry.agent_type, tags=entry.tags)


async def enrol(fleet: Fleet, name: str) -> Enrolled:
    return await fleet.register(Introduction(agent_type="inference", tags=("gpu",), agent_id=AgentId(name)))


async def presences(fleet: Fleet) -> dict[str, str]:
    return {row.agent_id: row.status for row in (await fleet.agents(Interest())).agents}


async def test_status_returns_with_the_next_heartbeat(server: RedisServer) -> None:
    async with fleet_world(status_url=server.url) as world:
        fleet = world.fleet
        enrolled = {name: await enrol(fleet, name) for name in ("beating", "silent", "leaving")}
        await fleet.set_interval(IntervalScope.TAG, "gpu", 5)
        for each in enrolled.values():
            await fleet.beat(each.member, words(each.member))

        server.kill()
        with pytest.raises(StatusUnavailable):
            await fleet.beat(enrolled["beating"].member, words(enrolled["beating"].member))
        assert (await fleet.deregister(AgentId("leaving"))) is not None  # the register does not need Redis
        late = await enrol(fleet, "late")
        world.clock.advance(3600)
        server.start()

        # Who beats is shown again at once, whether or not a sweep has looked.
        receipt = await fleet.beat(enrolled["beating"].member, words(enrolled["beating"].member))
        assert receipt.interval == PushInterval(5.0, "tag:gpu")
        assert (await presences(fleet))["beating"] == "running"
        await fleet.beat(late.member, words(late.member))
        with pytest.raises(AgentGone):
            await fleet.beat(enrolled["leaving"].member, words(enrolled["leaving"].member))

        # Who does not is given its time anew, then found silent.
        assert await fleet.sweeper.tick() == 0
        assert set(await presences(fleet)) == {"beating", "silent", "late"}
        assert await fleet.census() == Census(alive=3)
        world.clock.advance(14)
        await fleet.beat(enrolled["beating"].member, words(enrolled["beating"].member))
        await fleet.beat(late.member, words(late.member))
        world.clock.advance(11)
        await fleet.sweeper.tick()
        assert await presences(fleet) == {"beating": "running", "late": "running", "silent": "dead"}


async def test_the_fleet_starts_without_redis_and_finds_it_later(server: RedisServer) -> None:
    server.kill()
    async with fleet_world(status_url=server.url) as world:
        enrolled = await enrol(world.fleet, "a")
        with pytest.raises(StatusUnavailable):
            await world.fleet.sweeper.tick()
        server.start()
        await world.fleet.sweeper.tick()
        assert await presences(world.fleet) == {"a": "registered"}
        await world.fleet.beat(enrolled.member, words(enrolled.member))
        assert await presences(world.fleet) == {"a": "running"}


async def test_the_loops_live_through_a_restart(server: RedisServer) -> None:
    async with fleet_world(status_url=server.url) as world:
        enrolled = await enrol(world.fleet, "a")
        tasks = [asyncio.ensure_future(run()) for _, run in world.fleet.loops]
        try:
            server.kill()
            for _ in range(3):
                with pytest.raises(StatusUnavailable):
                    await world.fleet.beat(enrolled.member, words(enrolled.member))
            server.start()
            await world.fleet.beat(enrolled.member, words(enrolled.member))
            follower = world.fleet.subscribe(Interest())
            assert '"status":"running"' in (await follower.next()).text
            assert not any(task.done() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_two_processes_share_what_redis_knows(server: RedisServer) -> None:
    async with fleet_world(status_url=server.url) as world, world.another(status_url=server.url) as other:
        enrolled = await enrol(world.fleet, "a")
        await other.beat(await other.identify(enrolled.api_key), words(enrolled.member))
        assert await presences(world.fleet) == {"a": "running"}
        world.clock.advance(150)
        passed = await asyncio.gather(world.fleet.sweeper.tick(), other.sweeper.tick())
        assert sorted(passed) == [0, 1]  # one verdict, passed by one of them
        assert await presences(other) == {"a": "dead"}
        await world.fleet.deregister(AgentId("a"))
        with pytest.raises(AgentGone):  # the other has not heard of it, and still does not take the heartbeat
            await other.beat(enrolled.member, words(enrolled.member))
        assert await presences(world.fleet) == {}


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.__name__)
async def test_a_keeper_is_as_good_as_new_after_a_restart(case: Case, server: RedisServer) -> None:
    from homeostat.adapters.statuses.redis import RedisStatuses
    from homeostat.testing.suites.status import START

    keeper = RedisStatuses(url=server.url)
    try:
        await keeper.listen(START, [], [])
        server.kill()
        with pytest.raises(StatusUnavailable):
            await keeper.roll(START, 1)
        server.start()
        assert (await keeper.roll(START, 1)).lost
        await case(keeper)
    finally:
        await keeper.close()
