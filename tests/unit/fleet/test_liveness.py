"""The sweep itself: whom it judges, and when it must not."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from homeostat.core.errors import StoreUnavailable
from homeostat.core.records.fleet import Roll
from homeostat.fleet.liveness import Sweeper
from homeostat.testing.clock import ManualClock


class Scene:
    """A keeper of statuses and a register that is away for a while; what happens is written down."""

    def __init__(self, outages: int = 0, jump_seconds: float = 0.0) -> None:
        self.clock = ManualClock()
        self._jump_seconds = jump_seconds
        self.happened: list[str] = []
        self.rolled = asyncio.Event()
        self._outages = outages

    async def roll(self, *_: object) -> Roll:
        self.happened.append("judged")
        self.clock.jump(self._jump_seconds)
        self._jump_seconds = 0.0
        self.rolled.set()
        return Roll()

    async def listen(self) -> None:
        self._outages -= 1
        if self._outages >= 0:
            self.happened.append("could not listen")
            raise StoreUnavailable(problem="it is away")
        self.happened.append("listened")


def sweeper_of(scene: Scene) -> Sweeper:
    unused = cast("Any", None)
    return Sweeper(
        registry=unused, keeper=cast("Any", scene), broadcaster=unused, clock=scene.clock, listen=scene.listen
    )


async def judged_again(scene: Scene, *, late: bool) -> list[str]:
    """Let the sweep run until it has looked twice, in time or long after it should have; returns what happened."""
    sweeper = sweeper_of(scene)
    running = asyncio.create_task(sweeper.run())
    await scene.rolled.wait()
    scene.rolled.clear()
    while not scene.rolled.is_set():
        sweeper.expect(0 if late else scene.clock.now_ms())
        await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return scene.happened


async def test_after_a_silence_of_its_own_nobody_is_judged_before_it_has_listened() -> None:
    assert await judged_again(Scene(outages=1), late=True) == ["judged", "could not listen", "listened", "judged"]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
async def test_a_clock_that_is_set_while_it_looks_is_noticed_before_anybody_is_judged_by_it(seconds: float) -> None:
    assert await judged_again(Scene(jump_seconds=seconds), late=False) == ["judged", "listened", "judged"]
    assert await judged_again(Scene(), late=False) == ["judged", "judged"]
