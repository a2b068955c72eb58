"""The drivers of other processes: which of them have stopped beating."""

from collections.abc import Mapping
from math import inf

from homeostat.core.clock import Clock, Millis


class Others:
    """Judges them by its own watch. Clocks of two machines may be hours apart; that a driver beats is seen by any.

    Only on the first look is there nothing but dates to go by: what died before this process began is taken up at once.
    One that lives and is mistaken for dead then beats again, and is known from there on.
    """

    def __init__(self, clock: Clock, *, lease_seconds: float) -> None:
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._seen: dict[str, tuple[Millis, float]] | None = None

    def dead(self, beats: Mapping[str, Millis]) -> list[tuple[str, Millis]]:
        """Those of all drivers that have said nothing new for as long as a lease."""
        at, seen = self._clock.monotonic(), dict[str, tuple[Millis, float]]()
        for name, until in beats.items():
            known = None if self._seen is None else self._seen.get(name)
            if known is None or known[0] != until:
                known = (until, at + (self._dated(until) if self._seen is None else self._lease_seconds))
            seen[name] = known
        self._seen = seen
        return [(name, until) for name, (until, ends) in seen.items() if ends <= at]

    def missed_in_seconds(self) -> float:
        """When the first of them is dead, if it goes on saying nothing."""
        return min((ends for _, ends in (self._seen or {}).values()), default=inf) - self._clock.monotonic()

    def _dated(self, until: Millis) -> float:
        """For how many seconds a driver lives by its own word; none, if no right clock could have said so."""
        left = (until - self._clock.now_ms()) / 1000
        return min(left, self._lease_seconds) if left <= 2 * self._lease_seconds else 0.0
