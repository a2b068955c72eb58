"""Treats agents that are processes: by orders to them, and by ending them for their supervisor to begin anew."""

import asyncio
from typing import Final

from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.adapters.remedies.control import ControlClient
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire.custody import OrderWord

TERM_SECONDS: Final = 5.0
RESTART_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class ProcessRemedies:
    """Nobody is ended whom nobody would begin again: that would be a kill, and only an operator kills."""

    def __init__(self, *, processes: ProcessEnforcer, control: ControlClient) -> None:
        self._processes = processes
        self._control = control

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        if action is not RemedyAction.RESET_AGENT:
            return await self._control.order(key, action, reason)
        if not self._processes.supervised(key):
            return Applied.NOT_APPLICABLE, "nobody would begin its process again"
        if not await self._processes.tell_supervisor(key, OrderWord.RESTART):
            return Applied.NOT_APPLICABLE, "whoever starts its process does not listen"
        before = set(self._processes.members(key))
        if not await self._processes.end(key, term_seconds=TERM_SECONDS, only=before):
            return Applied.FAILED, "its processes could not be ended"
        for _ in range(int(RESTART_SECONDS / _POLL_SECONDS)):
            if fresh := set(self._processes.members(key)) - before:
                return Applied.APPLIED, f"{len(before)} processes ended, {len(fresh)} began anew"
            await asyncio.sleep(_POLL_SECONDS)
        return Applied.FAILED, "its processes ended, and none began anew"

    async def undo(self, key: AgentKey) -> None:
        """An order that was followed is the agent's own; what undoes it is another remedy."""
        del key
