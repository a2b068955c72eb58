"""Remedies in force: what an agent works under, who may end it, and what is left."""

import httpx2

from homeostat.adapters.remedies.gateway import GatewayRemedies
from homeostat.app.assemble import System
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import TREATMENT_SECONDS
from homeostat.core.ports.memory import TREATED
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
