"""Why, for everything that has one: cause, evidence, decision and effect in the server's words; pages of errors."""

import html.parser
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.immune import Diagnosis, Spread
from homeostat.core.wire.immune import EvidenceShape, HealthShape, HypothesisShape, IncidentShape, StepShape
from homeostat.server.error_pages import error_kinds
from homeostat.server.why import of_agent
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


@pytest.fixture(autouse=True)
async def ann(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})


async def why(http: httpx2.AsyncClient, noun: str, thing: str) -> Json:
    answer = await http.get(f"/v1/why/{noun}/{thing}")
    assert answer.status_code == 200, answer.text
    told: Json = answer.json()
    parts = [told[part] for part in ("cause", "evidence", "decision", "effect") if told[part]]
    assert told["text"] == " ".join(parts)
    assert told["cause"]
    return told


async def test_a_run_says_who_brought_it_where_it_is(http: httpx2.AsyncClient) -> None:
    begun = await http.post(
        "/v1/runs",
        json={"goal": "the weekly report", "tasks": [{"name": "it", "agent": "ann", "input": {}}], "actor": "bea"},
    )
    run_id = begun.json()["run_id"]
    await http.post(f"/v1/runs/{run_id}/pause", json={"reason": "prices are wrong", "actor": "cid"})
    told = await why(http, "runs", run_id)
    assert "the weekly report" in told["cause"]
    assert "begun by bea" in told["cause"]
    assert "paused" in told["decision"]
    assert "by cid: prices are wrong" in told["decision"]
    assert "resume" in told["effect"]
    await http.post(f"/v1/runs/{run_id}/kill", json={"reason": "enough", "actor": "cid"})
    assert "killed" in (await why(http, "runs", run_id))["decision"]


async def test_a_run_that_is_held_says_what_was_handed_out_before(http: httpx2.AsyncClient) -> None:
    tasks = [{"name": "it", "agent": "ann", "input": {}}]
    run_id = (await http.post("/v1/runs", json={"goal": "the report", "tasks": tasks})).json()["run_id"]

    async def queued() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["tasks"] == {"queued": 1}

    async def rests() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["at_rest"]

    await eventually(queued)
    await http.post(f"/v1/runs/{run_id}/pause", json={"reason": "prices are wrong"})
    said = (await why(http, "runs", run_id))["evidence"]
    assert "Task it was handed to ann before" in said
    assert f"homeostat pause {run_id} --force holds it back" in said
    await http.post(f"/v1/runs/{run_id}/pause", json={"reason": "prices are wrong", "force": True})
    await eventually(rests)
    assert "was handed to" not in (await why(http, "runs", run_id))["evidence"]


async def test_what_waits_for_an_agent_that_left_says_so(http: httpx2.AsyncClient) -> None:
    tasks = [{"name": "it", "agent": "ann", "input": {}}]
    run_id = (await http.post("/v1/runs", json={"goal": "the report", "tasks": tasks})).json()["run_id"]

    async def queued() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["tasks"] == {"queued": 1}

    await eventually(queued)
    turn_id = (await http.get(f"/v1/runs/{run_id}/tasks/it")).json()["turn_id"]
    for noun, thing in (("runs", run_id), ("turns", turn_id)):
        assert "has left" not in (await why(http, noun, thing))["text"]
    assert (await http.post("/v1/agents/ann/deregister")).is_success
    assert "waits for ann, which has left the fleet" in (await why(http, "runs", run_id))["evidence"]
    assert "ann has left the fleet" in (await why(http, "turns", turn_id))["effect"]
    assert (await http.post(f"/v1/turns/{turn_id}/stop", json={"reason": "it will not come back"})).is_success

    async def failed() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["status"] == "failed"

    await eventually(failed)
    assert "has left" not in (await why(http, "runs", run_id))["text"]


async def test_what_waits_for_an_agent_that_is_held_says_so(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "bob"})
    tasks = [{"name": f"{name}{n}", "agent": name, "input": {}} for n in range(3) for name in ("ann", "bob")]
    run_id = (await http.post("/v1/runs", json={"goal": "the report", "tasks": tasks})).json()["run_id"]

    async def queued() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["tasks"] == {"queued": 6}

    await eventually(queued)
    assert "gate" not in (await why(http, "runs", run_id))["text"]
    said = {"reason": "it mails customers", "actor": "eve"}
    assert (await http.post("/v1/agents/ann/cordon", json=said)).is_success
    told = await why(http, "runs", run_id)
    assert (
        "3 tasks wait at the gate of ann, which is draining (cordoned by eve: it mails customers)" in told["evidence"]
    )
    assert "It goes on" in told["effect"], "bob can"
    assert told["waits_for"] == []
    turn_id = (await http.get(f"/v1/runs/{run_id}/tasks/ann0")).json()["turn_id"]
    assert (
        "waits at the gate of ann, which is draining (cordoned by eve: it mails customers)"
        in (await why(http, "turns", turn_id))["effect"]
    )
    assert (await http.post("/v1/agents/bob/cordon", json=said)).is_success
    told = await why(http, "runs", run_id)
    assert "It stands still" in told["effect"]
    assert told["waits_for"] == ["ann", "bob"]
    assert (await http.get(f"/v1/runs/{run_id}")).json()["waits_for"] == ["ann", "bob"]
    assert (await http.post("/v1/agents/ann/uncordon", json=said)).is_success
    assert "the gate of ann" not in (await why(http, "runs", run_id))["text"]


async def test_an_agent_and_its_incident_say_what_was_seen_and_done(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/ann/quarantine", json={"reason": "it mails customers", "actor": "bea"})
    told = await why(http, "agents", "ann")
    assert "by bea: it mails customers" in told["cause"]
    listed = (await http.get("/v1/immune/incidents")).json()["incidents"]
    for incident in listed:
        assert incident["incident_id"] in (await why(http, "incidents", incident["incident_id"]))["cause"]


async def test_an_incident_says_what_was_passed_over_and_on_whose_word(
    http: httpx2.AsyncClient, system: System
) -> None:
    veto = {"diagnosis": "unknown", "action": "reset_memory", "reason": "it has notes", "actor": "eve"}
    assert (await http.post("/v1/immune/memory/veto", json=veto)).is_success
    await http.post("/v1/agents/ann/quarantine", json={"reason": "it is odd", "actor": "bea"})
    assert "Nobody knows the cause yet." in (await why(http, "agents", "ann"))["text"]
    while (await http.get("/v1/agents/ann/health")).json()["phase"] == "draining":
        await system.immune.tick()
    healed = await http.post("/v1/agents/ann/heal", json={"reason": "try", "actor": "bea"})
    assert healed.is_success, healed.text
    (incident,) = (await http.get("/v1/immune/incidents")).json()["incidents"]
    told = await why(http, "incidents", incident["incident_id"])
    assert told["decision"].startswith("reset memory against unknown was vetoed by eve: it has notes. reduce autonomy")


async def test_a_turn_says_who_asked_and_how_it_ended(http: httpx2.AsyncClient, system: System) -> None:
    sent = (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1})).json()
    assert "asked for from outside" in (await why(http, "turns", sent["turn_id"]))["cause"]
    async with crew(system.kernel, "ann"):
        await http.get(f"/v1/turns/{sent['turn_id']}/deliverable", params={"wait": 10})
    assert "It ended at" in (await why(http, "turns", sent["turn_id"]))["effect"]


async def test_a_call_says_what_it_cost(http: httpx2.AsyncClient) -> None:
    key = (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "bob"})).json()["api_key"]
    body = {"model": "sim-1", "messages": [{"role": "user", "content": "hello"}]}
    answer = await http.post("/openai/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code < 600
    calls = (await http.get("/v1/calls", params={"q": "agent:bob"})).json()["calls"]
    assert calls
    for one in calls:
        assert (await http.get(f"/v1/calls/{one['call_id']}")).json() == one
        told = await why(http, "calls", one["call_id"])
        assert "bob asked sim-1" in told["cause"]
        assert told["effect"]


@pytest.mark.parametrize("noun", ["agents", "runs", "turns", "incidents", "approvals", "calls"])
async def test_what_does_not_exist_has_no_why(http: httpx2.AsyncClient, noun: str) -> None:
    name = "turn_" + "0" * 24 if noun == "turns" else "nobody"
    assert (await http.get(f"/v1/why/{noun}/{name}")).status_code == 404


# --- pages of errors -----------------------------------------------------------------------------------------------


class _Text(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.add(tag)


async def test_every_code_has_its_page(http: httpx2.AsyncClient) -> None:
    assert len(error_kinds()) > 90
    for code in error_kinds():
        page = await http.get(f"/errors/{code}")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), code
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert code in page.text
        read = _Text()
        read.feed(page.text)
        assert "script" not in read.tags
    assert (await http.get("/errors/no_such_code")).status_code == 404


async def test_the_type_of_a_problem_leads_to_its_page(http: httpx2.AsyncClient, url: str) -> None:
    refused = await http.get("/v1/agents/nobody")
    told = refused.json()
    assert {"code", "hint", "trace_id", "detail", "status"} <= set(told)
    page = await http.get(httpx2.URL(f"{url}/v1/agents/nobody").join(told["type"]))
    assert page.status_code == 200
    assert "What to do" in page.text


async def test_what_was_measured_is_told_once() -> None:
    at = "2026-11-16T15:59:34.070Z"
    cost, slow = "cost is $0.003, 125 times the usual", "it answers late; it repeats itself"

    def seen(kind: str, why: str, sigma: float) -> EvidenceShape:
        return EvidenceShape(
            kind=kind, sigma=sigma, at=at, why=why, vital="", value=None, expected=None, source="gateway"
        )

    def step(source: Phase, event: PhaseEvent, target: Phase, cause: str, actor: str = "immune system") -> StepShape:
        return StepShape(
            at=at, source=source, event=event, target=target, cause=cause, actor=actor, incident_id="inc_1", evidence=()
        )

    guess = HypothesisShape(diagnosis=Diagnosis.COST_OVERRUN, confidence=0.72, because=(cost,))
    incident = IncidentShape(
        incident_id="inc_1",
        agent_id="ann",
        opened_at=at,
        closed_at=None,
        spread=Spread.AGENT_SPECIFIC,
        cohort="type t",
        agents=(),
        sigma=14.0,
        evidence=[
            seen("cost_spike", cost, 14),
            seen("cost_spike", "cost is $0.002", 9),
            seen("latency_spike", slow, 8),
        ],
        hypotheses=[guess],
        treatments=[],
        passed_over=(),
        outcome="",
        held=0,
        resumed=0,
        lost=0,
    )
    health = HealthShape(
        agent_id="ann",
        phase=Phase.QUARANTINED,
        since=at,
        cause=f"{cost}; {slow}",
        actor="immune system",
        sigma=14.0,
        quarantines=1,
        incident=incident,
        baseline=[],
        history=[
            step(Phase.DRAINING, PhaseEvent.DRAINED, Phase.QUARANTINED, "nothing is in flight"),
            step(Phase.HEALTHY, PhaseEvent.ESCALATE, Phase.DRAINING, f"{cost}; {slow}"),
        ],
        killed=False,
        receipt=None,
    )
    text = of_agent(health).text
    assert text.startswith("ann is quarantined since 15:59:34 UTC on 2026-11-16, by immune system.")
    assert (text.count(cost), text.count(slow), text.count("$0.002")) == (1, 1, 0)
    assert "cost overrun (72%)" in text
    assert text.endswith("It came to this by draining → quarantined (nothing is in flight).")
