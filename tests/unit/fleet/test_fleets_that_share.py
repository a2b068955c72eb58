"""Two servers on one store without a shared keeper of statuses: what each says of agents that only the other hears."""

import asyncio
from dataclasses import replace

from msgspec.structs import replace as with_words

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.ids import AgentId
from homeostat.core.machines.liveness import Liveness
from homeostat.fleet.fleet import Fleet
from homeostat.fleet.registry import Introduction, Member
from homeostat.fleet.updates import Change, Fell
from homeostat.testing.fleets import fleet_world
from homeostat.testing.suites.status import status

A = AgentId("a")


async def join(fleet: Fleet) -> Member:
    return (await fleet.register(Introduction(agent_type="inference", agent_id=A))).member


async def beat(fleet: Fleet, member: Member) -> None:
    entry = member.entry
    await fleet.beat(member, with_words(status(entry.agent_id), agent_type=entry.agent_type, tags=entry.tags))


def verdicts(fleet: Fleet) -> list[str]:
    """What a server tells of the silent, from now on."""
    told: list[str] = []

    def hear(change: Change) -> None:
        if isinstance(change, Fell):
            told.append(change.event.value)

    fleet.broadcaster.told = hear
    return told


async def exchange(*fleets: Fleet) -> None:
    """Let each hear what the others told."""
    for fleet in fleets:
        await fleet.broadcaster.tick_relay()
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_agent_that_only_another_server_hears_stays_alive_and_registered() -> None:
    async with fleet_world() as world:
        member = await join(world.fleet)
        async with replace(world, bus=LocalBus()).another() as other:
            told = verdicts(other)
            for _ in range(26 * 60):  # longer than the dead are remembered
                world.clock.advance(60)
                await beat(world.fleet, member)
                await world.fleet.tick_registrar()
                await other.sweeper.tick()
            assert told == []
            assert (await other.agent(A)).presence is Liveness.ALIVE
            await other.tick_registrar()
            await world.fleet.tick_registrar()
            await beat(world.fleet, member)


async def test_what_was_called_dead_by_mistake_is_not_taken_off_the_register() -> None:
    async with fleet_world() as world:
        member = await join(world.fleet)
        async with replace(world, bus=LocalBus()).another() as other:
            told = verdicts(other)
            world.clock.advance(150)  # the first server wrote nothing down meanwhile
            await other.sweeper.tick()
            assert told == ["dead"]
            world.clock.advance(24 * 3600 - 60)
            await beat(world.fleet, member)
            await world.fleet.tick_registrar()
            world.clock.advance(60)
            await other.sweeper.tick()
            assert told == ["dead"]
            assert (await other.agent(A)).presence is Liveness.ALIVE


async def test_who_dies_at_both_is_told_dead_once_at_each() -> None:
    async with fleet_world() as world:
        await join(world.fleet)
        async with world.another() as other:
            told = verdicts(world.fleet), verdicts(other)
            for _ in range(4):
                world.clock.advance(45)
                for fleet in (world.fleet, other):
                    await fleet.sweeper.tick()
                await exchange(world.fleet, other)
            assert told == (["stale", "dead"], ["stale", "dead"])


async def test_who_registered_elsewhere_lives_and_dies_here_too() -> None:
    async with fleet_world() as world, world.another() as other:
        told = verdicts(other)
        member = await join(world.fleet)
        await exchange(world.fleet)
        await beat(world.fleet, member)
        await exchange(world.fleet)
        assert (await other.agent(A)).status == "running"
        world.clock.advance(150)
        await world.fleet.sweeper.tick()
        await exchange(world.fleet)
        assert told == ["dead"]
        row = await other.agent(A)
        assert (row.presence, row.presence_since) == (Liveness.DEAD, (await world.fleet.agent(A)).presence_since)


async def test_a_verdict_of_a_server_that_heard_nobody_is_not_believed() -> None:
    async with fleet_world() as world:
        member = await join(world.fleet)
        async with world.another() as other:
            told = verdicts(world.fleet)
            world.clock.advance(100)
            await beat(world.fleet, member)  # told to nobody: the relay stands still
            await other.sweeper.tick()
            assert (await other.agent(A)).presence is Liveness.STALE
            await exchange(other)
            assert told == []
            assert (await world.fleet.agent(A)).presence is Liveness.ALIVE
