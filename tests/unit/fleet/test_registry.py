"""Who is registered, under which key, and that leaving is final until the agent says otherwise."""

import asyncio

import pytest

from homeostat.core.errors import (
    AgentExists,
    AgentExpired,
    AgentGone,
    AgentUnknown,
    Forbidden,
    MalformedPayload,
    Unauthenticated,
)
from homeostat.core.ids import AgentId, key_digest
from homeostat.core.records.fleet import Departure
from homeostat.fleet.registry import Introduction
from homeostat.testing.fleets import fleet_world
from homeostat.testing.suites.status import status

HELLO = Introduction(agent_type="inference", tags=("gpu", "primary"), hostname="worker-1", pid=12345)


async def test_registration_gives_an_id_and_a_key_that_is_kept_as_a_digest_only() -> None:
    async with fleet_world() as world:
        enrolled = await world.fleet.register(HELLO)
        entry = enrolled.member.entry
        assert entry.agent_id.startswith("inference-")
        assert (await world.fleet.identify(enrolled.api_key)).entry is entry
        stored = await world.store.registration(entry.agent_id)
        assert stored is not None
        assert stored.key_digest == key_digest(enrolled.api_key)
        assert enrolled.api_key not in repr(stored)


async def test_a_stranger_is_not_identified() -> None:
    async with fleet_world() as world:
        for secret in (None, "", "hs_nonsense", "ü" * 500):
            with pytest.raises(Unauthenticated):
                await world.fleet.identify(secret)


async def test_registering_again_keeps_id_and_tags_and_key() -> None:
    async with fleet_world() as world:
        first = await world.fleet.register(HELLO)
        agent_id = first.member.entry.agent_id
        world.clock.advance(100)
        again = Introduction(agent_type="inference", agent_id=agent_id, hostname="worker-2", pid=7)
        second = await world.fleet.register(again, first.api_key)
        entry = second.member.entry
        assert (entry.agent_id, entry.tags, entry.hostname, entry.pid) == (agent_id, ("gpu", "primary"), "worker-2", 7)
        assert entry.registered_at_ms == first.member.entry.registered_at_ms
        assert second.api_key == first.api_key
        assert not second.fresh
        assert len(world.fleet.registry) == 1
        retagged = Introduction(agent_type="inference", agent_id=agent_id, tags=("cpu",))
        assert (await world.fleet.register(retagged, first.api_key)).member.entry.tags == ("cpu",)


async def test_nobody_registers_as_somebody_else() -> None:
    async with fleet_world() as world:
        first, other = await world.fleet.register(HELLO), await world.fleet.register(HELLO)
        taken = Introduction(agent_type="cli", agent_id=first.member.entry.agent_id)
        with pytest.raises(AgentExists):
            await world.fleet.register(taken, None)
        with pytest.raises(Forbidden):
            await world.fleet.register(taken, other.api_key)
        stored = await world.store.registration(first.member.entry.agent_id)
        assert stored == first.member.entry


async def test_a_chosen_id_is_taken_once_however_many_ask() -> None:
    async with fleet_world() as world:
        chosen = Introduction(agent_type="cli", agent_id=AgentId("billing-1"))
        answers = await asyncio.gather(*(world.fleet.register(chosen) for _ in range(20)), return_exceptions=True)
        assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
        assert all(isinstance(a, AgentExists) for a in answers if isinstance(a, BaseException))
        assert len(world.fleet.registry) == 1


async def test_many_register_at_once_in_few_commits() -> None:
    async with fleet_world() as world:
        saves = 0
        save = world.store.save

        async def counted(changes):  # pyright: ignore[reportMissingParameterType]
            nonlocal saves
            saves += 1
            return await save(changes)

        world.fleet.registry._saves._carry = counted
        enrolled = await asyncio.gather(*(world.fleet.register(HELLO) for _ in range(100)))
        assert len({each.member.entry.agent_id for each in enrolled}) == 100
        assert saves <= 4


async def test_a_late_heartbeat_does_not_resurrect() -> None:
    async with fleet_world() as world:
        enrolled = await world.fleet.register(HELLO)
        agent_id = enrolled.member.entry.agent_id
        left = await world.fleet.deregister(agent_id)
        assert left is not None
        assert left.gone_why is Departure.DEREGISTERED
        with pytest.raises(AgentGone) as gone:
            await world.fleet.identify(enrolled.api_key)
        assert gone.value.code == "agent_gone"
        with pytest.raises(AgentGone):  # one that was under way while the agent left
            await world.fleet.beat(enrolled.member, status(agent_id))
        with pytest.raises(AgentUnknown):
            await world.fleet.agent(agent_id)
        assert await world.fleet.deregister(agent_id) is None
        back = await world.fleet.register(Introduction(agent_type="inference", agent_id=agent_id), enrolled.api_key)
        assert back.member.entry.tags == ("gpu", "primary")
        await world.fleet.beat(back.member, status(agent_id))


async def test_to_deregister_nobody_is_an_error() -> None:
    async with fleet_world() as world:
        with pytest.raises(AgentUnknown):
            await world.fleet.deregister(AgentId("nobody"))


async def test_the_expired_are_told_why() -> None:
    async with fleet_world() as world:
        enrolled = await world.fleet.register(HELLO)
        await world.fleet.registry.leave(enrolled.member.entry.agent_id, Departure.EXPIRED)
        with pytest.raises(AgentExpired):
            await world.fleet.identify(enrolled.api_key)


async def test_who_left_is_forgotten_after_a_while() -> None:
    async with fleet_world() as world:
        enrolled = await world.fleet.register(HELLO)
        await world.fleet.deregister(enrolled.member.entry.agent_id)
        assert await world.fleet.registry.forget() == 0
        world.clock.advance(8 * 24 * 3600)
        assert await world.fleet.registry.forget() == 1
        with pytest.raises(Unauthenticated):
            await world.fleet.identify(enrolled.api_key)


@pytest.mark.parametrize(
    "hello",
    [
        Introduction(agent_type=""),
        Introduction(agent_type="a/b"),
        Introduction(agent_type="a b"),
        Introduction(agent_type="type:x"),
        Introduction(agent_type="x" * 101),
        Introduction(agent_type="cli\n"),
        Introduction(agent_type="cli", tags=("ok", "")),
        Introduction(agent_type="cli", tags=("a" * 101,)),
        Introduction(agent_type="cli", tags=tuple(f"t{number}" for number in range(65))),
        Introduction(agent_type="cli", tags=("../etc",)),
        Introduction(agent_type="cli", agent_id=AgentId("config")),
        Introduction(agent_type="cli", agent_id=AgentId("default")),
        Introduction(agent_type="cli", agent_id=AgentId("type:x")),
        Introduction(agent_type="cli", agent_id=AgentId("a" * 201)),
        Introduction(agent_type="cli", agent_id=AgentId("a\x00b")),
        Introduction(agent_type="cli", hostname="h\x00"),
        Introduction(agent_type="cli", hostname="h" * 256),
        Introduction(agent_type="cli", version="1\x07"),
        Introduction(agent_type="cli", version="1" * 101),
    ],
    ids=repr,
)
async def test_what_could_not_be_a_name_is_refused(hello: Introduction) -> None:
    async with fleet_world() as world:
        with pytest.raises(MalformedPayload):
            await world.fleet.register(hello)
        assert await world.store.changed(0, 10) == []


async def test_another_process_sees_who_came_and_went() -> None:
    async with fleet_world() as world, world.another() as other:
        enrolled = await world.fleet.register(HELLO)
        agent_id = enrolled.member.entry.agent_id
        assert (await other.identify(enrolled.api_key)).entry == enrolled.member.entry
        await world.fleet.deregister(agent_id)
        assert other.registry.get(agent_id) is not None
        await other.tick_registrar()
        assert other.registry.get(agent_id) is None


async def test_the_register_survives_a_restart() -> None:
    async with fleet_world() as world:
        enrolled = [await world.fleet.register(HELLO) for _ in range(3)]
        async with world.another() as later:
            ids = [member.entry.agent_id for member in later.registry.members()]
            assert ids == sorted(each.member.entry.agent_id for each in enrolled)
            assert (await later.identify(enrolled[0].api_key)).entry == enrolled[0].member.entry
