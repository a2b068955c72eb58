"""Holds agents that are containers or deployments, through whatever engine runs them."""

from typing import Protocol

from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey


class Engine(Protocol):
    """What is asked of an engine: a deployment has replicas, a container is one that is paused or not."""

    async def replicas(self, name: str) -> int:
        """How many run now; 0 while it is paused."""
        ...

    async def scale(self, name: str, replicas: int) -> None: ...


class ContainerEnforcer:
    """Scales to nothing and back to exactly what there was. It reaches only agents that were registered."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: dict[AgentKey, str] = {}
        self._before: dict[AgentKey, int] = {}

    def register(self, key: AgentKey, name: str) -> None:
        """Say which deployment an agent is."""
        self._names[key] = name

    async def hold(self, key: AgentKey, stance: Stance, reason: str) -> None:
        del reason
        name = self._names.get(key)
        if name is None or stance is Stance.DRAINING:
            return
        now = await self._engine.replicas(name)
        if stance is Stance.CLOSED and now > 0:
            self._before[key] = now
            await self._engine.scale(name, 0)
        elif stance is Stance.OPEN and now == 0:
            await self._engine.scale(name, self._before.pop(key, 1))

    async def held(self, key: AgentKey) -> Stance | None:
        name = self._names.get(key)
        if name is None:
            return None
        return Stance.OPEN if await self._engine.replicas(name) else Stance.CLOSED

    async def in_flight(self, key: AgentKey) -> int:
        del key
        return 0

    async def waiting(self, key: AgentKey) -> int:
        del key
        return 0

    async def preempt(self, key: AgentKey) -> None:
        del key
