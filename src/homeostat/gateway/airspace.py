"""The calls that are open in this gateway, and which of them are written down as such."""

from collections.abc import Collection
from typing import Protocol

from homeostat.core.clock import Clock
from homeostat.core.limits import FLIGHT_SECONDS
from homeostat.core.records.budget import Flight
from homeostat.core.records.call import Call, CallId


class Airborne(Protocol):
    """A call that is open; `began` by the clock that only goes forward."""

    began: float

    def flight(self) -> Flight:
        """What is written of it, in case nobody lives to write the rest."""
        ...

    def settle(self) -> Call:
        """Settle it, now that it is over, and say what is written of it."""
        ...

    def tick(self, now: float) -> None: ...

    def abandon(self) -> None:
        """Break it off: nobody will be here to see it end."""
        ...


class Airspace:
    """Open calls. One that is over soon is never written as open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[CallId, Airborne] = {}
        self._written: set[CallId] = set()
        self._landed: list[CallId] = []

    def enter(self, call_id: CallId, call: Airborne) -> None:
        self._open[call_id] = call

    def leave(self, call_id: CallId) -> None:
        self._open.pop(call_id, None)
        if call_id in self._written:
            self._written.discard(call_id)
            self._landed.append(call_id)

    @property
    def calls(self) -> Collection[Airborne]:
        return self._open.values()

    @property
    def unwritten(self) -> bool:
        return len(self._open) > len(self._written)

    @property
    def pending(self) -> bool:
        """Whether a posting has to tell of any call that was opened or closed."""
        return bool(self._landed or self._rising(everything=False))

    def rise(self, *, everything: bool) -> tuple[Flight, ...]:
        """Calls to be written as open from now on: those that last, or all of them."""
        rising = self._rising(everything=everything)
        self._written.update(rising)
        return tuple(self._open[call_id].flight() for call_id in rising)

    def land(self) -> tuple[CallId, ...]:
        """Calls that were written as open and are over."""
        landed, self._landed = self._landed, []
        return tuple(landed)

    def forget(self) -> set[CallId]:
        """Others have settled what was written as open; says what that was."""
        charged = {*self._written, *self._landed}
        self._written.clear()
        self._landed.clear()
        return charged

    def _rising(self, *, everything: bool) -> list[CallId]:
        if not self.unwritten:
            return []
        written, ripe = self._written, self._clock.monotonic() - FLIGHT_SECONDS
        return [one for one, call in self._open.items() if one not in written and (everything or call.began <= ripe)]
