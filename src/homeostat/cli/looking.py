"""How a command that follows something looks again, whether or not the server is there at that moment."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

T = TypeVar("T")

AWAY_SECONDS = 1.0


async def look(
    ask: Callable[[], Awaitable[T]],
    *,
    left: str,
    until: float | None = None,
    before_words: Callable[[], None] = lambda: None,
) -> T:
    """What the server answers. One that is away comes back; what is `left` to itself goes on meanwhile or then.

    One that fails over itself is there, and would fail again and again: that is raised at once.
    `until` is when the patience ends, by the clock that counts seconds; `before_words` makes room for what is told.
    """
    import asyncio  # not at the top: help would wait for it

    from homeostat.core.clock import SystemClock
    from homeostat.core.errors import InternalError, Unavailable

    told, clock = False, SystemClock()
    while True:
        try:
            return await ask()
        except InternalError:
            raise
        except Unavailable as problem:
            if until is not None and clock.monotonic() + AWAY_SECONDS > until:
                raise
            if not told:
                before_words()
                typer.echo(f"homeostat: {problem} It is tried again; Ctrl-C leaves {left} as it is.", err=True)
            told = True
        await asyncio.sleep(AWAY_SECONDS)
