"""Holds agents in every way at once: all that fit close together, and open in reverse."""

import asyncio
from collections.abc import Sequence

from homeostat.core.ports.immune import Enforcer
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey


class CompositeEnforcer:
    """An agent is held as loosely as the loosest of its enforcers holds it."""

    def __init__(self, enforcers: Sequence[Enforcer]) -> None:
        self._enforcers = tuple(enforcers)

    async def hold(self, key: AgentKey, stance: Stance, reason: str) -> None:
        inwards = stance is not Stance.OPEN
        for enforcer in self._enforcers if inwards else reversed(self._enforcers):
            await enforcer.hold(key, stance, reason)

    async def held(self, key: AgentKey) -> Stance | None:
        """What all that reach the agent agree on; where they differ, that it has to be put right."""
        found = {stance for enforcer in self._enforcers if (stance := await enforcer.held(key)) is not None}
        if len(found) == 1:
            return found.pop()
        return None if not found else min(found, key=list(Stance).index) if Stance.OPEN in found else Stance.DRAINING

    async def in_flight(self, key: AgentKey) -> int:
        return sum(await asyncio.gather(*(enforcer.in_flight(key) for enforcer in self._enforcers)))

    async def waiting(self, key: AgentKey) -> int:
        return sum(await asyncio.gather(*(enforcer.waiting(key) for enforcer in self._enforcers)))

    async def preempt(self, key: AgentKey) -> None:
        for enforcer in self._enforcers:
            await enforcer.preempt(key)
