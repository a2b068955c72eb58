"""Holds agents in memory alone, for simulations and tests."""

from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.records.enforcement import Mandate, Reading, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey


class NoopEnforcer(Workless):
    """Remembers what it was told, and does nothing."""

    strategy = Strategy.NOOP
    local = False
    frees_to_treat = False
    drains = True
    ends = False

    def __init__(self) -> None:
        self.stances: dict[AgentKey, Stance] = {}

    async def reaches(self, key: AgentKey) -> bool:
        del key
        return True

    async def observe(self, key: AgentKey, before: str) -> str:
        del key
        return before

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del reason, before, mandate
        self.stances[key] = stance

    async def held(self, key: AgentKey, before: str) -> Reading:
        del before
        return Reading(stance=self.stances.get(key, Stance.OPEN))
