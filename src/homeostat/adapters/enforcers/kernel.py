"""Holds agents at the kernel's gate: nothing is dispatched, nothing is lost."""

from homeostat.core.errors import AgentUnknown
from homeostat.core.ports.immune import Gates, Heads
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

GATES = {Stance.OPEN: Gate.OPEN, Stance.DRAINING: Gate.DRAINING, Stance.CLOSED: Gate.CLOSED}
STANCES = {gate: stance for stance, gate in GATES.items()}


class KernelEnforcer:
    """An agent the kernel does not know has no turns to hold."""

    def __init__(self, *, gates: Gates, heads: Heads) -> None:
        self._gates = gates
        self._heads = heads

    async def hold(self, key: AgentKey, stance: Stance, reason: str) -> None:
        try:
            await self._gates.set_gate(key, GATES[stance], None if stance is Stance.OPEN else reason)
        except AgentUnknown:
            return

    async def held(self, key: AgentKey) -> Stance | None:
        view = await self._heads.head(*key)
        return None if view is None else STANCES[view.head.gate]

    async def in_flight(self, key: AgentKey) -> int:
        view = await self._heads.head(*key)
        return int(view is not None and view.head.turn_id is not None)

    async def waiting(self, key: AgentKey) -> int:
        view = await self._heads.head(*key)
        return 0 if view is None else view.head.queued

    async def preempt(self, key: AgentKey) -> None:
        try:
            await self._gates.preempt(key)
        except AgentUnknown:
            return
