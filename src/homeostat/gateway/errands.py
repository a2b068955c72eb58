"""Which run a call counts for: that of the turn its agent works on, whatever the call itself says."""

import asyncio
import logging
from functools import partial

from homeostat.core.clock import Clock
from homeostat.core.limits import ASSIGNMENT_STALE_SECONDS, ASSIGNMENTS_CACHED_MAX
from homeostat.core.ports.gateway import Assignments
from homeostat.core.records.turn import AgentKey, Turn
from homeostat.gateway.headers import RequestHeaders

log = logging.getLogger(__name__)


class Nobody:
    """Knows of no turns: a gateway whose agents have none."""

    def at_hand(self, agent: AgentKey) -> tuple[bool, Turn | None]:
        del agent
        return True, None

    async def look_up(self, agent: AgentKey) -> Turn | None:
        del agent
        return None


class Errands:
    """Remembers for a moment what agents work on. A call that names another turn than that is reason to ask again."""

    def __init__(self, *, assignments: Assignments, clock: Clock, believes_runs: bool) -> None:
        self._assignments = assignments
        self._clock = clock
        self._believes_runs = believes_runs
        self._known: dict[AgentKey, tuple[Turn | None, float]] = {}
        self._asking: dict[AgentKey, asyncio.Task[Turn | None]] = {}

    def recall(self, agent: AgentKey, headers: RequestHeaders) -> RequestHeaders | None:
        """A call's headers with what it counts for, if that is known without asking."""
        known, turn = self._assignments.at_hand(agent)
        if not known:
            remembered, now = self._known.get(agent), self._clock.monotonic()
            if remembered is None or remembered[1] < now:
                return None
            turn = remembered[0]
            if headers.turn_id and (turn is None or turn.turn_id != headers.turn_id):
                return None
            if remembered[1] - now < ASSIGNMENT_STALE_SECONDS / 2 and agent not in self._asking:
                self._begin(agent)  # an agent that is busy finds the next answer here, and does not wait for it
        if turn is None and headers.run_id is None:
            return headers
        return self._settle(headers, turn)

    async def ask(self, agent: AgentKey, headers: RequestHeaders) -> RequestHeaders:
        """Ask the store. Only a question that was put after a call came can answer for it."""
        under_way = self._asking.get(agent)
        if under_way is not None:
            await asyncio.wait({under_way})
        asking = self._asking.get(agent) or self._begin(agent)
        return self._settle(headers, await asyncio.shield(asking))

    def _begin(self, agent: AgentKey) -> "asyncio.Task[Turn | None]":
        asking = self._asking[agent] = asyncio.get_running_loop().create_task(self._look_up(agent))
        asking.add_done_callback(partial(self._answered, agent))
        return asking

    def _answered(self, agent: AgentKey, asked: "asyncio.Task[Turn | None]") -> None:
        del self._asking[agent]
        if not asked.cancelled() and (problem := asked.exception()) is not None:  # whoever waits is told by itself
            log.debug("what %s works on is not known: %s", agent[1], problem)

    async def _look_up(self, agent: AgentKey) -> Turn | None:
        asked_at = self._clock.monotonic()
        turn = await self._assignments.look_up(agent)
        if len(self._known) >= ASSIGNMENTS_CACHED_MAX:
            self._known.clear()
        self._known[agent] = (turn, asked_at + ASSIGNMENT_STALE_SECONDS)
        return turn

    def _settle(self, headers: RequestHeaders, turn: Turn | None) -> RequestHeaders:
        if turn is not None:
            return headers.counted(turn.run_id, turn.trace_id)
        if headers.run_id is not None and not self._believes_runs:
            return headers.counted(None, headers.trace_id)
        return headers
