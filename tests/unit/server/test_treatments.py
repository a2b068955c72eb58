"""Remedies in force: what an agent works under, who may end it, and what is left."""

import httpx2

from homeostat.adapters.remedies.gateway import GatewayRemedies
from homeostat.app.assemble import System
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import TREATMENT_SECONDS, TREATMENTS_KEPT_MAX
from homeostat.core.ports.memory import CLEARED, TREATED
from homeostat.core.records.immune import RemedyAction

KEY = (DEFAULT_PROJECT, AgentId("ann"))
PATH = "/v1/agents/ann/treatments"


async def _note(system: System, note: Json) -> None:
    await system.memory.keep(KEY, {TREATED: note, "name": to_json("Ann")}, system.clock.now_ms())


async def test_remedies_are_listed_and_lifted_one_or_all(http: httpx2.AsyncClient, system: System) -> None:
    assert (await http.get(PATH)).json()["code"] == "agent_unknown"
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})
    assert (await http.get(PATH)).json()["treatments"] == []
    now = system.clock.now_ms()
    over = now - int(TREATMENT_SECONDS * 1000) - 1
    await _note(system, to_json([["rollback_prompt", over], ["revoke_tools", now], ["reduce_autonomy", now]]))
    remedies = GatewayRemedies(policies=system.gateway, memory=system.memory, clock=system.clock)
    await remedies.apply(KEY, RemedyAction.REDUCE_AUTONOMY, "it costs too much")
    found = (await http.get(PATH)).json()["treatments"]
    told = sorted((one["action"], one["kept_by"]) for one in found)
    by_rules = [("reduce_autonomy", "gateway")] * 2
    assert told == [("reduce_autonomy", "agent"), *by_rules, ("revoke_tools", "agent")], "what is over is not in force"
    body = {"action": "reduce_autonomy", "reason": "a new release", "actor": "bea"}
    lifted = (await http.post(f"{PATH}/lift", json=body)).json()["lifted"]
    assert [one["action"] for one in lifted] == ["reduce_autonomy"] * 3
    left = (await http.get(PATH)).json()["treatments"]
    assert [one["action"] for one in left] == ["revoke_tools"]
    assert not (await http.get("/v1/policies")).json()["policies"]
    await http.post(f"{PATH}/lift", json={"reason": "a new release", "actor": "bea"})
    assert (await http.get(PATH)).json()["treatments"] == []
    assert await system.memory.recall(KEY) == {"name": '"Ann"'}, "what it remembers otherwise is its own"
    act = (await http.get("/v1/audit", params={"limit": 1})).json()["items"][0]
    assert (act["verb"], act["actor"], act["object"]) == ("lift_treatments", "bea", "agent/ann")


async def test_what_an_agent_wrote_there_itself_breaks_nothing(http: httpx2.AsyncClient, system: System) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})
    for note in ('"x"', "[1]", '[["rm -rf", 1]]', '[["revoke_tools", "soon"]]'):
        await _note(system, Json(note))
        assert (await http.get(PATH)).json()["treatments"] == []
        assert (await http.post(f"{PATH}/lift", json={"reason": "x"})).json()["lifted"] == []


async def test_an_agent_may_add_to_its_remedies_and_erase_none(http: httpx2.AsyncClient, system: System) -> None:
    enrolled = (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})).json()
    await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {}})
    now = system.clock.now_ms()
    over = now - int(TREATMENT_SECONDS * 1000) - 1
    held = ["revoke_tools", now]
    await _note(system, to_json([["rollback_prompt", over], held]))
    own = {"authorization": f"Bearer {enrolled['api_key']}"}

    async def patch(**body: object) -> tuple[int, str]:
        answer = await http.patch("/v1/agents/ann/memory", json=body, headers=own)
        return answer.status_code, answer.json()["code"] if answer.content else ""

    kept = (403, "treatment_kept")
    assert await patch(forget=[TREATED]) == kept
    assert await patch(forget=[TREATED, "name"]) == kept, "all of it or nothing"
    assert await patch(set={TREATED: []}) == kept
    assert await patch(set={TREATED: [["revoke_tools", now - 1]]}) == kept, "nor make it end sooner"
    assert await patch(set={TREATED: "x"}) == (422, "malformed_payload")
    flood = [["reset_memory", now + number] for number in range(200)]
    assert await patch(set={TREATED: flood}) == kept, "nor push it out"
    assert await patch(set={CLEARED: "x"}) == kept
    assert (await system.memory.recall(KEY)).keys() == {TREATED, "name"}
    assert await patch(set={TREATED: [held, ["reduce_autonomy", now]]}) == (204, ""), "a worker notes what it applied"
    many = [["revoke_tools", now + number] for number in range(TREATMENTS_KEPT_MAX + 1)]
    assert await patch(set={TREATED: [["reduce_autonomy", now], *many[1:]]}) == (204, ""), "its oldest note had to go"
    found = (await http.get(PATH)).json()["treatments"]
    assert {one["action"] for one in found} == {"revoke_tools", "reduce_autonomy"}


async def test_who_drops_the_order_to_forget_has_forgotten(http: httpx2.AsyncClient, system: System) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})
    await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {}})
    note = to_json([["revoke_tools", system.clock.now_ms()]])
    await _note(system, note)
    await system.memory.keep(KEY, {CLEARED: to_json("it was told lies")}, system.clock.now_ms())
    assert (await http.patch("/v1/agents/ann/memory", json={"forget": [CLEARED]})).status_code == 204
    assert await system.memory.recall(KEY) == {TREATED: note}
