"""One decision about agents at a time, without an operator waiting for somebody else's treatment."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Deciding:
    """A lock in the order in which it was asked for, which its holder can lend to those who wait."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self._waiting = 0

    async def __aenter__(self) -> None:
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        self._holder = asyncio.current_task()

    async def __aexit__(self, *_: object) -> None:
        if self._holder is asyncio.current_task():  # else it was lent, and did not come back before the end
            self._let_go()

    def _let_go(self) -> None:
        self._holder = None
        self._lock.release()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """While something takes long, others decide: what is known of an agent may be otherwise afterwards."""
        if self._holder is not asyncio.current_task():
            yield
            return
        self._let_go()
        try:
            yield
        finally:
            await self.__aenter__()

    async def give_way(self) -> None:
        """Let those decide who wait."""
        if self._waiting:
            async with self.lent():
                pass
