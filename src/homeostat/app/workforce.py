"""Who could carry a task out: the fleet's register, and agents that only the kernel knows."""

from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.run import Target, TargetKind
from homeostat.fleet.fleet import Fleet


class Workforce:
    """Finds agents by name, type or tag."""

    def __init__(self, fleet: Fleet, turns: TurnStore) -> None:
        self._fleet = fleet
        self._turns = turns

    async def find(self, project: ProjectId, target: Target) -> list[AgentId]:
        if target.kind is TargetKind.AGENT:
            agent_id = AgentId(target.name)
            return [agent_id] if await self._turns.head(project, agent_id) is not None else []
        entries = (member.entry for member in self._fleet.registry.members())
        return [
            entry.agent_id
            for entry in entries
            if entry.project == project
            and not entry.gone
            and (entry.agent_type == target.name if target.kind is TargetKind.TYPE else target.name in entry.tags)
        ]
