"""Looks whether the engines that hold agents are there: an outage is told once, and so is its end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.errors import HomeostatError
from homeostat.core.ports.immune import Engine

PING_SECONDS: Final = 5.0

Tell = Callable[[str, dict[str, object]], Awaitable[None]]


class EngineWatch:
    """What is away longer than one look is told when it is found away, and when it is back."""

    def __init__(self, engines: Sequence[Engine], *, clock: Clock, tell: Tell) -> None:
        self._engines = tuple(engines)
        self._clock = clock
        self._tell = tell
        self.away_since: dict[str, float] = {}

    async def look(self, *, local_only: bool) -> None:
        await asyncio.gather(*(self._see(one) for one in self._engines if one.local or not local_only))

    async def _see(self, engine: Engine) -> None:
        problem, code = "", ""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await engine.ping()
        except TimeoutError:
            problem, code = f"{engine.title} did not answer within {PING_SECONDS:g} s", "engine_unreachable"
        except HomeostatError as error:
            problem, code = str(error), error.code
        now = self._clock.monotonic()
        since = self.away_since.get(engine.title)
        if problem and since is None:
            self.away_since[engine.title] = now
            said: dict[str, object] = {
                "state": "lost",
                "code": code,
                "why": f"{problem} Agents that it holds are not known to be held.",
            }
            await self._tell(engine.title, said)
        elif not problem and since is not None:
            del self.away_since[engine.title]
            seconds = round(now - since, 1)
            why = f"{engine.title} is back after {seconds:g} s."
            await self._tell(engine.title, {"state": "back", "seconds": seconds, "why": why})
