"""A kernel to try things on: its flusher runs, its other loops are ticked by hand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.clock import Clock
from homeostat.core.ids import Chance, Ids
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.memory import MemoryTurns


@asynccontextmanager
async def running_kernel(
    store: TurnStore | None = None, *, bus: Bus | None = None, clock: Clock | None = None, seed: int = 1, **options: Any
) -> AsyncGenerator[Kernel]:
    """A kernel whose commands are flushed; nothing else happens unless it is called."""
    clock = clock or ManualClock()
    kernel = Kernel(
        store=store or MemoryTurns(),
        bus=bus or LocalBus(),
        clock=clock,
        ids=Ids(clock=clock, entropy=Chance(seed)),
        **options,
    )
    flusher = asyncio.get_running_loop().create_task(kernel.flusher.run())
    try:
        yield kernel
    finally:
        flusher.cancel()
        with suppress(asyncio.CancelledError):
            await flusher
