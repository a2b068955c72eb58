"""Holds agents at the kernel's gate: nothing is dispatched, nothing is lost."""

from contextlib import suppress

from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.errors import AgentUnknown
from homeostat.core.ports.immune import Gates, Heads
from homeostat.core.records.access import CORDONED
from homeostat.core.records.enforcement import Mandate, Reading, Strategy
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

GATES = {
    Stance.OPEN: Gate.OPEN,
    Stance.DRAINING: Gate.DRAINING,
    Stance.CLOSED: Gate.CLOSED,
    Stance.ENDED: Gate.CLOSED,
}
STANCES = {Gate.OPEN: Stance.OPEN, Gate.DRAINING: Stance.DRAINING, Gate.CLOSED: Stance.CLOSED}


class KernelEnforcer(Workless):
    """An agent the kernel does not know has no turns to hold."""

    strategy = Strategy.KERNEL
    local = False
    frees_to_treat = False
    drains = True
    ends = False

    def __init__(self, *, gates: Gates, heads: Heads) -> None:
        self._gates = gates
        self._heads = heads

    async def reaches(self, key: AgentKey) -> bool:
        return await self._heads.head(*key) is not None

    async def observe(self, key: AgentKey, before: str) -> str:
        del key
        return before

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del before
        await self._gates.set_gate(key, GATES[stance], None if stance is Stance.OPEN else reason, mandate)

    async def held(self, key: AgentKey, before: str) -> Reading:
        del before
        view = await self._heads.head(*key)
        if view is None:
            return Reading(stance=None, note="the kernel does not know it")
        if view.head.gate is Gate.DRAINING and (view.head.gate_reason or "").startswith(CORDONED):
            return Reading(stance=Stance.OPEN, note=f"its gate is ours no more: {view.head.gate_reason}")
        return Reading(stance=STANCES[view.head.gate], note=f"its gate is {view.head.gate}, {view.head.queued} wait")

    async def in_flight(self, key: AgentKey) -> int:
        view = await self._heads.head(*key)
        return int(view is not None and view.head.turn_id is not None)

    async def waiting(self, key: AgentKey) -> int:
        view = await self._heads.head(*key)
        return 0 if view is None else view.head.queued

    async def preempt(self, key: AgentKey) -> None:
        """Its gate is shut by now: whoever has nothing in hand begins nothing more."""
        if await self.in_flight(key):
            with suppress(AgentUnknown):
                await self._gates.preempt(key)
