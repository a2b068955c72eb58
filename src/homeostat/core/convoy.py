"""What waits together travels together: many callers, one round trip."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Convoy(Generic[Item, Answer]):
    """Carries items to a place one batch at a time; whoever comes while one is under way shares the next.

    Alone, an item costs one trip; under load a trip carries many. A trip that fails fails for all it carried.
    """

    def __init__(self, carry: Callable[[list[Item]], Awaitable[Sequence[Answer]]], *, limit: int) -> None:
        self._carry = carry
        self._limit = limit
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._under_way: asyncio.Task[None] | None = None

    def submit(self, item: Item) -> "asyncio.Future[Answer]":
        """Put an item in line; the future is its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._travel())
        return future

    async def settle(self) -> None:
        """Wait until nothing is under way any more."""
        while self._under_way is not None:
            await asyncio.wait([self._under_way])

    async def _travel(self) -> None:
        try:
            while self._waiting:
                load = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
                await self._trip(load)
        finally:
            self._under_way = None
            for _, future in self._waiting:  # only a cancelled trip leaves anybody behind
                future.cancel()
            self._waiting.clear()

    async def _trip(self, load: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._carry([item for item, _ in load])
            assert len(answers) == len(load), "every item has its answer"
        except asyncio.CancelledError:
            for _, future in load:
                future.cancel()
            raise
        except Exception as problem:  # noqa: BLE001 - each caller receives it
            for _, future in load:
                if not future.done():
                    future.set_exception(problem)
            return
        for (_, future), answer in zip(load, answers, strict=True):
            if not future.done():
                future.set_result(answer)
