"""Work for many that somebody begins in their own step of the loop: it goes on though they give up waiting for it."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_going_on: Final[set["asyncio.Task[Any]"]] = set()


async def unbound(work: Coroutine[Any, Any, T]) -> T:
    """Do here what can be done without waiting, and the rest in a task of its own. A task for all of it would begin a
    round of the loop later, and tell of its end another one later.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        return done.value
    rest = asyncio.create_task(_finished(work, awaited))
    _going_on.add(rest)
    rest.add_done_callback(_going_on.discard)
    return await asyncio.shield(rest)


async def _finished(work: Coroutine[Any, Any, T], awaited: object) -> T:
    return await _Rest(work, awaited)


class _Rest:
    """Work that has begun and waits for something: whoever awaits the rest of it waits for that first."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], awaited: object) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._awaited
        except BaseException:  # the loop ends, and the work with it
            self._work.close()
            raise
        return (yield from self._work.__await__())
