"""The one door through which time enters: wall time for records, monotonic time for waiting."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NewType, Protocol

Millis = NewType("Millis", int)
"""Unix time in milliseconds, the only form in which an instant is stored or compared."""


class Clock(Protocol):
    """What a room may ask of time. Tests and the simulator hand in one they can turn."""

    def now_ms(self) -> Millis:
        """Wall time; may jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)  # as it is: a call asks for it half a dozen times

    def now_ms(self) -> Millis:
        return time.time_ns() // 1_000_000  # pyright: ignore[reportReturnType] - to say `Millis` would double its time


class StoreClock(SystemClock):
    """A machine's clock, put right by so much as it differs from that of the store which it shares with others."""

    def __init__(self, own: Clock) -> None:
        self.own = own
        self.offset_ms = 0
        self.monotonic = own.monotonic
        self._own_ns: Callable[[], int] = time.time_ns if type(own) is SystemClock else lambda: own.now_ms() * 1_000_000

    def now_ms(self) -> Millis:
        return self._own_ns() // 1_000_000 + self.offset_ms  # pyright: ignore[reportReturnType] - as above


def utc(instant: Millis) -> datetime:
    return datetime.fromtimestamp(instant / 1000, tz=UTC)


def rfc3339(instant: Millis) -> str:
    """Write an instant the way every surface shows it: UTC, milliseconds, a trailing Z."""
    return f"{_second(instant // 1000)}.{instant % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    """A whole second in words; most of what is written at one time is about the same few of them."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_rfc3339(text: str) -> Millis:
    """Read an instant back; raises `ValueError` for anything that names no instant."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("an instant needs its offset from UTC")
    whole = moment.replace(microsecond=0)
    return Millis(int(whole.timestamp()) * 1000 + moment.microsecond // 1000)
