"""A worker acts for whom its key may act for and for nobody else, at every server alike, whoever knows it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, mark_in, mark_of
from homeostat.core.records.access import Role
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port

VIC = (DEFAULT_PROJECT, AgentId("vic"))
EVIL = ProjectId("evil")
WRITES: dict[str, dict[str, Any]] = {
    "steps": {"name": "s", "outcome": 1},
    "cards": {"cards": []},
    "boxes": {},
    "suspend": {},
    "deliver": {"result": "forged"},
    "release": {},
    "chunks": {"chunk": 1},
}


@pytest.fixture
async def elsewhere(system: System, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Another server on the same store."""
    del system
    listener = bind("127.0.0.1", free_port())
    async with (
        assemble(Settings(data_dir=tmp_path)) as other,
        serving(other, listener),
        httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http,
    ):
        yield http


async def registered(http: httpx2.AsyncClient, agent_id: str, project: str = DEFAULT_PROJECT) -> dict[str, str]:
    """An agent, and how its key is shown."""
    body = {"agent_type": "t", "agent_id": agent_id}
    answer = await http.post("/v1/agents/register", json=body, headers={"x-homeostat-project": project})
    return {"authorization": f"Bearer {answer.json()['api_key']}"}


async def operator_of(system: System, project: ProjectId | None) -> dict[str, str]:
    issued = await system.access.keys.create(
        name=f"operator of {project}", role=Role.OPERATOR, project=project, expires_in_seconds=None, by="test"
    )
    return {"authorization": f"Bearer {issued.secret}"}


async def opened(http: httpx2.AsyncClient, agent: str, headers: dict[str, str] | None = None, **body: Any) -> str:
    answer = await http.post("/v1/workers", json={"agents": [{"agent_id": agent}], **body}, headers=headers or {})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["worker_id"])


async def granted(
    http: httpx2.AsyncClient, worker: str, agent: str, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """A turn of the agent's that the worker holds, as it would name it."""
    sent = await http.post(f"/v1/agents/{agent}/inbox", json={"type": "turn", "payload": "x"}, headers=headers or {})
    assert sent.is_success, sent.text
    claimed = await http.post(f"/v1/workers/{worker}/claim", json={"wait": 10}, headers=headers or {})
    (grant,) = claimed.json()["grants"]
    assert grant["turn"]["turn_id"] == sent.json()["turn_id"]
    return {"agent_id": agent, "turn_id": grant["turn"]["turn_id"], "epoch": grant["epoch"]}


def forbidden(answer: httpx2.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text


@pytest.mark.parametrize("kind", ["agent", "operator"])
async def test_a_key_of_one_project_takes_no_turns_of_another(
    system: System, http: httpx2.AsyncClient, kind: str
) -> None:
    await registered(http, "vic")
    agent = await registered(http, "eve", EVIL)
    key = agent if kind == "agent" else await operator_of(system, EVIL)
    mine = {"agent_id": "eve"}
    for named in ("vic", "eve"):
        foreign = {"agent_id": named, "project": DEFAULT_PROJECT}
        held = foreign | {"turn_id": "turn_" + "0" * 24, "epoch": 1}
        for body in ({"agents": [foreign]}, {"agents": [mine, foreign]}, {"agents": [mine], "holding": [held]}):
            forbidden(await http.post("/v1/workers", json=body, headers=key))
        assert len(system.workers) == 0, "nothing has changed"
    worker = await opened(http, "eve", key)
    foreign = {"agent_id": "vic", "project": DEFAULT_PROJECT}
    forbidden(await http.post(f"/v1/workers/{worker}/agents", json={"agents": [foreign]}, headers=key))
    held = foreign | {"turn_id": "turn_" + "0" * 24, "epoch": 1}
    again = {"worker_id": worker, "agents": [mine], "holding": [held]}
    forbidden(await http.post("/v1/workers", json=again, headers=key))
    assert (await http.post("/v1/agents/vic/inbox", json={"type": "turn"})).is_success
    assert (await http.post(f"/v1/workers/{worker}/claim", json={}, headers=key)).json() == {"grants": []}
    assert (await granted(http, worker, "eve", key))["agent_id"] == "eve", "its own it may have"


@pytest.mark.parametrize("whose", ["an operator's", "the agent's", "one at the store"])
@pytest.mark.parametrize("who", ["another agent", "an agent of another project", "an operator of another project"])
async def test_nobody_comes_as_anothers_worker(
    system: System, http: httpx2.AsyncClient, elsewhere: httpx2.AsyncClient, whose: str, who: str
) -> None:
    own = await registered(http, "vic")
    key = await registered(http, "mal", DEFAULT_PROJECT if who == "another agent" else EVIL)
    if who == "an operator of another project":
        key = await operator_of(system, EVIL)
    hosted = [{"agent_id": "mal"}]
    if whose == "one at the store":
        session = await system.turns.open([VIC], lambda _: None)
        sent = (await http.post("/v1/agents/vic/inbox", json={"type": "turn"})).json()
        (grant,) = await session.claim(1, 10)
        worker, held = session.worker_id, {"agent_id": "vic", "turn_id": sent["turn_id"], "epoch": grant.epoch}
    else:
        worker = await opened(http, "vic", own if whose == "the agent's" else None)
        held = await granted(http, worker, "vic", own if whose == "the agent's" else None)
    before = (await http.get(f"/v1/turns/{held['turn_id']}")).json()
    for server in (http, elsewhere):
        for holding in ([], [held | {"project": DEFAULT_PROJECT}]):
            body = {"worker_id": worker, "agents": hosted, "holding": holding}
            forbidden(await server.post("/v1/workers", json=body, headers=key))
        for what, body in {"claim": {}, "renew": {}, "agents": {"agents": hosted}}.items():
            forbidden(await server.post(f"/v1/workers/{worker}/{what}", json=body, headers=key))
        forbidden(await server.delete(f"/v1/workers/{worker}", headers=key))
    after = (await http.get(f"/v1/turns/{held['turn_id']}")).json()
    told = ("status", "epoch", "worker_id", "losses")
    assert [after[name] for name in told] == [before[name] for name in told]
    assert (after["status"], after["worker_id"]) == ("running", worker)


@pytest.mark.parametrize("who", ["the agent", "an operator of its project"])
async def test_a_worker_with_bounds_comes_back_to_another_server(
    system: System, http: httpx2.AsyncClient, elsewhere: httpx2.AsyncClient, who: str
) -> None:
    own = await registered(http, "vic")
    key = own if who == "the agent" else await operator_of(system, DEFAULT_PROJECT)
    worker = await opened(http, "vic", key)
    assert mark_in(worker) == (mark_of(*VIC) if who == "the agent" else mark_of(DEFAULT_PROJECT))
    held = await granted(http, worker, "vic", key)
    holding = [held | {"project": DEFAULT_PROJECT}]
    assert await opened(elsewhere, "vic", key, worker_id=worker, holding=holding) == worker
    path = f"/v1/workers/{worker}/turns/{held['turn_id']}/deliver"
    body = {"agent_id": "vic", "epoch": held["epoch"], "result": "done"}
    answer = await elsewhere.post(path, json=body, headers=key)
    assert answer.status_code == 200, answer.text


async def test_who_has_no_bounds_takes_up_any_worker_but_it_keeps_its_own(
    http: httpx2.AsyncClient, elsewhere: httpx2.AsyncClient
) -> None:
    own = await registered(http, "vic")
    await registered(http, "mal")
    worker = await opened(http, "vic", own)
    held = await granted(http, worker, "vic", own)
    more = {"agents": [{"agent_id": "mal"}]}
    forbidden(await elsewhere.post("/v1/workers", json=more | {"worker_id": worker}))
    assert await opened(elsewhere, "vic", worker_id=worker, holding=[held | {"project": DEFAULT_PROJECT}]) == worker
    forbidden(await elsewhere.post(f"/v1/workers/{worker}/agents", json=more))
    assert mark_in(await opened(http, "vic")) == "", "an operator's own has no bounds"


async def test_a_session_works_on_turns_of_whom_it_acts_for(http: httpx2.AsyncClient) -> None:
    own, other = await registered(http, "vic"), await registered(http, "mal")
    worker, foreign = await opened(http, "vic", own), await opened(http, "mal", other)
    held = await granted(http, worker, "vic", own)
    for headers in (other, {}):
        for what, body in WRITES.items():
            path = f"/v1/workers/{foreign}/turns/{held['turn_id']}/{what}"
            sent = {"agent_id": "vic", "epoch": held["epoch"], **body}
            forbidden(await http.post(path, json=sent, headers=headers))
    path = f"/v1/workers/{worker}/turns/{held['turn_id']}"
    sent = {"agent_id": "vic", "epoch": held["epoch"]}
    assert (await http.post(f"{path}/deliver", json=sent | {"result": 1}, headers=own)).is_success
    chunk = sent | {"chunk": "forged"}
    ended = f"/v1/workers/{foreign}/turns/{held['turn_id']}/chunks"
    forbidden(await http.post(ended, json=chunk, headers=other))


async def test_a_session_reads_what_it_works_on(http: httpx2.AsyncClient) -> None:
    own, other = await registered(http, "vic"), await registered(http, "mal")
    worker, foreign = await opened(http, "vic", own), await opened(http, "mal", other)
    idle = await opened(http, "vic", own)
    held = await granted(http, worker, "vic", own)

    async def hydration(session: str, headers: dict[str, str], turn_id: str = held["turn_id"]) -> httpx2.Response:
        return await http.get(f"/v1/workers/{session}/turns/{turn_id}/hydration", headers=headers)

    assert (await hydration(worker, own)).status_code == 200
    forbidden(await hydration(foreign, other))
    forbidden(await hydration(foreign, {}))
    for session in (idle, await opened(http, "vic")):
        answer = await hydration(session, own if session == idle else {})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_epoch"), "another worker holds it"
    unknown = await hydration(worker, own, "turn_" + "0" * 24)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "turn_unknown")


async def test_a_worker_takes_turns_of_agents_that_there_are(system: System, http: httpx2.AsyncClient) -> None:
    await registered(http, "vic")
    known, ghost = {"agent_id": "vic"}, {"agent_id": "ghost"}
    for agents in ([ghost], [known, ghost], [known | {"project": EVIL}]):
        answer = await http.post("/v1/workers", json={"agents": agents})
        assert (answer.status_code, answer.json()["code"]) == (404, "agent_unknown"), answer.text
    assert len(system.workers) == 0, "nothing has changed"
    worker = await opened(http, "vic")
    answer = await http.post(f"/v1/workers/{worker}/agents", json={"agents": [known, ghost]})
    assert (answer.status_code, answer.json()["code"]) == (404, "agent_unknown")
    assert not system.kernel.dock.hosts((DEFAULT_PROJECT, AgentId("ghost")))
    own = await registered(http, "ghost")
    assert (await http.post(f"/v1/workers/{worker}/agents", json={"agents": [ghost]})).status_code == 204
    assert (await granted(http, worker, "ghost"))["agent_id"] == "ghost"
    assert (await http.post("/v1/agents/ghost/deregister", headers=own)).is_success
    assert (await opened(http, "ghost")).startswith("wrk_"), "its queue stays, and so does whoever works on it"
    assert (await http.post("/v1/workers", json={"agents": []})).status_code == 201


async def test_of_agents_that_a_key_may_not_act_for_it_hears_no_more_than_that(
    system: System, http: httpx2.AsyncClient
) -> None:
    await registered(http, "vic")
    key = await operator_of(system, EVIL)
    for agent_id in ("vic", "ghost"):
        body = {"agents": [{"agent_id": agent_id, "project": DEFAULT_PROJECT}]}
        forbidden(await http.post("/v1/workers", json=body, headers=key))
