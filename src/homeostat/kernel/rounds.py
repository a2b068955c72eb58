"""One timer for many who wait: a timer each would cost more than most of the waits."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


class Rounds:
    """Wakes whoever has waited for so many seconds, with None, and a little later than asked for."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[asyncio.Future[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def arrival(self, future: "asyncio.Future[T | None]", seconds: float) -> T | None:
        """Wait until a future is done or its round has come, or until the time is over if that comes first."""
        loop = asyncio.get_running_loop()
        if seconds < self._seconds:
            alarm = loop.call_later(seconds, _wake, future)
            try:
                return await future
            finally:
                alarm.cancel()
        self._due[future] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._go)
        try:
            return await future
        finally:
            self._due.pop(future, None)

    def _go(self) -> None:
        """All wait equally long, so whoever came first is due first."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        while self._due:
            future, due = next(iter(self._due.items()))
            if due > now:
                self._timer = loop.call_later(due - now, self._go)
                return
            del self._due[future]
            _wake(future)


def _wake(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
