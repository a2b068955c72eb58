"""When this process stood still: for what it made others wait, nobody else is to blame."""

import asyncio
from collections import deque
from typing import Final

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.limits import STANDSTILL_SHARE_MAX, STANDSTILL_TICK_SECONDS, STANDSTILLS_KEPT_MAX

NOTICED_SECONDS: Final = 0.05  # a timer of a process that has much to do is late by some of it all the time


class Standstills:
    """Looks at the clock in short turns, and notes when a turn came late: a disk kept a commit, many wanted something
    at once, or the host had no processor to give.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque(maxlen=STANDSTILLS_KEPT_MAX)  # from when to when, in ms
        self._due: float | None = None

    async def run(self) -> None:
        """Look for ever. A clock that somebody turns by hand tells nothing of the process, and is not looked at."""
        try:
            while isinstance(self._clock, SystemClock):
                self._due = self._clock.monotonic() + STANDSTILL_TICK_SECONDS
                await asyncio.sleep(STANDSTILL_TICK_SECONDS)
                if (lately := self._under_way()) is not None:
                    self._seen.append(lately)
        finally:
            self._due = None
        await asyncio.Event().wait()

    def spoiled(self, began_ms: float, took_ms: float) -> bool:
        """Whether something that took so long here says more about this process than about whoever took it."""
        longest = 0.0
        if (lately := self._under_way()) is not None:
            longest = _shared(lately, began_ms, took_ms)
        for seen in reversed(self._seen):
            if seen[1] <= began_ms:
                break
            longest = max(longest, _shared(seen, began_ms, took_ms))
        return longest > 0 and longest >= took_ms * STANDSTILL_SHARE_MAX

    def _under_way(self) -> tuple[float, float] | None:
        """The standstill that has just ended, if there was one: whoever asks first may be ahead of the timer. It may
        have begun right after the last look.
        """
        if self._due is None or (late := self._clock.monotonic() - self._due) < NOTICED_SECONDS:
            return None
        now = self._clock.now_ms()
        return now - (late + STANDSTILL_TICK_SECONDS) * 1000, now


def _shared(standstill: tuple[float, float], began_ms: float, took_ms: float) -> float:
    return min(standstill[1], began_ms + took_ms) - max(standstill[0], began_ms)
