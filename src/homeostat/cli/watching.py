"""What is worth a line in a watch: agents that came, left, or are otherwise than they were."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf
from typing import Any

from homeostat.client.feed import Change, FleetFeed

Row = dict[str, Any]

# A heartbeat changes the rest, and that alone is no news.
TELLING = ("agent_type", "tags", "presence", "phase", "status", "push_interval_seconds", "hostname", "pid", "version")


@dataclass(frozen=True, slots=True)
class News:
    """Rows to show, or something that the reader should know about the connection."""

    rows: list[Row] = field(default_factory=list[Row])
    problem: str = ""


class Watcher:
    """Compares what a feed brings with what was shown before.

    Who fits may be otherwise though the feed brings nothing: what an agent spent is not in it, and time goes on. So all
    are sifted again every so often, where that is asked for.
    """

    def __init__(self, feed: FleetFeed, covers: Callable[[Row], bool], *, sift_seconds: float = inf) -> None:
        self._feed = feed
        self._covers = covers
        self._sift_seconds = sift_seconds
        self._shown: dict[str, tuple[object, ...]] = {}
        self._last: dict[str, Row] = {}
        self._complained = False

    async def news(self) -> AsyncGenerator[News, None]:
        loop = asyncio.get_running_loop()
        sift_at = loop.time() + self._sift_seconds
        async with aclosing(aiter(self._feed)) as changes:
            coming = asyncio.ensure_future(anext(changes))
            try:
                while True:
                    await asyncio.wait({coming}, timeout=None if sift_at == inf else max(0.0, sift_at - loop.time()))
                    if coming.done():
                        change, coming = coming.result(), asyncio.ensure_future(anext(changes))
                        for news in self._news_of(change):
                            yield news
                    if loop.time() >= sift_at:
                        sift_at = loop.time() + self._sift_seconds
                        if rows := self._fitting([name for name in self._feed.agents if name not in self._shown]):
                            yield News(rows)
            finally:
                coming.cancel()
                await asyncio.wait({coming})

    def _news_of(self, change: Change) -> Generator[News]:
        if not change.connected:
            if not self._complained:
                self._complained = True
                yield News(problem=f"the connection is gone ({self._feed.problem}); it is tried again")
            return
        if self._complained:
            self._complained = False
            yield News(problem="connected again")
        rows = self._fitting(change.changed)
        rows += [row for agent_id in change.gone if (row := self._left(agent_id)) is not None]
        if rows:
            yield News(rows)

    def _fitting(self, agent_ids: Iterable[str]) -> list[Row]:
        return [row for agent_id in agent_ids if (row := self._changed(agent_id)) is not None]

    def _changed(self, agent_id: str) -> Row | None:
        row = self._feed.agents.get(agent_id)
        if row is None or not self._covers(row):
            return self._left(agent_id) if row is None else None
        seen = tuple(str(row[name]) for name in TELLING)
        self._last[agent_id] = dict(row)
        if self._shown.get(agent_id) == seen:
            return None
        self._shown[agent_id] = seen
        return self._last[agent_id]

    def _left(self, agent_id: str) -> Row | None:
        """The last of an agent that was shown; how it left is all that is new."""
        if self._shown.pop(agent_id, None) is None:
            return None
        return {**self._last.pop(agent_id), "presence": "gone", "status": "gone"}
