"""One timer for many who wait: a timer each would cost more than most of the waits."""

import asyncio
from typing import Any


class Rounds:
    """Wakes whoever has waited for so many seconds, with None, and a little later than asked for."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[asyncio.Future[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, future: asyncio.Future[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._due[future] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._go)

    def leave(self, future: asyncio.Future[Any]) -> None:
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
            if not future.done():
                future.set_result(None)
