"""What is worth a line in a watch: agents that came, left, or are otherwise than they were."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from homeostat.client.feed import FleetFeed

Row = dict[str, Any]

# A heartbeat changes the rest, and that alone is no news.
TELLING = ("agent_type", "tags", "presence", "phase", "status", "push_interval_seconds", "hostname", "pid", "version")


@dataclass(frozen=True, slots=True)
class News:
    """Rows to show, or something that the reader should know about the connection."""

    rows: list[Row] = field(default_factory=list[Row])
    problem: str = ""


class Watcher:
    """Compares what a feed brings with what was shown before."""

    def __init__(self, feed: FleetFeed, covers: Callable[[Row], bool]) -> None:
        self._feed = feed
        self._covers = covers
        self._shown: dict[str, tuple[object, ...]] = {}
        self._last: dict[str, Row] = {}
        self._complained = False

    async def news(self) -> AsyncGenerator[News, None]:
        async with aclosing(aiter(self._feed)) as changes:
            async for change in changes:
                if not change.connected:
                    if not self._complained:
                        self._complained = True
                        yield News(problem=f"the connection is gone ({self._feed.problem}); it is tried again")
                    continue
                if self._complained:
                    self._complained = False
                    yield News(problem="connected again")
                rows = [row for agent_id in change.changed if (row := self._changed(agent_id)) is not None]
                rows += [row for agent_id in change.gone if (row := self._left(agent_id)) is not None]
                if rows:
                    yield News(rows)

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
