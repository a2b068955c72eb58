"""A turn seen from a thread, where there is no `await`."""

import asyncio
import inspect
from typing import Any


class BlockingTurn:
    """Every method waits for what the turn's own would have to be awaited for.

    Requests to wait for together are made with the turn itself: `turn.blocking.gather(turn.call("a"), turn.call("b"))`.
    """

    def __init__(self, turn: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._turn = turn
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._turn, name)
        if not callable(found):
            return found

        def waiting(*args: Any, **named: Any) -> Any:
            async def on_loop() -> Any:
                made = found(*args, **named)
                return await made if inspect.isawaitable(made) else made

            return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()

        return waiting
