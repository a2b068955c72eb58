"""Callers that come together share a trip, and each gets its own answer."""

import asyncio
from collections.abc import Sequence

import pytest

from homeostat.core.convoy import Convoy


class Road:
    """Somewhere to carry things to; `gate` holds a trip up."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fail = False

    async def carry(self, items: list[int]) -> Sequence[str]:
        self.trips.append(items)
        await self.gate.wait()
        if self.fail:
            raise OSError("the bridge is out")
        return [f"<{item}>" for item in items]


async def test_alone_an_item_is_one_trip() -> None:
    road = Road()
    convoy: Convoy[int, str] = Convoy(road.carry, limit=10)
    assert [await convoy.submit(number) for number in range(3)] == ["<0>", "<1>", "<2>"]
    assert road.trips == [[0], [1], [2]]


async def test_together_they_share_trips_up_to_the_limit() -> None:
    road = Road()
    convoy: Convoy[int, str] = Convoy(road.carry, limit=4)
    assert await asyncio.gather(*(convoy.submit(number) for number in range(10))) == [f"<{n}>" for n in range(10)]
    assert [len(trip) for trip in road.trips] == [4, 4, 2]


async def test_a_trip_that_fails_fails_for_all_it_carried_and_for_nobody_else() -> None:
    road = Road()
    convoy: Convoy[int, str] = Convoy(road.carry, limit=2)
    road.fail = True
    lost = await asyncio.gather(convoy.submit(1), convoy.submit(2), return_exceptions=True)
    assert all(isinstance(each, OSError) for each in lost)
    road.fail = False
    assert await convoy.submit(3) == "<3>"


async def test_an_impatient_caller_leaves_the_others_alone() -> None:
    road = Road()
    road.gate.clear()
    convoy: Convoy[int, str] = Convoy(road.carry, limit=2)
    leaving, staying = convoy.submit(1), convoy.submit(2)
    leaving.cancel()
    road.gate.set()
    assert await staying == "<2>"
    await convoy.settle()


async def test_nobody_waits_for_ever_when_the_trip_is_cancelled() -> None:
    road = Road()
    road.gate.clear()
    convoy: Convoy[int, str] = Convoy(road.carry, limit=1)
    first, second = convoy.submit(1), convoy.submit(2)
    await asyncio.sleep(0)
    assert convoy._under_way is not None
    convoy._under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(asyncio.CancelledError):
        await second
