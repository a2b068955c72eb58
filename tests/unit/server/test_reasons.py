"""What operators give as a reason is told to many and kept for ever: without the secrets they typed into it."""

import json
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.run import RunConfig, TaskSpec
from homeostat.testing.crews import crew, eventually

SAID = "rotated, the old password: hunter2, was in the log"
KEPT = "rotated, the old password: [redacted], was in the log"

Json = dict[str, Any]


@pytest.fixture
async def heard(system: System) -> list[Event]:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    for component in ("run", "agent", "gateway", "immune"):
        await system.bus.subscribe(subject("*", Channel.EVT, component, "*", "*"), hear)
    return heard


async def done(http: httpx2.AsyncClient, method: str, path: str, **body: Any) -> Json:
    if method == "DELETE":
        answer = await http.delete(path, params={"reason": SAID, **body})
    else:
        answer = await http.request(method, path, json={"reason": SAID, **body})
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else {}


async def test_a_runs_reasons_are_told_kept_and_hashed_without_secrets(
    system: System, http: httpx2.AsyncClient, heard: list[Event]
) -> None:
    task = {"name": "a", "agent": "ann", "approval": True}
    async with crew(system.kernel, "ann"):
        run = await done(http, "POST", "/v1/runs", goal="x", tasks=[task], policy={"apply": "manual"})
        path = f"/v1/runs/{run['run_id']}"
        for verb in ("pause", "resume", "pause", "kill"):
            assert (await done(http, "POST", f"{path}/{verb}"))["moved"]["reason"] == KEPT
    await done(http, "POST", "/v1/red-button", project="billing")
    assert (await http.get("/v1/red-button")).json()["pressed"][0]["reason"] == KEPT
    await done(http, "DELETE", "/v1/red-button", project="billing")
    told = [json.loads(event.payload) for event in heard if event.suffix == "moved"]
    assert {one["reason"] for one in told} >= {KEPT}
    assert "hunter2" not in (await http.get(f"{path}/ledger")).text
    assert "hunter2" not in "".join(event.payload for event in heard)
    audit = (await http.get("/v1/audit")).text
    assert "hunter2" not in audit
    assert KEPT in audit


async def test_other_orders_are_told_without_secrets(
    system: System, http: httpx2.AsyncClient, heard: list[Event]
) -> None:
    async with crew(system.kernel, "ann"):
        await http.post("/v1/agents/register", json={"agent_id": "ann", "agent_type": "a", "version": "1"})
        await done(http, "PUT", "/v1/policies", action="block", agent_id="ann")
        await done(http, "POST", "/v1/agents/ann/cordon")
    assert "hunter2" not in (await http.get("/v1/policies")).text
    assert "hunter2" not in "".join(event.payload for event in heard)
    assert "hunter2" not in (await http.get("/v1/audit")).text
    assert "hunter2" not in (await http.get("/v1/agents/ann/head")).text


async def test_what_made_a_run_fail_is_told_without_secrets(
    system: System, http: httpx2.AsyncClient, heard: list[Event]
) -> None:
    async def careless(config: RunConfig) -> list[TaskSpec]:
        raise ValueError("no way to postgres://bob:hunter2@db")

    system.runs.add_planner("careless", careless)
    run = (await http.post("/v1/runs", json={"goal": "x", "planner": {"function": "careless"}})).json()

    async def over() -> bool:
        return (await http.get(f"/v1/runs/{run['run_id']}")).json()["at_rest"]

    await eventually(over)
    (failed,) = [one for event in heard if (one := json.loads(event.payload)).get("status") == "failed"]
    assert failed["reason"] == "ValueError: no way to postgres://[redacted]@db"
    assert "hunter2" not in "".join(event.payload for event in heard)
