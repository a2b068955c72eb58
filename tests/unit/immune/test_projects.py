"""Each project is a fleet of its own: what agents of others do and show neither spares nor accuses its own."""

from collections.abc import AsyncGenerator

import pytest

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Incident
from homeostat.fleet.registry import Introduction
from homeostat.testing.clinic import Clinic, clinic

OTHER = ProjectId("billing")
OWN, OTHERS = ("ann", "bob", "cy"), ("xi", "yan", "zed")


@pytest.fixture
async def ward() -> AsyncGenerator[Clinic]:
    """Three agents of one project and three of another, all of one type, which call one model."""
    async with clinic() as one:
        await one.enrol(*OWN)
        for name in OTHERS:
            said = Introduction(agent_type="worker", project=OTHER)
            one.keys[name] = (await one.system.enrol(said, AgentId(name), key=None)).api_key
        await one.sample(*OWN, *OTHERS, times=150)
        yield one


async def alerts(ward: Clinic, project: ProjectId) -> list[Incident]:
    found = await ward.system.immune.store.incidents(project, agent_id=None, before=None, limit=100)
    return [one for one in found if one.agent_id is None]


async def test_trouble_of_a_shared_model_is_told_to_each_project_of_its_own_agents(ward: Clinic) -> None:
    ward.faults |= {name: Faults(tokens=100) for name in (*OWN, *OTHERS)}
    await ward.sample(*OWN, *OTHERS, times=10)
    for project, names in ((DEFAULT_PROJECT, OWN), (OTHER, OTHERS)):
        told = await alerts(ward, project)
        assert told, f"nobody told {project}"
        assert {agent_id for one in told for agent_id in one.agents} <= set(names)


async def test_agents_that_another_project_isolates_spare_none_of_ours(ward: Clinic) -> None:
    for name in OTHERS:
        await ward.system.immune.quarantine((OTHER, AgentId(name)), reason="a look at all of them", actor="eve")
    ward.faults["ann"] = Faults(tokens=400)
    await ward.sample(*OWN, times=3)
    assert ward.phase("ann") not in (Phase.HEALTHY, Phase.SUSPECTED)
    assert ward.system.immune.counts.capped == 0
