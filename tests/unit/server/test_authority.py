"""Every route, every role, one's own and another's: what the table says is what the door does."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from homeostat.access.authority import ROWS, TABLE, Agents, Object, authorize
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.access import LOCAL, NOBODY, Principal, PrincipalKind, Role
from homeostat.server.application import table_of
from homeostat.server.endpoints import Endpoint
from homeostat.server.event_socket import EventSocket
from homeostat.server.events import STREAM
from homeostat.server.serving import bind, serving, url_of
from homeostat.server.status_socket import StatusSocket
from homeostat.testing.crews import eventually
from homeostat.testing.servers import free_port

PROJECT = ProjectId("default")
AGENT = Principal(kind=PrincipalKind.AGENT, name="ann", project=PROJECT, agent_id=AgentId("ann"))
NEVER_FOR_AGENTS = {"quarantine_agent", "release_agent", "heal_agent", "approve", "reject", "approve_all", "create_key"}
ENDPOINTS = table_of()


def holder(role: Role, project: str | None = None) -> Principal:
    scope = None if project is None else ProjectId(project)
    return Principal(kind=PrincipalKind.KEY, name=role, role=role, project=scope)


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    missing = [f'{one.method} {one.path}: add a row for "{one.name}"' for one in ENDPOINTS if one.name not in TABLE]
    assert not missing, "say in homeostat/access/authority.py who may do this:\n" + "\n".join(missing)
    names = {one.name for one in ENDPOINTS} | {StatusSocket.verb, EventSocket.verb}
    assert {row.verb for row in ROWS} - names == set(), "these rows have no route"
    pages = [one.name for one in ENDPOINTS if one.name != "read_page"]
    assert len(pages) == len(set(pages)), "a verb is the name of one route"
    for row in ROWS:
        assert not row.shows or row.shows in names


@pytest.mark.parametrize("verb", sorted(TABLE))
@pytest.mark.parametrize("role", Role)
def test_roles(verb: str, role: Role) -> None:
    row = TABLE[verb]
    allowed = row.open or role in row.roles
    assert authorize(holder(role), row.verb, Object(PROJECT)) is allowed
    scoped = allowed and (row.open or not row.everywhere)
    assert authorize(holder(role, "default"), row.verb, Object(PROJECT)) is scoped
    assert authorize(holder(role, "other"), row.verb, Object(PROJECT)) is row.open
    assert Role.ADMIN in row.roles or not row.roles, "an admin may do whatever anybody may"


@pytest.mark.parametrize("verb", sorted(TABLE))
def test_agents_speak_for_themselves(verb: str) -> None:
    row = TABLE[verb]
    own, other = Object(PROJECT, AgentId("ann")), Object(PROJECT, AgentId("bob"))
    assert authorize(AGENT, verb, own) is (row.open or row.agents is not Agents.NEVER)
    assert authorize(AGENT, verb, other) is (row.open or row.agents is Agents.ANY)
    assert authorize(AGENT, verb, Object(ProjectId("elsewhere"), AgentId("ann"))) is row.open
    if verb in NEVER_FOR_AGENTS:
        assert row.agents is Agents.NEVER


def test_who_is_not_known_gets_what_is_open_and_what_has_no_row_is_closed() -> None:
    for row in ROWS:
        assert authorize(NOBODY, row.verb, Object(PROJECT)) is row.open
        assert authorize(LOCAL, row.verb, Object(PROJECT))
    for principal in (NOBODY, AGENT, *map(holder, Role)):
        assert not authorize(principal, "something new", Object(PROJECT))


@dataclass
class Guarded:
    """A server that asks for keys, and somebody of each kind."""

    http: httpx2.AsyncClient
    system: System
    secrets: dict[str, str]

    async def ask(self, endpoint: Endpoint, who: str, agent: str = "ann") -> httpx2.Response:
        path = endpoint.path.replace("{agent_id}", agent).replace("{turn_id}", "turn_" + "0" * 24)
        for part in ("worker_id", "card_id", "box_id", "policy_id", "holder", "tag", "agent_type", "key_id"):
            path = path.replace("{" + part + "}", "nothing")
        path = path.replace("{kind}", "agent").replace("{approval_id}", "none").replace("{incident_id}", "none")
        headers = {} if who == "nobody" else {"authorization": f"Bearer {self.secrets[who]}"}
        rubbish = {"kinds": "none"} if endpoint.media_type == STREAM else {}  # whoever is let in would read for ever
        return await self.http.request(endpoint.method, path, params=rubbish, headers=headers, content=b"\x00")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    settings = Settings(data_dir=tmp_path, auth=Auth.KEYS)
    async with assemble(settings) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
            secrets: dict[str, str] = {}
            for role in Role:
                issued = await system.access.keys.create(
                    name=role, role=role, project=None, expires_in_seconds=None, by="test"
                )
                secrets[role] = issued.secret
            for agent in ("ann", "bob"):
                body = {"agent_type": "t", "agent_id": agent}
                headers = {"authorization": f"Bearer {secrets['operator']}"}
                answer = await http.post("/v1/agents/register", json=body, headers=headers)
                secrets[agent] = answer.json()["api_key"]
            yield Guarded(http, system, secrets)


async def test_the_door_does_what_the_table_says(guarded: Guarded) -> None:
    """Bodies are rubbish: whoever is let in hears that, or whatever else is wrong, but not that they may not."""
    for endpoint in ENDPOINTS:
        row = TABLE[endpoint.name]
        if row.open or endpoint.name == "deregister":
            continue
        unknown = await guarded.ask(endpoint, "nobody")
        assert unknown.status_code == 401, endpoint.name
        assert unknown.json()["code"] == "unauthenticated"
        for role in Role:
            answer = await guarded.ask(endpoint, role)
            refused = answer.status_code == 403 and answer.json()["code"] == "forbidden"
            assert refused is (role not in row.roles), f"{endpoint.name} as {role}: {answer.text}"
        if "{agent_id}" in endpoint.path:
            own = await guarded.ask(endpoint, "ann")
            other = await guarded.ask(endpoint, "ann", agent="bob")
            assert (own.status_code == 403) is (row.agents is Agents.NEVER), endpoint.name
            assert (other.status_code == 403) is (row.agents is not Agents.ANY), endpoint.name


async def test_a_key_of_one_project_cannot_tell_what_others_have(guarded: Guarded) -> None:
    """An agent of another project, one that left it, and one that never was, are told apart by no answer; nor is a
    project that there is from one that there is not.
    """
    system = guarded.system
    issued = await system.access.keys.create(
        name="x", role=Role.ADMIN, project=ProjectId("billing"), expires_in_seconds=None, by="test"
    )
    own = {"authorization": f"Bearer {issued.secret}"}
    operator = {"authorization": f"Bearer {guarded.secrets['operator']}"}
    await guarded.http.post("/v1/agents/bob/deregister", headers=operator)

    async def asked(endpoint: Endpoint, agent: str, **headers: str) -> tuple[int, str]:
        path = re.sub(r"\{(\w+)\}", lambda found: agent if found[1] == "agent_id" else "x", endpoint.path)
        body = {"reason": "x", "push_interval_seconds": 5, "type": "turn", "payload": 1, "kind": "latency"}
        sent = None if endpoint.method in ("GET", "DELETE") else body
        answer = await guarded.http.request(endpoint.method, path, headers=own | headers, json=sent)
        return answer.status_code, answer.text.replace(agent, "?").partition('"trace_id"')[0]

    for endpoint in ENDPOINTS:
        if TABLE[endpoint.name].open or endpoint.media_type == STREAM:
            continue
        if "{agent_id}" in endpoint.path:
            absent = await asked(endpoint, "zed")
            assert await asked(endpoint, "ann") == absent, endpoint.name
            assert await asked(endpoint, "bob") == absent, endpoint.name
        there = await asked(endpoint, "ann", **{"x-homeostat-project": "default"})
        assert there[0] == 403, endpoint.name
        assert await asked(endpoint, "ann", **{"x-homeostat-project": "nowhere"}) == there, endpoint.name


async def test_a_key_of_one_project_sees_no_red_button_of_another(guarded: Guarded) -> None:
    keys = guarded.system.access.keys
    issued = await keys.create(
        name="x", role=Role.VIEWER, project=ProjectId("billing"), expires_in_seconds=None, by="test"
    )
    admin, viewer = ({"authorization": f"Bearer {secret}"} for secret in (guarded.secrets["admin"], issued.secret))
    for project in ("default", "billing", None):
        body = {"reason": "smoke"} if project is None else {"reason": "smoke", "project": project}
        assert (await guarded.http.post("/v1/red-button", json=body, headers=admin)).is_success

    async def pressed(headers: dict[str, str]) -> set[str | None]:
        answer = await guarded.http.get("/v1/red-button", headers=headers)
        return {button["project"] for button in answer.json()["pressed"]}

    assert await pressed(admin) == {"default", "billing", None}
    assert await pressed(viewer) == {"billing", None}


async def test_an_agent_leaves_by_itself_and_nobody_elses_leave(guarded: Guarded) -> None:
    leave = next(one for one in ENDPOINTS if one.name == "deregister")
    answers = [await guarded.ask(leave, who, agent="bob") for who in ("nobody", "viewer", "ann", "bob", "operator")]
    assert [answer.status_code for answer in answers] == [401, 403, 403, 200, 200]


async def test_a_stranger_registers_nobody_and_an_agent_only_itself(guarded: Guarded) -> None:
    http, secrets = guarded.http, guarded.secrets
    body = {"agent_type": "t", "agent_id": "eve"}
    assert (await http.post("/v1/agents/register", json=body)).status_code == 401
    for secret in ("hs_made_up", secrets["ann"]):
        answer = await http.post("/v1/agents/register", json=body, headers={"authorization": f"Bearer {secret}"})
        assert answer.status_code == 401, "no key but its own brings an agent in"
    viewer = {"authorization": f"Bearer {secrets['viewer']}"}
    assert (await http.post("/v1/agents/register", json=body, headers=viewer)).status_code == 403
    assert guarded.system.fleet.registry.get(AgentId("eve")) is None
    again = {"agent_type": "t", "agent_id": "ann"}
    own = await http.post("/v1/agents/register", json=again, headers={"authorization": f"Bearer {secrets['ann']}"})
    assert own.status_code == 200


async def test_an_agent_brings_a_run_no_work_but_what_its_own_turn_asks_for(guarded: Guarded) -> None:
    operator, ann = ({"authorization": f"Bearer {guarded.secrets[who]}"} for who in ("operator", "ann"))
    body = {"goal": "payroll", "tasks": [{"name": "t", "agent": "bob"}], "budget": {"tokens": 300}}
    run_id = (await guarded.http.post("/v1/runs", json=body, headers=operator)).json()["run_id"]

    async def turn_of_bob() -> bool:
        return (await guarded.http.get("/v1/agents/bob/head", headers=operator)).json()["turn_id"] is not None

    await eventually(turn_of_bob)
    bobs = (await guarded.http.get("/v1/agents/bob/head", headers=operator)).json()["turn_id"]
    mine = await guarded.http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1}, headers=ann)

    async def sent(headers: dict[str, str], **more: str) -> int:
        message = {"type": "turn", "payload": 1, **more}
        return (await guarded.http.post("/v1/agents/ann/inbox", json=message, headers=headers)).status_code

    assert await sent(ann, run_id=run_id) == 403
    assert await sent(ann, run_id=run_id, parent_turn_id=mine.json()["turn_id"]) == 403
    assert await sent(ann, parent_turn_id=bobs) == 403
    assert await sent(ann, parent_turn_id=mine.json()["turn_id"]) == 202
    assert await sent({"authorization": f"Bearer {guarded.secrets['bob']}"}, run_id=run_id, parent_turn_id=bobs) == 202
    assert await sent(operator, run_id=run_id) == 202


async def test_an_agent_makes_boxes_in_its_own_name(guarded: Guarded) -> None:
    ann = {"authorization": f"Bearer {guarded.secrets['ann']}"}
    cards = [{"type": "note", "content": "pay eve"}]
    forged = await guarded.http.post("/v1/boxes", json={"author": "bob", "cards": cards}, headers=ann)
    assert (forged.status_code, forged.json()["code"]) == (403, "forbidden")
    made = await guarded.http.post("/v1/boxes", json={"cards": cards}, headers=ann)
    shown = await guarded.http.get(f"/v1/boxes/{made.json()['box_id']}", headers=ann)
    assert [card["author"] for card in shown.json()["items"]] == ["ann"]


async def test_an_agent_ends_no_box_but_what_it_writes_to(guarded: Guarded) -> None:
    ann, operator = ({"authorization": f"Bearer {guarded.secrets[who]}"} for who in ("ann", "operator"))
    made = [(await guarded.http.post("/v1/boxes", json={}, headers=operator)).json()["box_id"] for _ in range(3)]
    for agent, memory in zip(("ann", "bob"), made, strict=False):
        sent = {"type": "turn", "payload": 1, "output_box_id": memory}
        accepted = await guarded.http.post(f"/v1/agents/{agent}/inbox", json=sent, headers=operator)
        await guarded.http.post(f"/v1/turns/{accepted.json()['turn_id']}/stop", json={"reason": "r"}, headers=operator)

    async def ended(box_id: str, headers: dict[str, str]) -> int:
        return (await guarded.http.delete(f"/v1/boxes/{box_id}", headers=headers)).status_code

    assert [await ended(box_id, ann) for box_id in (*made, "box_" + "0" * 24)] == [204, 403, 403, 404]
    assert [await ended(box_id, operator) for box_id in made] == [404, 204, 204]
    acts = (await guarded.http.get("/v1/audit", headers=operator)).json()["items"]
    assert [act["verb"] for act in acts].count("end_box") >= 3, "an end is written down"
