"""What stood still for all is everybody's trouble, wherever in its end a tick falls."""

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from homeostat.core.ids import DEFAULT_PROJECT, AgentId, TraceId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.vitals import Hearsay, Vitals
from homeostat.immune.doctrine import Doctrine
from homeostat.testing.clinic import Clinic, clinic

NAMES = tuple(f"agent-{number}" for number in range(20))
FIRST, REST = NAMES[0], NAMES[1:]
HOSTS = 5
USUAL, HESITATED, STALLED, LOST = 70, 900, 1500, 90_000  # milliseconds
DOCTRINE = replace(Doctrine(), tick_seconds=3600.0, reconcile_seconds=3600.0)


@dataclass
class Fleet:
    ward: Clinic
    told: int = 0

    async def tick(self, *turns: tuple[str, int], hijacked: Collection[str] = ()) -> None:
        """A second in which these turns end, each after so long; then a tick. Some do as tools told them."""
        for name, latency_ms in turns:
            self._take(name, source="turn", latency_ms=latency_ms, steps=0)
        for name in hijacked:
            told = Hearsay(orders=5.0, cues=("override",), borrowed=True)
            self._take(name, hearsay=told, trace_id=TraceId(f"{NAMES.index(name):032x}"))
        self.ward.clock.advance(1.0)
        await self.ward.system.immune.tick()

    def _take(self, name: str, **said: Any) -> None:
        self.told += 1
        sample_id, trace_id = f"s{self.told}", TraceId(f"{self.told:032x}")
        sample = Vitals(sample_id, DEFAULT_PROJECT, AgentId(name), self.ward.clock.now_ms(), "self", trace_id=trace_id)
        assert self.ward.system.immune.intake.take(structs.replace(sample, **said)) is None

    async def goes_on(self) -> set[str]:
        """All is well again for longer than a suspicion takes to settle; who is isolated by then."""
        for _ in range(6):
            await self.tick(*((name, USUAL) for name in NAMES for _ in range(5)))
        return {name for name in NAMES if self.ward.phase(name) not in (Phase.HEALTHY, Phase.SUSPECTED)}

    async def told_of(self) -> set[tuple[AgentId | None, str]]:
        """Who was isolated, and which cohorts had a trouble of their own."""
        store = self.ward.system.immune.store
        told = await store.incidents(DEFAULT_PROJECT, agent_id=None, before=None, limit=100)
        return {(one.agent_id, one.cohort) for one in told}


@pytest.fixture
async def fleet() -> AsyncGenerator[Fleet]:
    async with clinic(doctrine=DOCTRINE) as ward:
        for host in range(HOSTS):
            await ward.enrol(*NAMES[host::HOSTS], hostname=f"web-{host}")
        fleet = Fleet(ward)
        for second in range(40):
            turns = [(name, 60 + (7 * second + 3 * place) % 25) for place, name in enumerate(NAMES) for _ in range(5)]
            await fleet.tick(*turns)
        assert {ward.phase(name) for name in NAMES} == {Phase.HEALTHY}
        yield fleet


async def test_nobody_is_isolated_who_only_was_the_first_to_go_on(fleet: Fleet) -> None:
    await fleet.tick((FIRST, STALLED))
    await fleet.tick((FIRST, USUAL), *((name, took) for name in REST for took in (STALLED, USUAL, USUAL)))
    assert await fleet.goes_on() == set()


async def test_nobody_is_isolated_who_only_was_the_last_to_go_on(fleet: Fleet) -> None:
    await fleet.tick(*((name, took) for name in REST for took in (STALLED, USUAL)), (FIRST, STALLED))
    assert await fleet.goes_on() == set()


async def test_nobody_is_isolated_for_the_one_turn_in_hand_when_all_stood_still(fleet: Fleet) -> None:
    await fleet.tick((FIRST, STALLED))
    assert await fleet.goes_on() == set()


async def test_who_is_late_by_more_than_any_machine_stands_still_is_isolated_at_first_sight(fleet: Fleet) -> None:
    await fleet.tick((FIRST, LOST))
    assert await fleet.goes_on() == {FIRST}


async def test_who_stays_slow_alone_is_isolated(fleet: Fleet) -> None:
    for _ in range(8):
        await fleet.tick(*((FIRST, STALLED) for _ in range(3)), *((name, USUAL) for name in REST))
    assert fleet.ward.phase(FIRST) not in (Phase.HEALTHY, Phase.SUSPECTED)
    assert {fleet.ward.phase(name) for name in REST} == {Phase.HEALTHY}


async def test_nobody_is_isolated_for_a_host_that_stands_still(fleet: Fleet) -> None:
    slow = set(NAMES[2::HOSTS])
    for _ in range(8):
        await fleet.tick(*((name, STALLED if name in slow else USUAL) for name in NAMES for _ in range(3)))
    assert await fleet.goes_on() == set()
    told = await fleet.ward.system.immune.store.incidents(DEFAULT_PROJECT, agent_id=None, before=None, limit=10)
    assert {(one.agent_id, one.cohort, frozenset(one.agents)) for one in told} == {
        (None, "host web-2", frozenset(slow))
    }


async def test_a_turn_that_is_later_by_less_than_a_second_is_no_sign(fleet: Fleet) -> None:
    await fleet.tick(*((FIRST, HESITATED) for _ in range(10)))
    assert await fleet.goes_on() == set()
    assert fleet.ward.phase(FIRST) is Phase.HEALTHY


async def test_who_was_hijacked_is_isolated_though_everybody_is_slow_at_the_time(fleet: Fleet) -> None:
    for _ in range(6):
        await fleet.tick(*((name, STALLED) for name in NAMES for _ in range(3)), hijacked=[FIRST])
    await fleet.goes_on()
    assert await fleet.told_of() == {(None, "fleet"), (FIRST, "fleet")}


async def test_no_host_makes_its_agents_obey_a_tool(fleet: Fleet) -> None:
    hijacked = NAMES[2::HOSTS][:3]
    for _ in range(6):
        await fleet.tick(*((name, USUAL) for name in NAMES), hijacked=hijacked)
    await fleet.goes_on()
    assert await fleet.told_of() == {(name, "fleet") for name in hijacked}


async def test_who_was_hijacked_is_not_let_out_when_everybody_turns_out_to_be_slow(fleet: Fleet) -> None:
    rest = [(name, USUAL) for name in REST]
    for _ in range(7):
        await fleet.tick(*((FIRST, STALLED) for _ in range(3)), *rest, hijacked=[FIRST])
    for _ in range(4):
        await fleet.tick(*((name, STALLED) for name in NAMES for _ in range(3)))
    assert (None, "fleet") in await fleet.told_of()
    assert fleet.ward.phase(FIRST) is Phase.QUARANTINED


async def test_nobody_is_let_out_for_the_trouble_of_another_host(fleet: Fleet) -> None:
    slow = NAMES[2::HOSTS]
    for _ in range(7):
        await fleet.tick(*((FIRST, STALLED) for _ in range(3)), *((name, USUAL) for name in REST))
    assert fleet.ward.phase(FIRST) is Phase.QUARANTINED
    for _ in range(4):
        await fleet.tick(*((name, STALLED if name in slow else USUAL) for name in REST for _ in range(3)))
    assert (None, "host web-2") in await fleet.told_of()
    assert fleet.ward.phase(FIRST) is Phase.QUARANTINED
