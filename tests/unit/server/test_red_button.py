"""The red button: each is lifted by its own name, and what an order to take something away says is heard or refused."""

import asyncio
from typing import Any

import httpx2
import pytest

from homeostat import Client
from homeostat.app.assemble import System
from homeostat.core.codec import Json
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.run_errors import RedButtonNotPressed
from homeostat.testing.crews import crew, eventually

PRESSED = ("default", "billing", None)


async def press(http: httpx2.AsyncClient, *projects: str | None) -> None:
    for project in projects:
        body = {"reason": "smoke", "actor": "bob", **({} if project is None else {"project": project})}
        answer = await http.post("/v1/red-button", json=body)
        assert answer.status_code == 200, answer.text


async def pressed(http: httpx2.AsyncClient) -> set[str | None]:
    return {one["project"] for one in (await http.get("/v1/red-button")).json()["pressed"]}


@pytest.mark.parametrize("project", PRESSED)
async def test_a_client_lifts_the_button_that_it_names_and_no_other(
    http: httpx2.AsyncClient, client: Client, project: str | None
) -> None:
    await press(http, *PRESSED)
    left = await client.runs.lift_red_button(project=project, reason="the fire is out", actor="kim")
    assert {one.project for one in left.pressed} == set(PRESSED) - {project}
    assert await pressed(http) == set(PRESSED) - {project}
    with pytest.raises(RedButtonNotPressed):
        await client.runs.lift_red_button(project=project)
    assert await pressed(http) == set(PRESSED) - {project}


@pytest.mark.parametrize("project", PRESSED)
async def test_a_query_names_the_button_whatever_project_the_caller_acts_in(
    http: httpx2.AsyncClient, project: str | None
) -> None:
    await press(http, *PRESSED)
    answer = await http.delete(
        "/v1/red-button",
        params={} if project is None else {"project": project},
        headers={"x-homeostat-project": "elsewhere"},
    )
    assert answer.status_code == 200, answer.text
    assert await pressed(http) == set(PRESSED) - {project}


async def test_a_button_that_is_not_pressed_is_named_beside_those_that_are(http: httpx2.AsyncClient) -> None:
    await press(http, None, "billing")
    answer = await http.delete("/v1/red-button?project=teamA")
    assert (answer.status_code, answer.json()["code"]) == (409, "red_button_not_pressed")
    assert "'teamA' is not pressed; pressed: the whole system, project 'billing'" in answer.json()["detail"]
    assert await pressed(http) == {None, "billing"}


async def test_who_lifted_which_button_and_why_is_kept(http: httpx2.AsyncClient, client: Client) -> None:
    await press(http, None, "billing")
    await client.runs.lift_red_button(project="billing", reason="the fire is out", actor="kim")
    acts = (await http.get("/v1/audit")).json()["items"]
    lift, push = acts[0], next(act for act in acts if act["verb"] == "press_button")
    assert (lift["verb"], lift["actor"], lift["reason"], lift["outcome"]) == (
        "lift_button",
        "kim",
        "the fire is out",
        "done",
    )
    before, after = lift["changes"]["pressed"]
    assert [one["project"] for one in before if one not in after] == ["billing"]
    before, after = push["changes"]["pressed"]
    assert [one["project"] for one in after if one not in before] == ["billing"]


@pytest.mark.parametrize("body", [{"project": "billing"}, {"reason": "the fire is out"}, []])
async def test_a_body_that_would_not_be_heard_is_refused(http: httpx2.AsyncClient, body: Any) -> None:
    await press(http, *PRESSED)
    answer = await http.request("DELETE", "/v1/red-button", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed_payload")
    assert "query" in answer.json()["detail"]
    assert await pressed(http) == set(PRESSED)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/red-button?projct=billing", None),
        ("/v1/policies?origin=operator&agent=ann", None),
        ("/v1/policies?origin=operator", {"agent_id": "ann"}),
        ("/v1/policies/stop", {"dry_run": True}),
        ("/v1/policies/stop?whatif=true", None),
    ],
)
async def test_no_route_takes_away_what_a_part_of_the_order_might_have_spared(
    http: httpx2.AsyncClient, path: str, body: Any
) -> None:
    await press(http, None)
    policy = {"policy_id": "stop", "action": "block", "agent_id": "bob", "reason": "x"}
    assert (await http.put("/v1/policies/stop", json=policy)).status_code == 200
    answer = await http.request("DELETE", path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed_payload"), answer.text
    assert (await http.get("/v1/policies/stop")).status_code == 200
    assert await pressed(http) == {None}


async def test_a_project_in_the_query_alone_does_not_press_the_whole_systems_button(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/red-button?project=billing", json={"reason": "smoke"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await pressed(http) == set()


async def test_the_description_says_where_an_order_to_take_away_is_read(http: httpx2.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    for path, operations in paths.items():
        assert "requestBody" not in operations.get("delete", {}), path
    listed = {one["name"]: one["in"] for one in paths["/v1/red-button"]["delete"]["parameters"]}
    assert {name: listed[name] for name in ("project", "reason", "actor")} == dict.fromkeys(
        ("project", "reason", "actor"), "query"
    )
    assert "agent_id" in {one["name"] for one in paths["/v1/policies"]["delete"]["parameters"]}


async def test_who_is_freed_by_it_begins_nothing_else_that_it_ends(system: System, http: httpx2.AsyncClient) -> None:
    begun: list[Grant] = []
    under_way = asyncio.Event()

    async def hang(grant: Grant) -> tuple[Outcome, Json]:
        begun.append(grant)
        under_way.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody lets it go on")

    async with crew(system.kernel, "ann", "bob", work=hang):
        for name in ("ann", "ann", "bob", "ann", "bob", "ann", "ann", "bob"):
            made = await http.post("/v1/runs", json={"goal": "g", "tasks": [{"name": "t", "agent": name}]})
            assert made.status_code == 201, made.text
        await under_way.wait()

        async def all_in_line() -> bool:
            heads = [(await http.get(f"/v1/agents/{name}/head")).json() for name in ("ann", "bob")]
            return [head["queued"] for head in heads] == [4, 2] and len(begun) == 2

        await eventually(all_in_line)
        answer = await http.post("/v1/red-button", json={"reason": "smoke", "actor": "bob"})
        assert len(answer.json()["killed"]) == 8
    assert len(begun) == 2
