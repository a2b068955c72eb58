"""Treats simulated agents, by changing what they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey

R = RemedyAction


@dataclass(slots=True)
class SimulatedState:
    """What a simulated agent is made of."""

    memory: dict[str, object] = field(default_factory=dict[str, object])
    prompt_version: int = 1
    temperature: float = 1.0
    tools: int = 4
    tools_revoked: bool = False

    def reset(self) -> None:
        fresh = SimulatedState()
        self.memory.clear()
        self.prompt_version, self.temperature, self.tools = fresh.prompt_version, fresh.temperature, fresh.tools
        self.tools_revoked = fresh.tools_revoked


class SimulatedRemedies:
    """Every remedy there is, on agents that it was told of."""

    def __init__(self, agents: Mapping[AgentKey, SimulatedState]) -> None:
        self._agents = agents

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del reason
        state = self._agents.get(key)
        if state is None:
            return Applied.NOT_APPLICABLE, "it is not simulated here"
        match action:
            case R.RESET_MEMORY:
                state.memory.clear()
            case R.ROLLBACK_PROMPT:
                if state.prompt_version <= 1:
                    return Applied.NOT_APPLICABLE, "it has no earlier prompt"
                state.prompt_version -= 1
            case R.REDUCE_AUTONOMY:
                state.temperature *= 0.5
                state.tools = max(0, state.tools - 2)
            case R.REVOKE_TOOLS:
                state.tools_revoked = True
            case R.RESET_AGENT:
                state.reset()
        return Applied.APPLIED, "done to its simulated state"

    async def undo(self, key: AgentKey) -> None:
        del key
