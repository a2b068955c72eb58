"""What each agent has spent today: summed from the call log, so that a restart forgets nothing."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from homeostat.core.clock import Clock, Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import SPENDING_SETTLED_SECONDS, SPENDING_STALE_SECONDS
from homeostat.core.records.call import Outlay

DAY_MS: Final = 86_400_000
SETTLED_MS: Final = int(SPENDING_SETTLED_SECONDS * 1000)
STALE_MS: Final = int(SPENDING_STALE_SECONDS * 1000)
NOTHING: Final = Outlay()
NEVER: Final = Millis(0)

Sums = dict[AgentId, Outlay]
Read = Callable[[ProjectId, Millis, Millis], Awaitable[Sums]]


@dataclass(slots=True)
class _Day:
    """What is known of one project's day: what cannot change any more, and the sum when it was last asked for."""

    since: Millis
    settled_until: Millis
    settled: Sums = field(default_factory=dict[AgentId, Outlay])
    read_at: Millis = NEVER
    sums: Sums = field(default_factory=dict[AgentId, Outlay])


class Spending:
    """Sums of the day, in UTC. Only calls that may still change are read again."""

    def __init__(self, read: Read, *, clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._days: dict[ProjectId, _Day] = {}

    async def today(self, project: ProjectId) -> tuple[Millis, Sums]:
        """Since when, and what each agent spent since then."""
        now = self._clock.now_ms()
        midnight = Millis(now - now % DAY_MS)
        day = self._days.get(project)
        if day is None or day.since != midnight:
            day = self._days[project] = _Day(midnight, midnight)
        if now - day.read_at >= STALE_MS:
            settled = Millis(max(day.settled_until, now - SETTLED_MS))
            if settled > day.settled_until:
                day.settled = _sum(day.settled, await self._read(project, day.settled_until, settled))
                day.settled_until = settled
            fresh = await self._read(project, day.settled_until, Millis(now + DAY_MS))
            day.sums, day.read_at = _sum(day.settled, fresh), now
        return day.since, day.sums


def _sum(one: Sums, other: Sums) -> Sums:
    sums: defaultdict[AgentId, Outlay] = defaultdict(lambda: NOTHING, one)
    for agent_id, spent in other.items():
        sums[agent_id] += spent
    return dict(sums)
