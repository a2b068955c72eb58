"""What tests and benchmarks of holding agents share: an agent in a phase, and somebody who spends nothing."""

from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Spent
from homeostat.core.records.immune import Patient
from homeostat.core.records.turn import AgentKey

ANN: Final[AgentKey] = (ProjectId("default"), AgentId("ann"))


class Frugal:
    """Nobody spends anything."""

    async def spent(self, agent: AgentKey, since: Millis) -> Spent:
        del agent, since
        return Spent(refused=0, answered=0, tokens=0)


class Alerts:
    """Hears what operators are told."""

    def __init__(self) -> None:
        self.heard: list[dict[str, object]] = []

    async def __call__(self, key: AgentKey, what: str, said: dict[str, object]) -> None:
        self.heard.append({"agent_id": key[1], "alert": what, **said})


def patient(phase: Phase, key: AgentKey = ANN, *, killed: bool = False) -> Patient:
    """An agent in a phase, by an operator's word."""
    return Patient(
        project=key[0],
        agent_id=key[1],
        version=1,
        phase=phase,
        since_ms=Millis(1),
        cause="it loops",
        actor="ann",
        killed=killed,
    )
