"""Time-outs of tasks and of plans: how long a turn may be worked on."""

from heapq import heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import AgentId, TurnId
from homeostat.core.records.run import Run, Task
from homeostat.runs.desk import Desk
from homeostat.runs.outcomes import TIMEKEEPER
from homeostat.runs.stopping import stop_turn

LOOK_MS: Final = 50  # between two looks at turns that wait in line, however short their time-outs are
RETRY_MS: Final = 1_000


class Look(Struct, frozen=True, order=True):
    """When a turn can first have taken too long. The rest says which it is."""

    at_ms: Millis
    number: int
    turn_id: TurnId
    agent_id: AgentId
    timeout_ms: int
    since_ms: int = 0  # since when it is worked on at least, where a clock that was wrong says that it has yet to begin


class Timekeeper:
    """Stops turns that are worked on for too long, with all they asked of others. What a turn waits in line, or was
    taken from its worker, is not held against it: since when it is worked on is asked of the store once it could be
    over, for all such turns together.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._looks: list[Look] = []
        self._not_before = Millis(0)

    def mind(self, task: Task) -> None:
        """Look after the turn that a task is now, if it has a time-out."""
        seconds = task.spec.timeout_seconds
        if seconds is None or task.started_at_ms is None or task.turn_id is None or task.agent_id is None:
            return
        self.mind_turn(task.number, task.turn_id, task.agent_id, seconds, asked_ms=task.started_at_ms)

    def mind_turn(self, number: int, turn_id: TurnId, agent_id: AgentId, seconds: float, *, asked_ms: Millis) -> None:
        """Look after a turn that was asked for then."""
        timeout_ms = int(seconds * 1000)
        at_ms = Millis(min(asked_ms, self._desk.clock.now_ms()) + timeout_ms)
        heappush(self._looks, Look(at_ms, number, turn_id, agent_id, timeout_ms))

    @property
    def due_ms(self) -> Millis | None:
        """When the next turn may have taken too long."""
        return max(self._looks[0].at_ms, self._not_before) if self._looks else None

    async def enforce(self, run: Run, now: Millis, turns: dict[int, TurnId]) -> None:
        """Stop turns that took too long; their ends come back like any other. `turns` are those that tasks are now."""
        if (due := self.due_ms) is None or due > now:
            return
        late: list[Look] = []
        while self._looks and self._looks[0].at_ms <= now:
            look = heappop(self._looks)
            if turns.get(look.number) == look.turn_id:
                late.append(look)
        if not late:
            return
        self._not_before = Millis(now + LOOK_MS)
        try:
            asked = [(look.agent_id, look.turn_id) for look in late]
            began = await self._desk.store.working(run.project, asked, after=run.moved.at_ms)
            while late:
                look = late[-1]
                since = began.get(look.turn_id)
                if since is not None and since > now:
                    look = replace(look, since_ms=look.since_ms or now)
                    since = look.since_ms
                ends = Millis((now if since is None else since) + look.timeout_ms)
                if ends <= now and since is not None:
                    reason = "it took too long"
                    await stop_turn(self._desk, run.project, look.turn_id, reason=reason, actor=TIMEKEEPER)
                else:
                    self._again(look, ends)
                late.pop()
        except HomeostatError:
            for look in late:
                self._again(look, Millis(now + RETRY_MS))

    def _again(self, look: Look, at_ms: Millis) -> None:
        heappush(self._looks, replace(look, at_ms=at_ms))
