"""How an agent that is hosted here is treated: by the hooks its author may have written, else by their defaults."""

from homeostat.agent.errors import CannotTreat
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.orchestrator import Orchestrator
from homeostat.core.records.immune import Applied, RemedyAction


async def treat(orchestrator: Orchestrator, agent_id: str, action: RemedyAction) -> tuple[Applied, str]:
    """Apply a remedy to an agent; what it cannot do it says, and what it raises is not taken for success."""
    if agent_id not in orchestrator.hosted:
        return Applied.NOT_APPLICABLE, f"{agent_id!r} is not hosted here"
    agent = orchestrator.agent(agent_id)
    if not isinstance(agent, ManagedAgent):
        return Applied.NOT_APPLICABLE, "it is no ManagedAgent, and has no hooks"
    try:
        note = await agent.treat(action)
    except CannotTreat as problem:
        return Applied.NOT_APPLICABLE, str(problem)
    except Exception as problem:  # noqa: BLE001 - whatever an author's hook raises is told
        return Applied.FAILED, f"{type(problem).__name__}: {problem}"[:500]
    return Applied.APPLIED, note
