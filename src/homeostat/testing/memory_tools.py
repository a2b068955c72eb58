"""Tools as plain dictionaries, beside turns that are kept the same way."""

from collections.abc import Collection

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec
from homeostat.core.records.turn import Wait
from homeostat.testing.memory import MemoryTurns


class MemoryTools:
    """Keeps the tool port for quick tests."""

    def __init__(self, turns: MemoryTurns) -> None:
        self._turns = turns
        self._tools: dict[tuple[ProjectId, str], ToolSpec] = {}
        self._taken: dict[CallKey, Millis] = {}

    async def put(self, project: ProjectId, tools: Collection[ToolSpec], at: Millis) -> None:
        del at
        self._tools.update({(project, tool.name): tool for tool in tools})

    async def all(self, project: ProjectId) -> list[ToolSpec]:
        return [self._tools[key] for key in sorted(self._tools) if key[0] == project]

    async def waiting(self, project: ProjectId, tools: Collection[str], limit: int, now: Millis) -> list[OpenCall]:
        found = [wait for wait in self._turns.pending.values() if wait.project == project and wait.tool in tools]
        free = [wait for wait in found if self._taken.get((wait.turn_id, wait.call_id), 0) <= now]
        return [_open(wait) for wait in sorted(free, key=lambda wait: wait.deadline_ms)[:limit]]

    async def take(self, calls: Collection[CallKey], now: Millis, until: Millis) -> set[CallKey]:
        free = {key for key in calls if self._taken.get(key, 0) <= now}
        self._taken.update(dict.fromkeys(free, until))
        return free

    async def hold(self, project: ProjectId, calls: Collection[CallKey], until: Millis) -> None:
        mine = {(wait.turn_id, wait.call_id) for wait in self._turns.pending.values() if wait.project == project}
        kept = [key for key in calls if key in mine and key in self._taken and self._taken[key] < until]
        self._taken.update(dict.fromkeys(kept, until))


def _open(wait: Wait) -> OpenCall:
    return OpenCall(
        wait.project, wait.agent_id, wait.turn_id, wait.call_id, wait.tool, wait.call_card_id, wait.deadline_ms
    )
