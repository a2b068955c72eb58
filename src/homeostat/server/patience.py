"""Requests that are held open, and how all of them are answered when the server stops or their caller hangs up."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

from homeostat.core.errors import ShuttingDown

T = TypeVar("T")


class Patience:
    """Knows who is waiting. At the end nobody is kept waiting any longer."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Task[object]] = set()
        self.over = False

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Around whatever may take long; raises `ShuttingDown` inside it when the end comes."""
        if self.over:
            raise ShuttingDown
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self.over and task.uncancel() == 0:
                raise ShuttingDown from None
            raise
        finally:
            self._waiting.discard(task)

    async def wait(self, work: Awaitable[T], hung_up: Awaitable[object]) -> T | None:
        """Wait for something that can be abandoned without loss; None if the caller hung up first."""
        with self.held():
            working = asyncio.ensure_future(work)
            leaving = asyncio.ensure_future(hung_up)
            try:
                await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
                return working.result() if working.done() else None
            finally:
                leaving.cancel()
                if not working.done():
                    working.cancel()
                    await asyncio.wait({working})

    def end(self) -> None:
        """Let everybody go, now and from now on."""
        self.over = True
        for task in self._waiting:
            task.cancel()
