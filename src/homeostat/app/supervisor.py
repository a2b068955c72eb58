"""Owns the background loops: each has a title, one that fails is reported and begins again, none ends unnoticed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from homeostat.core.clock import Clock, SystemClock

log = logging.getLogger(__name__)

BACKOFF_SECONDS_FIRST: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 5.0
STEADY_SECONDS: Final = 30.0  # a loop that ran this long is forgiven its earlier failures

Run = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Child:
    """One loop, how often it failed, and the last thing it died of."""

    title: str
    run: Run
    failures: int = 0
    last_error: BaseException | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Supervisor:
    """Starts loops in order and stops them in reverse."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.children: list[Child] = []

    def add(self, title: str, run: Run) -> Child:
        """Begin to look after a loop; it starts at once."""
        child = Child(title, run)
        child.task = asyncio.get_running_loop().create_task(self._keep(child), name=title)
        self.children.append(child)
        return child

    async def _keep(self, child: Child) -> None:
        backoff = BACKOFF_SECONDS_FIRST
        while True:
            began = self._clock.monotonic()
            try:
                await child.run()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                child.last_error = error
                if _is_being_cancelled():
                    raise
                log.exception("%s failed; it begins again", child.title)
            else:
                log.error("%s ended by itself; it begins again", child.title)
            child.failures += 1
            if self._clock.monotonic() - began >= STEADY_SECONDS:
                backoff = BACKOFF_SECONDS_FIRST
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)

    async def stop(self) -> None:
        """Stop the loops, the last one first, each before the next."""
        while self.children:
            child = self.children.pop()
            assert child.task is not None
            child.task.cancel()
            try:
                await child.task
            except asyncio.CancelledError:
                if _is_being_cancelled():
                    raise
            except BaseException:
                log.exception("%s failed while it was stopped", child.title)


def _is_being_cancelled() -> bool:
    """Whether the running task itself is asked to stop, whatever else it has met meanwhile."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
