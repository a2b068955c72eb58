"""A clock that stands still until it is turned."""

from homeostat.core.clock import Millis

EPOCH_MS = Millis(1_750_000_000_000)


class ManualClock:
    """Time as a test wants it: `advance` lets both clocks run, `jump` moves the wall clock alone."""

    def __init__(self, start_ms: int = EPOCH_MS) -> None:
        self._wall_ms = start_ms
        self._monotonic = 0.0

    def now_ms(self) -> Millis:
        return Millis(self._wall_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time that passes does not go back; jump does"
        self._wall_ms += round(seconds * 1000)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or a time server may."""
        self._wall_ms += round(seconds * 1000)
