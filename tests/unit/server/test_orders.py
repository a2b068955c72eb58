"""Orders: once under one key, on the version that was seen, rehearsed on request; and the operator's gate."""

import asyncio

import httpx2
import pytest

from homeostat.access.authority import TABLE
from homeostat.app.assemble import System
from homeostat.core.codec import to_json
from homeostat.core.errors import StaleEpoch
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.head import Gate
from homeostat.core.records.view import Outcome
from homeostat.server.application import table_of
from homeostat.server.blast import EFFECTS, _named_agent, _turns_agent
from homeostat.server.repeats import SEE_TO_IT_THEMSELVES

ANN = (ProjectId("default"), AgentId("ann"))
WHY = {"reason": "a new release"}


@pytest.fixture(autouse=True)
async def ann(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})


async def gate(system: System) -> Gate:
    view = await system.kernel.store.head(*ANN)
    assert view is not None
    return view.head.gate


# --- the operator's gate ---------------------------------------------------------------------------------------


async def test_a_cordoned_agent_gets_no_new_turns_and_loses_none(http: httpx2.AsyncClient, system: System) -> None:
    cordoned = await http.post("/v1/agents/ann/cordon", json=WHY)
    assert cordoned.json()["cordoned"]
    sent = (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1})).json()
    view = await system.kernel.store.turn(ANN[0], sent["turn_id"])
    assert view is not None
    assert view.status == "queued"
    state = (await http.get("/v1/agents/ann/cordon")).json()
    assert (state["queued"], state["drained"], state["reason"]) == (1, True, "a new release")
    lifted = (await http.post("/v1/agents/ann/uncordon", json=WHY)).json()
    assert (lifted["cordoned"], lifted["gate"]) == (False, "open")
    view = await system.kernel.store.turn(ANN[0], sent["turn_id"])
    assert view is not None
    assert view.status == "dispatched"


async def test_a_drained_agent_ends_what_it_has_in_hand(http: httpx2.AsyncClient, system: System) -> None:
    await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1})
    await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 2})
    drain = await http.post("/v1/agents/ann/drain", json=WHY)
    assert (drain.status_code, drain.json()["drained"]) == (202, False)
    turn_id = drain.json()["active_turn_id"]
    await http.post(f"/v1/turns/{turn_id}/stop", json={"reason": "over"})
    state = (await http.get("/v1/agents/ann/cordon")).json()
    assert (state["drained"], state["queued"], state["active_turn_id"]) == (True, 1, None)
    assert await gate(system) is Gate.DRAINING


async def test_a_cordon_outlives_whoever_else_opens_the_gate(http: httpx2.AsyncClient, system: System) -> None:
    await http.post("/v1/agents/ann/cordon", json=WHY)
    await http.post("/v1/agents/ann/quarantine", json=WHY)
    await system.cordons.set_gate(ANN, Gate.CLOSED, "ill")
    await http.post("/v1/agents/ann/uncordon", json=WHY)
    assert await gate(system) is Gate.CLOSED, "what the immune system holds stays held"
    await http.post("/v1/agents/ann/cordon", json=WHY)
    await system.cordons.set_gate(ANN, Gate.OPEN)
    assert await gate(system) is Gate.DRAINING, "healed, but still cordoned"
    await http.post("/v1/agents/ann/uncordon", json=WHY)
    assert await gate(system) is Gate.OPEN


async def test_a_turn_is_taken_from_its_worker_and_put_back_to_the_front(
    http: httpx2.AsyncClient, system: System
) -> None:
    first, second = [
        (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": number})).json()["turn_id"]
        for number in range(2)
    ]
    revoked: list[object] = []
    session = await system.turns.open([ANN], on_revoke=revoked.append)
    (grant,) = await session.claim(1, 5.0)
    assert grant.turn.turn_id == first
    assert (await http.post(f"/v1/turns/{first}/requeue", json={})).status_code == 422, "a reason is needed"
    rehearsed = await http.post(f"/v1/turns/{first}/requeue", params={"dry_run": "true"}, json=WHY)
    assert rehearsed.json()["agents"][0]["active_turn_id"] == first
    assert not revoked
    back = await http.post(f"/v1/turns/{first}/requeue", json={"reason": "it hangs", "actor": "bea"})
    assert (back.status_code, back.json()["turn_id"]) == (200, first), back.text
    assert back.json()["epoch"] > grant.epoch
    with pytest.raises(StaleEpoch):
        await session.deliver(grant, status=Outcome.SUCCESS, result=to_json("late"))
    (again,) = await session.claim(1, 5.0)
    assert (again.turn.turn_id, again.epoch) == (first, back.json()["epoch"])
    waiting = (await http.post(f"/v1/turns/{second}/requeue", json=WHY)).json()
    assert (waiting["code"], waiting["status"]) == ("turn_inactive", 409)
    await session.deliver(again, status=Outcome.SUCCESS, result=to_json("done"))
    ended = await http.post(f"/v1/turns/{first}/requeue", json=WHY)
    assert (ended.json()["code"], "it is ended" in ended.json()["detail"]) == ("turn_inactive", True)
    unknown = await http.post(f"/v1/turns/{'turn_' + '0' * 24}/requeue", json=WHY)
    assert unknown.json()["code"] == "turn_unknown"
    acts = (await http.get("/v1/audit", params={"q": "verb:requeue_turn outcome:done"})).json()["items"]
    assert [(act["actor"], act["reason"]) for act in acts] == [("bea", "it hangs")]


async def test_an_order_needs_a_reason_and_an_agent(http: httpx2.AsyncClient) -> None:
    for body in ({}, {"reason": ""}):
        assert (await http.post("/v1/agents/ann/cordon", json=body)).status_code == 422
    assert (await http.post("/v1/agents/nobody/cordon", json=WHY)).json()["code"] == "agent_unknown"
    assert (await http.post("/v1/agents/nobody/uncordon", json=WHY)).json()["code"] == "agent_unknown"


# --- once --------------------------------------------------------------------------------------------------------


async def test_a_repeated_order_is_answered_as_it_was(http: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": "once"}
    first = await http.post("/v1/agents/ann/quarantine", json=WHY, headers=headers)
    assert first.status_code == 200, first.text
    await http.post("/v1/agents/ann/release", json=WHY)
    again = await http.post("/v1/agents/ann/quarantine", json=WHY, headers=headers)
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert (await http.get("/v1/agents/ann/health")).json()["phase"] != "quarantined"
    other = await http.post("/v1/agents/ann/quarantine", json={"reason": "x"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    elsewhere = await http.post("/v1/agents/ann/cordon", json=WHY, headers=headers)
    assert elsewhere.status_code == 422, "a key belongs to one request, path included"


async def test_what_failed_may_be_tried_again_under_its_key(http: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": "later"}
    assert (await http.post("/v1/agents/bob/cordon", json=WHY, headers=headers)).status_code == 404
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "bob"})
    assert (await http.post("/v1/agents/bob/cordon", json=WHY, headers=headers)).status_code == 200


async def test_many_at_once_do_it_once(http: httpx2.AsyncClient) -> None:
    orders = [http.post("/v1/agents/ann/cordon", json=WHY, headers={"idempotency-key": "together"}) for _ in range(6)]
    answers = await asyncio.gather(*orders)
    codes = {answer.status_code for answer in answers}
    assert codes <= {200, 409}
    acts = [act for act in (await http.get("/v1/audit")).json()["items"] if act["verb"] == "cordon_agent"]
    assert [act["outcome"] for act in acts] == ["done", "requested"]


async def test_a_secret_is_in_one_answer_only(http: httpx2.AsyncClient) -> None:
    body, headers = {"name": "x", "role": "viewer"}, {"idempotency-key": "key"}
    assert (await http.post("/v1/keys", json=body, headers=headers)).status_code == 201
    again = await http.post("/v1/keys", json=body, headers=headers)
    assert (again.status_code, again.json()["code"]) == (409, "secret_not_kept")
    assert len((await http.get("/v1/keys")).json()["keys"]) == 1


async def test_every_post_is_kept_by_somebody() -> None:
    names = {one.name for one in table_of() if one.method == "POST"}
    assert names >= SEE_TO_IT_THEMSELVES, "these are no routes"


# --- versions ----------------------------------------------------------------------------------------------------


async def test_a_policy_that_was_changed_meanwhile_is_not_overwritten(http: httpx2.AsyncClient) -> None:
    path, body = "/v1/policies/calm", {"action": "rate_limit", "requests_per_minute": 60}
    made = await http.put(path, json=body, headers={"if-match": '"none"'})
    assert made.status_code == 200, made.text
    seen = (await http.get(path)).headers["etag"]
    assert made.headers["etag"] == seen
    await http.put(path, json=body | {"requests_per_minute": 30})
    stale = await http.put(path, json=body | {"requests_per_minute": 10}, headers={"if-match": seen})
    assert (stale.status_code, stale.json()["code"]) == (412, "version_stale")
    assert stale.json()["current"]["requests_per_minute"] == 30
    assert (await http.delete(path, headers={"if-match": seen})).status_code == 412
    fresh = await http.put(path, json=body | {"requests_per_minute": 10}, headers={"if-match": stale.json()["etag"]})
    assert fresh.status_code == 200
    assert (await http.delete(path, headers={"if-match": fresh.headers["etag"]})).status_code == 204


async def test_of_several_who_saw_the_same_version_one_changes_it(http: httpx2.AsyncClient) -> None:
    path = "/v1/budgets/agent/ann"
    await http.put(path, json={"usd": 1.0})
    seen = (await http.get(path)).headers["etag"]
    changes = [http.put(path, json={"usd": usd}, headers={"if-match": seen}) for usd in (2.0, 3.0, 4.0)]
    answers = await asyncio.gather(*changes)
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412]


# --- rehearsed ---------------------------------------------------------------------------------------------------


ON_AGENTS = sorted(verb for verb, effect in EFFECTS.items() if effect.reach in (_named_agent, _turns_agent))


@pytest.mark.parametrize("verb", ON_AGENTS)
async def test_a_rehearsal_tells_whom_it_would_reach_and_does_nothing(
    http: httpx2.AsyncClient, system: System, verb: str
) -> None:
    sent = (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1})).json()
    await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 2})
    endpoint = next(one for one in table_of() if one.name == verb)
    path = endpoint.path.replace("{agent_id}", "ann").replace("{turn_id}", sent["turn_id"])
    answer = await http.post(f"{path}?dry_run=true", json=WHY)
    assert answer.status_code == endpoint.status, answer.text
    told = answer.json()
    assert told["dry_run"]
    assert told["agents"] == [
        {
            "agent_id": "ann",
            "phase": "initializing",
            "gate": "open",
            "active_turn_id": sent["turn_id"],
            "queued": 1,
            "open_calls": 0,
        }
    ]
    assert await gate(system) is Gate.OPEN
    assert (await http.get("/v1/agents/ann")).status_code == 200
    assert (await http.get("/v1/audit")).json()["items"] == []
    unknown = path.replace("ann", "nobody").replace(sent["turn_id"], "turn_" + "0" * 24)
    assert (await http.post(f"{unknown}?dry_run=true", json=WHY)).status_code == 404


@pytest.mark.parametrize("path", ["/v1/runs/{run_id}/kill", "/v1/runs/{run_id}/pause", "/v1/red-button"])
async def test_the_end_of_runs_is_rehearsed(http: httpx2.AsyncClient, path: str) -> None:
    """Told are the runs and what they have in hand; they go on, and no button is pressed."""
    begun = [
        (
            await http.post("/v1/runs", json={"goal": goal, "tasks": [{"name": "it", "agent": "ann", "input": {}}]})
        ).json()
        for goal in ("one", "two")
    ]
    run_id = begun[0]["run_id"]
    where = path.replace("{run_id}", run_id)
    answer = await http.post(f"{where}?dry_run=true", json=WHY)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["dry_run"]
    met = {one["goal"] for one in told["runs"]}
    assert met == ({"one", "two"} if "red-button" in path else {"one"})
    assert sum(told["runs"][0]["tasks"].values()) == 1
    assert (await http.get(f"/v1/runs/{run_id}")).json()["status"] in ("planned", "applying")
    assert (await http.get("/v1/red-button")).json()["pressed"] == []
    if "{run_id}" in path:
        assert (await http.post(f"{path.replace('{run_id}', 'run_no')}?dry_run=true", json=WHY)).status_code == 404
        await http.post(f"/v1/runs/{run_id}/kill", json=WHY)
        over = await http.post(f"{where}?dry_run=true", json=WHY)
        assert (over.status_code, over.json()["code"]) == (409, "run_finished")


async def test_what_cannot_be_rehearsed_is_not_done_either(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/ann/cordon", json=WHY)
    answer = await http.post("/v1/agents/ann/uncordon?dry_run=true", json=WHY)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert (await http.get("/v1/agents/ann/cordon")).json()["cordoned"]


async def test_what_stops_something_can_be_rehearsed() -> None:
    for verb in EFFECTS:
        assert TABLE[verb].dry_run
