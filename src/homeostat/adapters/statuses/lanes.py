"""Who is due, found at the cost of who is due.

Everybody with the same wait stands in one lane. Whoever is heard goes to its end, so a lane is always in order of
its dates and the first in it is the first that can be due. Lanes themselves are in a heap by a date that may be too
early, never too late: a lane that comes up before its time is put back under its true date.
"""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId

Lane = tuple[str, int]
Line = OrderedDict[AgentId, Millis]


class Lanes:
    """Dates by lane. Placing costs a constant; `due` costs what it finds."""

    __slots__ = ("_calendar", "_lanes")

    def __init__(self) -> None:
        self._lanes: dict[Lane, Line] = {}
        self._calendar: list[tuple[Millis, Lane]] = []

    def place(self, lane: Lane, agent_id: AgentId, due_ms: Millis) -> Line:
        """Put an agent at the end of a lane; it stands in no other. An empty lane goes when its date comes up."""
        line = self._lanes.get(lane)
        if line is None:
            line = self._lanes[lane] = Line()
            heappush(self._calendar, (due_ms, lane))
        line[agent_id] = due_ms
        line.move_to_end(agent_id)
        return line

    def due(self, now: Millis, limit: int) -> list[tuple[AgentId, Millis]]:
        """Those whose date has come, at most `limit`; they stay where they are."""
        found: list[tuple[AgentId, Millis]] = []
        seen: list[tuple[Millis, Lane]] = []
        while self._calendar and self._calendar[0][0] <= now and len(found) < limit:
            _, lane = heappop(self._calendar)
            line = self._lanes[lane]
            first = next(iter(line.values()), None)
            if first is None:
                del self._lanes[lane]
                continue
            seen.append((first, lane))
            for agent_id, due_ms in line.items():
                if due_ms > now or len(found) == limit:
                    break
                found.append((agent_id, due_ms))
        for entry in seen:
            heappush(self._calendar, entry)
        return found

    def among(self, kind: str) -> Iterator[AgentId]:
        """Everybody who stands in a lane of this kind."""
        return chain.from_iterable(line for (one, _), line in self._lanes.items() if one == kind)

    def next_ms(self) -> Millis | None:
        """No date comes before this one."""
        return self._calendar[0][0] if self._calendar else None

    def shift(self, by_ms: int, lanes_of: frozenset[str]) -> None:
        """Move every date in lanes of these kinds."""
        for lane, line in self._lanes.items():
            if lane[0] in lanes_of:
                for agent_id, due_ms in line.items():
                    line[agent_id] = Millis(due_ms + by_ms)
        self._calendar = [(next(iter(line.values())), lane) for lane, line in self._lanes.items() if line]
        self._lanes = {lane: line for lane, line in self._lanes.items() if line}
        heapify(self._calendar)
