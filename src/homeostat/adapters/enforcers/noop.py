"""Holds agents in memory alone, for simulations and tests."""

from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey


class NoopEnforcer:
    """Remembers what it was told, and does nothing."""

    def __init__(self) -> None:
        self.stances: dict[AgentKey, Stance] = {}

    async def hold(self, key: AgentKey, stance: Stance, reason: str) -> None:
        del reason
        self.stances[key] = stance

    async def held(self, key: AgentKey) -> Stance | None:
        return self.stances.get(key)

    async def in_flight(self, key: AgentKey) -> int:
        del key
        return 0

    async def waiting(self, key: AgentKey) -> int:
        del key
        return 0

    async def preempt(self, key: AgentKey) -> None:
        del key
