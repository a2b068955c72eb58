"""Requests and tokens per minute: whoever asks is counted in the same breath, so no two pass on the same room."""

from collections.abc import Collection

from homeostat.core.limits import RATE_WINDOW_SECONDS


class Shares:
    """How much of a limit is this gateway's, where several serve the same agents: together they keep to it."""

    __slots__ = ("_index", "_live")

    def __init__(self) -> None:
        self._live = 1
        self._index = 0

    def split(self, live: Collection[str], mine: str) -> None:
        """Those that are alive share alike; what cannot be divided goes to the first ones."""
        everybody = sorted({*live, mine})
        self._live = len(everybody)
        self._index = everybody.index(mine)

    def of(self, limit: int) -> int:
        """A share, and never nothing: an agent may only ever meet this gateway."""
        if self._live == 1:
            return limit
        return max(1, limit // self._live + (self._index < limit % self._live))


class RateWindow:
    """How much was taken in the last minute, by the second: no sixty seconds hold more than the limit."""

    __slots__ = ("_buckets", "_newest", "used")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._newest = 0
        self.used = 0

    def advance(self, now: float) -> int:
        """Forget what is older than the window; returns the second it is."""
        second = int(now)
        if second != self._newest:
            self._newest = second
            for old in [at for at in self._buckets if at <= second - RATE_WINDOW_SECONDS]:
                self.used -= self._buckets.pop(old)
        return second

    def room(self, limit: int, now: float) -> int:
        self.advance(now)
        return limit - self.used

    def take(self, amount: int, limit: int, now: float) -> int | None:
        """Count an amount if it fits; returns the second under which it was counted."""
        second = self.advance(now)
        if self.used + amount > limit:
            return None
        self._buckets[second] = self._buckets.get(second, 0) + amount
        self.used += amount
        return second

    def correct(self, second: int, by: int) -> None:
        """What was taken turned out to be more or less."""
        if second in self._buckets:
            self._buckets[second] += by
            self.used += by

    def seconds_until(self, amount: int, limit: int, now: float) -> int:
        """When an amount will fit, if nobody else comes first; a whole window where it never will."""
        second = self.advance(now)
        used = self.used
        for at in sorted(self._buckets):
            if used + amount <= limit:
                break
            used -= self._buckets[at]
            if used + amount <= limit:
                return max(1, at + RATE_WINDOW_SECONDS - second)
        return RATE_WINDOW_SECONDS
