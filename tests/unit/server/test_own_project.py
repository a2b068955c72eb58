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


async def test_no_filter_finds_out_what_was_done_in_another_project(system: System, http: httpx2.AsyncClient) -> None:
    """Where a page of the log ends would tell whether an act that is not shown fits the filter, word by word."""
    admin, viewer = await key(system, Role.ADMIN), await key(system, Role.VIEWER, "billing")
    for project, name in (("default", "ann"), ("billing", "eve")):
        headers = admin | {"x-homeostat-project": project}
        body = {"agent_type": "t", "agent_id": name}
        assert (await http.post("/v1/agents/register", json=body, headers=headers)).is_success
        for _ in range(3):
            order = {"reason": f"merger of {name}"}
            assert (await http.post(f"/v1/agents/{name}/cordon", json=order, headers=headers)).is_success

    async def found(q: str, limit: int) -> tuple[list[str], int | None]:
        asked = {"q": q, "limit": limit}
        page = (await http.get("/v1/audit", params=asked, headers=viewer)).json()
        return [act["project"] for act in page["items"]], page["next_cursor"]

    for limit in (1, 2, 50):
        assert (
            await found('reason:"merger of ann"', limit) == await found('reason:"merger of zed"', limit) == ([], None)
        )
    items, following = await found("reason:merger", 4)
    assert (items, following is not None) == (["billing"] * 4, True), "a page is full of what may be seen"
    rest = (await http.get("/v1/audit", params={"cursor": following}, headers=viewer)).json()
    assert ([act["project"] for act in rest["items"]], rest["next_cursor"]) == (["billing"] * 2, None)
