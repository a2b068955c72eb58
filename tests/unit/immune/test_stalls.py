"""What stood still for all is everybody's trouble, wherever in its end a tick falls."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

import pytest

from homeostat.core.ids import DEFAULT_PROJECT, AgentId, TraceId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.vitals import Vitals
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

    async def tick(self, *turns: tuple[str, int]) -> None:
        """A second in which these turns end, each after so long; then a tick."""
        for name, latency_ms in turns:
            self.told += 1
            sample = Vitals(
                sample_id=f"s{self.told}",
                project=DEFAULT_PROJECT,
                agent_id=AgentId(name),
                at_ms=self.ward.clock.now_ms(),
                source="turn",
                latency_ms=latency_ms,
                steps=0,
                retries=0,
                error=False,
                trace_id=TraceId(f"{self.told:032x}"),
            )
            self.ward.system.immune.intake.take(sample)
        self.ward.clock.advance(1.0)
        await self.ward.system.immune.tick()

    async def goes_on(self) -> set[str]:
        """All is well again for longer than a suspicion takes to settle; who is isolated by then."""
        for _ in range(6):
            await self.tick(*((name, USUAL) for name in NAMES for _ in range(5)))
        return {name for name in NAMES if self.ward.phase(name) not in (Phase.HEALTHY, Phase.SUSPECTED)}


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
