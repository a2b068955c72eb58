"""Has a process go by the clock of the store that it shares with others: what it dates, they compare with theirs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from homeostat.core.clock import StoreClock
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import (
    CLOCK_EVERY_SECONDS,
    CLOCK_JUMP_SECONDS,
    CLOCK_OFFSET_SECONDS,
    CLOCK_READING_SECONDS_MAX,
    CLOCK_READINGS_MAX,
)

log = logging.getLogger(__name__)


class Timekeeper:
    """Looks at the store's clock from time to time, and puts this process's right where they differ."""

    def __init__(self, clock: StoreClock, store_ms: Callable[[], Awaitable[float]]) -> None:
        self.clock = clock
        self._own = clock.own
        self._store_ms = store_ms
        self._ahead = self._own_ahead()

    async def open(self) -> None:
        """Know the time before anything is dated; if the store is too slow to tell, this machine's own will do."""
        for _ in range(CLOCK_READINGS_MAX):
            if await self.tick():
                return
        log.warning("the store is too slow to tell the time, and this machine's clock is used until it is not")

    async def run(self) -> None:
        while True:
            await self._rest()
            try:
                await self.tick()
            except StoreUnavailable as error:
                log.debug("the time stays what it is: %s", error)

    async def _rest(self) -> None:
        """Wait for the next look, which is at once when this machine's clock was set."""
        until = self._own.monotonic() + CLOCK_EVERY_SECONDS
        while self._own.monotonic() < until and not self._was_set():  # noqa: ASYNC110 - a clock tells nobody
            await asyncio.sleep(CLOCK_JUMP_SECONDS)

    async def tick(self) -> bool:
        """Look once; says whether what was seen is to be believed."""
        self._ahead = self._own_ahead()
        began, before_ms = self._own.monotonic(), self._own.now_ms()
        store_ms = await self._store_ms()
        took, after_ms = self._own.monotonic() - began, self._own.now_ms()
        if took > CLOCK_READING_SECONDS_MAX or self._was_set():
            return False
        self._go_by(store_ms - (before_ms + after_ms) / 2, doubt_ms=took * 1000 / 2)
        return True

    def _go_by(self, offset_ms: float, *, doubt_ms: float) -> None:
        """Machines whose clocks agree never see theirs moved, and one that differs not for each small step."""
        bound_ms = CLOCK_OFFSET_SECONDS * 1000 + doubt_ms
        if abs(offset_ms - self.clock.offset_ms) <= bound_ms:
            return
        self.clock.offset_ms = round(offset_ms) if abs(offset_ms) > bound_ms else 0
        if self.clock.offset_ms:
            way = "behind" if offset_ms > 0 else "ahead of"
            off = abs(offset_ms) / 1000
            log.warning("this machine's clock is %.1f s %s the store's, whose time is used", off, way)
        else:
            log.warning("this machine's clock agrees with the store's again, and is used")

    def _was_set(self) -> bool:
        """Whether this machine's clock jumped since the last look."""
        return abs(self._own_ahead() - self._ahead) > CLOCK_OFFSET_SECONDS

    def _own_ahead(self) -> float:
        """How far this machine's clock is ahead of the one that cannot jump."""
        return self._own.now_ms() / 1000 - self._own.monotonic()
