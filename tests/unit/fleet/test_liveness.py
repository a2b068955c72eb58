"""The sweep itself: whom it judges, and when it must not."""

import asyncio
from contextlib import suppress
from typing import Any, cast

from homeostat.core.errors import StoreUnavailable
from homeostat.core.records.fleet import Roll
from homeostat.fleet.liveness import Sweeper
from homeostat.testing.clock import ManualClock


class Scene:
    """A keeper of statuses and a register that is away for a while; what happens is written down."""

    def __init__(self, outages: int) -> None:
        self.happened: list[str] = []
        self.rolled = asyncio.Event()
        self._outages = outages

    async def roll(self, *_: object) -> Roll:
        self.happened.append("judged")
        self.rolled.set()
        return Roll()

    async def listen(self) -> None:
        self._outages -= 1
        if self._outages >= 0:
            self.happened.append("could not listen")
            raise StoreUnavailable(problem="it is away")
        self.happened.append("listened")


async def test_after_a_silence_of_its_own_nobody_is_judged_before_it_has_listened() -> None:
    scene = Scene(outages=1)
    unused = cast("Any", None)
    sweeper = Sweeper(
        registry=unused, keeper=cast("Any", scene), broadcaster=unused, clock=ManualClock(), listen=scene.listen
    )
    running = asyncio.create_task(sweeper.run())
    await scene.rolled.wait()
    scene.rolled.clear()
    while "could not listen" not in scene.happened:
        sweeper.expect(0)  # it should have looked long ago
        await asyncio.sleep(0)
    await scene.rolled.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert scene.happened == ["judged", "could not listen", "listened", "judged"]
