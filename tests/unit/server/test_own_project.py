"""What a key of one project is told of the whole: its own part, and nothing of what others have or do."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.access import Role

DEFAULT = ProjectId("default")


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path, auth=Auth.KEYS)) as system:
        yield system


async def key(system: System, role: Role, project: str | None = None) -> dict[str, str]:
    scope = None if project is None else ProjectId(project)
    issued = await system.access.keys.create(name="x", role=role, project=scope, expires_in_seconds=None, by="test")
    return {"authorization": f"Bearer {issued.secret}"}


async def test_an_overview_counts_the_agents_and_calls_of_its_project(system: System, http: httpx2.AsyncClient) -> None:
    admin, viewer = await key(system, Role.ADMIN), await key(system, Role.VIEWER, "billing")
    for project, names in (("default", ("ann", "bob")), ("billing", ("eve",))):
        for name in names:
            body = {"agent_type": "t", "agent_id": name}
            answer = await http.post("/v1/agents/register", json=body, headers=admin | {"x-homeostat-project": project})
            assert answer.is_success, answer.text
    system.gateway.office.in_flight.enter((DEFAULT, AgentId("ann")))
    everybody = {"default": (2, 1), "billing": (1, 0), "nowhere": (0, 0)}
    for project, (alive, calls) in everybody.items():
        told = (await http.get("/v1/overview", headers=admin | {"x-homeostat-project": project})).json()
        assert (told["presence"], told["calls_open"]) == ({"alive": alive, "stale": 0, "dead": 0}, calls), project
    own = (await http.get("/v1/overview", headers=viewer)).json()
    assert (own["agents"], own["presence"]["alive"], own["calls_open"]) == (1, 1, 0)
    system.gateway.office.in_flight.leave((DEFAULT, AgentId("ann")))
