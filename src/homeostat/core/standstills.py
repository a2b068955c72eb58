"""When this process stood still: for what it made others wait, nobody else is to blame."""

import asyncio
from collections import deque
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.limits import STANDSTILL_SHARE_MAX, STANDSTILL_TICK_SECONDS, STANDSTILLS_KEPT_MAX

NOTICED_SECONDS: Final = 0.005  # a timer is late by this much on any machine


class Standstills:
    """Looks at the clock in short turns, and notes when a turn came late: a disk kept a commit, many wanted something
    at once, or the host had no processor to give.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque(maxlen=STANDSTILLS_KEPT_MAX)  # from when to when, in ms
        self._due: float | None = None

    async def run(self) -> None:
        try:
            while True:
                self._due = self._clock.monotonic() + STANDSTILL_TICK_SECONDS
                await asyncio.sleep(STANDSTILL_TICK_SECONDS)
                if (lately := self._under_way()) is not None:
                    self._seen.append(lately)
        finally:
            self._due = None

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
