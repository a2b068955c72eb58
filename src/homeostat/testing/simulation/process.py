"""A simulated operating system process: one kernel with its loops and workers, which can crash, stall and come back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import Unavailable
from homeostat.core.ids import Chance, Ids
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import EPOCH_MS
from homeostat.testing.loop import Domain
from homeostat.testing.simulation.bus import BusEnd
from homeostat.testing.simulation.store import RemoteStore
from homeostat.testing.simulation.worker import Worker

if TYPE_CHECKING:
    from homeostat.testing.simulation.world import World


Question = Callable[[Kernel], Awaitable[Any]]
"""Something to ask a kernel from outside its process."""


class HostClock(Clock):
    """The clock of one machine: the loop's time, plus how far it is off."""

    def __init__(self, world: "World") -> None:
        self._loop = world.loop
        self.off_seconds = 0.0

    def now_ms(self) -> Millis:
        return Millis(EPOCH_MS + round((self._loop.time() + self.off_seconds) * 1000))

    def monotonic(self) -> float:
        return self._loop.time()


class Process:
    """One machine's process. After a crash it starts anew, with nothing in memory."""

    kernel: Kernel

    def __init__(self, world: "World", name: str, hosted: list[AgentKey]) -> None:
        self.world = world
        self.name = name
        self.clock = HostClock(world)
        self._hosted = hosted
        self._lives = 0
        self._start()

    def _start(self) -> None:
        world = self.world
        self._lives += 1
        self.domain = Domain(f"{self.name}.{self._lives}")
        self.kernel = Kernel(
            store=cast(TurnStore, RemoteStore(self)),
            bus=BusEnd(self),
            clock=self.clock,
            ids=Ids(clock=self.clock, entropy=Chance(world.chance.getrandbits(64))),
            lease_seconds=world.lease_seconds,
            retention_seconds=world.retention_seconds,
        )
        for _, run in self.kernel.loops:
            self.begin(run)
        self.begin(self.kernel.listen)
        for _ in range(world.chance.choice((1, 1, 2))):
            worker = Worker(self, self._hosted, slots=world.chance.choice((1, 2, 4)))
            self.begin(worker.run)

    def begin(self, work: Callable[..., Awaitable[Any]], *args: Any) -> "asyncio.Task[None]":
        """Run something inside this process."""
        return self.world.loop.start(self.domain, self._guard(work, *args))

    async def _guard(self, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Nothing in a process may end by an error that nobody expects."""
        try:
            await work(*args)
        except Unavailable as error:
            self.world.trace.note(f"{self.domain.name}: {error}")
        except Exception as error:  # noqa: BLE001 — any error ends the seed
            self.world.fail(error)

    # --- what befalls it -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """Vanish on the spot; somebody starts it again after a while."""
        if not self.domain.alive:
            return
        world = self.world
        world.trace.count("crash")
        world.trace.note(f"{self.domain.name} crashes")
        world.loop.kill(self.domain)
        world.bus.leave(self)
        world.loop.call_later(world.chance.choice((0.01, 1.0, 5.0)), self.revive, context=world.context)

    def revive(self) -> None:
        if not self.domain.alive:
            self._start()
            self.world.trace.note(f"{self.domain.name} starts")

    def stall(self, seconds: float) -> None:
        """Be stopped, as by SIGSTOP, for a while."""
        if not self.domain.alive or self.domain.stalled:
            return
        self.world.trace.count("stall_past_lease" if seconds > self.world.lease_seconds else "stall")
        self.world.trace.note(f"{self.domain.name} stalls for {seconds:.1f} s")
        self.world.loop.stall(self.domain)
        self.world.loop.call_later(seconds, self._resume, self.domain, context=self.world.context)

    def _resume(self, domain: Domain) -> None:
        if domain.alive and domain.stalled:
            self.world.trace.note(f"{domain.name} goes on")
            self.world.loop.resume(domain)

    def wake(self) -> None:
        """The storm is over: be up and running."""
        self._resume(self.domain)
        self.revive()
        self.clock.off_seconds = 0.0
