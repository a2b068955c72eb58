"""Two servers on one PostgreSQL, the clock of one off for good: neither takes from the other what it holds."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.clock import Millis, SystemClock
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, TurnId
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.records.turn import Grant, MessageType
from homeostat.core.records.view import Outcome
from homeostat.kernel.commands import Enqueue
from homeostat.testing.crews import Work, crew

LEASE_SECONDS = 2.5
LEASES = 2  # that a turn outlasts


class WrongClock(SystemClock):
    """A machine's clock that nobody sets right."""

    def __init__(self, off_seconds: float) -> None:
        self._off_ms = round(off_seconds * 1000)

    def now_ms(self) -> Millis:
        return Millis(super().now_ms() + self._off_ms)


def outlasting(system: System, stood: list[tuple[int, int]]) -> Work:
    """Works on while its worker beats, for as long as several leases, and notes how often it was begun and lost."""

    async def work(grant: Grant) -> tuple[Outcome, Json]:
        for _ in range(LEASES * LEASE_BEATS):
            await system.kernel.renew(grant.worker_id, [grant.turn.turn_id])
            await asyncio.sleep(LEASE_SECONDS / LEASE_BEATS)
        view = await system.kernel.store.turn(DEFAULT_PROJECT, grant.turn.turn_id)
        assert view is not None
        stood.append((view.starts, view.losses))
        return Outcome.SUCCESS, grant.turn.payload

    return work


async def ask(system: System, name: str) -> TurnId:
    command = Enqueue(key=(DEFAULT_PROJECT, AgentId(name)), type=MessageType.TURN, payload=Json("{}"))
    return (await system.kernel.enqueue(command)).turn_id


async def end_of(system: System, turn_id: TurnId) -> Outcome | None:
    found = await system.kernel.deliverables.wait(DEFAULT_PROJECT, turn_id, 60)
    return None if found is None else found.status


@pytest.mark.parametrize("off_seconds", [3600.0, -6.0])
async def test_a_clock_that_is_off_costs_no_turn_no_gateway_and_no_second_leader(
    postgres_url: str, off_seconds: float
) -> None:
    settings = Settings(store_url=postgres_url, lease_seconds=LEASE_SECONDS)
    stood: list[tuple[int, int]] = []
    async with AsyncExitStack() as stack:
        right = await stack.enter_async_context(assemble(settings))
        wrong = await stack.enter_async_context(assemble(settings, clock=WrongClock(off_seconds)))
        ann = await stack.enter_async_context(crew(right.kernel, "ann", work=outlasting(right, stood)))
        bob = await stack.enter_async_context(crew(wrong.kernel, "bob", work=outlasting(wrong, stood)))
        gateways = [system.gateway.clerk.gateway_id for system in (right, wrong)]
        turns = [await ask(right, "ann"), await ask(wrong, "bob")]
        ends = await asyncio.gather(end_of(right, turns[0]), end_of(wrong, turns[1]))
        assert (ends, stood) == ([Outcome.SUCCESS] * 2, [(1, 0)] * 2)
        assert ([*ann.begun, *bob.begun], [*ann.revoked, *bob.revoked]) == (turns, [])
        assert [system.gateway.clerk.gateway_id for system in (right, wrong)] == gateways, "neither was taken for dead"
        assert [system.immune.leading for system in (right, wrong)] == [True, False]
        assert abs(wrong.clock.now_ms() - right.clock.now_ms()) < 500
