"""Calling what an author wrote: coroutine functions on the loop, plain functions in a thread."""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

log = logging.getLogger(__name__)

_once: contextvars.ContextVar[bool] = contextvars.ContextVar("homeostat_once", default=False)

Function = TypeVar("Function", bound=Callable[..., Any])


def immediate(function: Function) -> Function:
    """Mark a plain function that does not wait for anything: it needs no thread."""
    vars(function)["is_immediate"] = True
    return function


def holds_nothing(function: Function) -> Function:
    """Mark a startup hook that leaves nothing to be cleaned up, or a clean-up hook that cleans up nothing."""
    vars(function)["holds_nothing"] = True
    return function


@contextmanager
def once() -> Generator[None]:
    """What is called in here is not called again when its turn goes on or is replayed."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


def is_once() -> bool:
    """Whether this code runs as part of a step."""
    return _once.get()


class Invoker:
    """Calls hooks of one agent, and knows which threads are still at work although nobody waits for them."""

    __slots__ = ("_behind",)

    def __init__(self) -> None:
        self._behind: set[asyncio.Future[Any]] = set()

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call and wait. A cancelled call leaves its thread behind: a thread cannot be stopped from outside."""
        if inspect.iscoroutinefunction(function):
            return await function(*args, **named)
        if getattr(function, "is_immediate", False):
            return function(*args, **named)
        context = contextvars.copy_context()
        work = functools.partial(context.run, function, *args, **named)
        future = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            result = await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                self._behind.add(future)
                future.add_done_callback(self._came_back)
            raise
        return await result if inspect.isawaitable(result) else result

    def _came_back(self, future: asyncio.Future[Any]) -> None:
        self._behind.discard(future)
        if not future.cancelled() and (problem := future.exception()) is not None:
            log.warning("a hook that was given up on ended with %r", problem)

    async def settle(self, seconds: float) -> bool:
        """Give threads that were left behind some time to end; False if one did not."""
        if not self._behind:
            return True
        await asyncio.wait(set(self._behind), timeout=seconds)
        return not self._behind
