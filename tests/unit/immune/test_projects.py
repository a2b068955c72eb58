"""What agents of several projects show together is told in each project's own words."""

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.core.ids import AgentId, ProjectId
from homeostat.fleet.registry import Introduction
from homeostat.testing.clinic import clinic

OTHER = ProjectId("billing")


async def test_trouble_of_a_whole_fleet_names_no_agents_of_another_project() -> None:
    async with clinic() as ward:
        own, others = ("ann", "bob", "cy"), ("xi", "yan", "zed")
        await ward.enrol(*own)
        for name in others:
            enrolled = await ward.system.enrol(
                Introduction(agent_type="worker", project=OTHER), AgentId(name), key=None
            )
            ward.keys[name] = enrolled.api_key
        await ward.sample(*own, *others, times=150)
        ward.faults |= {name: Faults(tokens=100) for name in (*own, *others)}
        await ward.sample(*own, *others, times=10)
        store = ward.system.immune.store
        named: list[tuple[ProjectId, str]] = []
        for project in (ProjectId("default"), OTHER):
            for incident in await store.incidents(project, agent_id=None, before=None, limit=100):
                named += [(project, agent_id) for agent_id in incident.agents]
        assert named, "the fleet's trouble was told"
        assert {agent_id for project, agent_id in named if project == OTHER} <= set(others)
        assert {agent_id for project, agent_id in named if project != OTHER} <= set(own)
