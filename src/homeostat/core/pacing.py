"""The arithmetic of rate limits: what was taken in the last minute and what is left of it, the same on every engine."""

from collections.abc import Iterable

from homeostat.core.clock import Millis
from homeostat.core.limits import RATE_KEPT_SECONDS, RATE_WINDOW_SECONDS
from homeostat.core.records.budget import FLOAT_SHARE
from homeostat.core.records.rate import NO_LOAD, Load, RateDraw, RateDrawn, RateKey, RateReturn

Row = tuple[int, int, int]


class Window:
    """What was drawn of one limit, by the second, for as long as any of it may have been used within a minute."""

    __slots__ = ("_taken", "used")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._taken = {second: Load(requests, tokens) for second, requests, tokens in rows}
        self.used = NO_LOAD
        for load in self._taken.values():
            self.used = self.used.plus(load)

    @property
    def rows(self) -> list[Row]:
        return [(second, load.requests, load.tokens) for second, load in sorted(self._taken.items())]

    def advance(self, second: int) -> None:
        """Forget what is too old to count, and what a clock that was set back has left in the future."""
        for old in [at for at in self._taken if abs(second - at) >= RATE_KEPT_SECONDS]:
            self.used = self.used.minus(self._taken.pop(old))

    def draw(self, draw: RateDraw, second: int) -> RateDrawn:
        """Count the need, and some of the wish beyond it, if there is room for the need."""
        self.advance(second)
        need, left = draw.need, draw.most.minus(self.used)
        if not left.covers(need):
            return RateDrawn(None, second, left, self.seconds_until(need, draw.most, second))
        granted = need.plus(_part(draw.wish.minus(need), left.minus(need)))
        if granted != NO_LOAD:
            self._taken[second] = self._taken.get(second, NO_LOAD).plus(granted)
            self.used = self.used.plus(granted)
        return RateDrawn(granted, second, left.minus(granted))

    def give_back(self, second: int, load: Load) -> None:
        """What was drawn turned out to be more or less than was used."""
        taken = self._taken.get(second)
        if taken is None:
            return
        left = taken.minus(load)
        left = Load(max(0, left.requests), max(0, left.tokens))
        self.used = self.used.minus(taken).plus(left)
        if left == NO_LOAD:
            del self._taken[second]
        else:
            self._taken[second] = left

    def seconds_until(self, need: Load, most: Load, second: int) -> int:
        """When a need will fit, if nobody else comes first; at most a minute, beyond which clients do not listen."""
        left = most.minus(self.used)
        for at, load in sorted(self._taken.items()):
            left = left.plus(load)
            if left.covers(need):
                return min(max(1, at + RATE_KEPT_SECONDS - second), RATE_WINDOW_SECONDS)
        return RATE_WINDOW_SECONDS


def _part(wish: Load, spare: Load) -> Load:
    """What a gateway may have at hand of what is left, so that others find something."""
    return Load(
        max(0, min(wish.requests, spare.requests // FLOAT_SHARE)), max(0, min(wish.tokens, spare.tokens // FLOAT_SHARE))
    )


def keys_of(draws: Iterable[RateDraw], returns: Iterable[RateReturn]) -> list[RateKey]:
    """The windows a posting touches, in the order in which they are locked."""
    return sorted({draw.key for draw in draws} | {back.key for back in returns})


def pace(
    draws: Iterable[RateDraw], returns: Iterable[RateReturn], windows: dict[RateKey, Window], now: Millis
) -> tuple[RateDrawn, ...]:
    """What comes back first, then draws, each judged on what the one before left."""
    for back in returns:
        windows[back.key].give_back(back.second, back.load)
    return tuple(windows[draw.key].draw(draw, now // 1000) for draw in draws)
