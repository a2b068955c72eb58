"""Health over HTTP: what comes in, what is refused, and what operators may do."""

import httpx2

from homeostat.app.assemble import System
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import PhaseEvent
from homeostat.core.records.immune import Approval, ApprovalId, Chart, Diagnosis, IncidentId, RemedyAction


async def register(http: httpx2.AsyncClient, agent_id: str = "ann") -> str:
    answer = await http.post("/v1/agents/register", json={"agent_type": "worker", "agent_id": agent_id})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["api_key"]


async def test_vitals_come_in_and_what_cannot_be_true_is_counted(http: httpx2.AsyncClient, system: System) -> None:
    key = await register(http)
    body = {"agent_id": "ann", "samples": [{"latency_ms": 5.0}, {"latency_ms": -1}, {"at": "2001-01-01T00:00:00Z"}]}
    taken = await http.post("/v1/vitals", json=body, headers={"authorization": f"Bearer {key}"})
    assert taken.status_code == 202
    assert taken.json() == {"accepted": 1, "refused": {"implausible": 1, "ancient": 1}}
    assert await system.immune.tick() == 1
    other = await register(http, "bob")
    foreign = await http.post("/v1/vitals", json=body, headers={"authorization": f"Bearer {other}"})
    assert foreign.status_code == 403
    unknown = await http.post("/v1/vitals", json={**body, "agent_id": "nobody"})
    assert unknown.status_code == 404
    broken = await http.post("/v1/vitals", content=b'{"agent_id": "ann", "samples": [{"latency_ms": NaN}]}')
    assert broken.status_code == 422


async def test_an_operator_isolates_and_releases_and_the_story_is_told(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    refused = await http.post("/v1/agents/ann/quarantine", json={}, headers={"authorization": f"Bearer {key}"})
    assert refused.status_code == 403, "agents do not isolate each other"
    held = await http.post("/v1/agents/ann/quarantine", json={"reason": "it mails customers", "actor": "eve"})
    assert held.status_code == 200
    assert held.json()["phase"] in ("draining", "quarantined")
    assert (await http.get("/v1/agents/ann")).json()["phase"] == held.json()["phase"]
    again = await http.post("/v1/agents/ann/quarantine", json={})
    assert again.status_code == 409
    metrics = (await http.get("/metrics")).text
    assert 'homeostat_immune_phase_changes_total{event="order_quarantine",phase="draining"} 1.0' in metrics
    assert 'homeostat_immune_agents{phase="healthy"} 0.0' in metrics
    assert "ann" not in "".join(line for line in metrics.splitlines() if "immune" in line), "agents are no labels"
    (incident,) = (await http.get("/v1/immune/incidents")).json()["incidents"]
    assert (await http.get(f"/v1/immune/incidents/{incident['incident_id']}")).json() == incident
    assert (await http.get("/v1/immune/incidents/none")).json()["code"] == "incident_unknown"
    freed = await http.post("/v1/agents/ann/release", json={"reason": "it was a test"})
    assert freed.json()["phase"] == "probation"
    story = (await http.get("/v1/agents/ann/health")).json()["history"]
    assert [(step["event"], step["actor"], step["cause"]) for step in story][-1] == (
        "order_quarantine",
        "eve",
        "it mails customers",
    )
    assert (await http.post("/v1/agents/nobody/heal", json={})).status_code == 404


async def test_an_open_incident_says_what_waits_and_a_closed_chapter_what_was_held(http: httpx2.AsyncClient) -> None:
    await register(http)
    await http.post("/v1/agents/ann/quarantine", json={"reason": "a look inside"})
    for _ in range(2):
        assert (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {}})).status_code == 202
    (incident,) = (await http.get("/v1/immune/incidents")).json()["incidents"]
    counted = (incident["held"], incident["resumed"], incident["lost"])
    assert counted == (2, 0, 0)
    assert (await http.get("/v1/agents/ann/health")).json()["incident"] == incident
    told = (await http.get(f"/v1/why/incidents/{incident['incident_id']}")).json()["text"]
    assert "2 messages waiting, 0 lost." in told
    await http.post("/v1/agents/ann/release", json={"reason": "seen"})
    freed = (await http.get(f"/v1/immune/incidents/{incident['incident_id']}")).json()
    assert (freed["held"], freed["resumed"], freed["lost"]) == (2, 2, 0)


async def test_feedback_is_about_an_incident_and_unknown_causes_are_refused(http: httpx2.AsyncClient) -> None:
    await register(http)
    said = {"agent_id": "ann", "actual_cause": "provider_outage", "notes": "five minutes"}
    assert (await http.post("/api/feedback", json=said)).status_code == 422, "there was no incident"
    await http.post("/v1/agents/ann/quarantine", json={})
    assert (await http.post("/api/feedback", json={**said, "actual_cause": "bad luck"})).status_code == 422
    taken = await http.post("/api/feedback", json=said)
    assert taken.status_code == 201
    (kept,) = (await http.get("/v1/immune/memory")).json()["feedback"]
    assert kept == taken.json()
    gone = await http.delete(f"/api/feedback/{kept['feedback_id']}")
    assert gone.json()["withdrawn"] is True
    assert (await http.delete("/api/feedback/none")).json()["code"] == "feedback_unknown"
    assert (await http.post("/v1/immune/approvals/none/approve", json={})).json()["code"] == "approval_unknown"
    assert (await http.post("/v1/immune/approvals/approve-all", json={})).json() == {"approved": [], "settled": []}


async def test_an_isolated_agent_that_registers_again_stays_isolated(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    held = (await http.post("/v1/agents/ann/quarantine", json={"reason": "trial"})).json()["phase"]
    said = {"agent_type": "worker", "agent_id": "ann", "api_key": key}
    again = await http.post("/v1/agents/register", json=said, headers={"authorization": f"Bearer {key}"})
    assert again.json()["api_key"] == key
    row = (await http.get("/v1/agents/ann")).json()
    assert row["phase"] in (held, "quarantined"), "a restart is no release"


async def test_a_cure_is_tried_on_what_is_logged_before_anybody_says_yes(
    http: httpx2.AsyncClient, system: System
) -> None:
    said = {"authorization": f"Bearer {await register(http)}"}
    tools = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
    body = {"model": "gpt-4o-mini", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}
    for asked in (body, body, body | {"max_tokens": 4_000}, body | {"tools": tools}):
        answer = await http.post("/openai/v1/chat/completions", json=asked, headers=said)
        assert answer.status_code == 200, answer.text
    now = system.clock.now_ms()
    told: list[str] = []
    for action in (RemedyAction.REDUCE_AUTONOMY, RemedyAction.REVOKE_TOOLS, RemedyAction.RESET_AGENT):
        question = Approval(
            approval_id=ApprovalId(f"apr_{action}"),
            project=DEFAULT_PROJECT,
            agent_id=AgentId("ann"),
            incident_id=IncidentId("inc_1"),
            action=action,
            diagnosis=Diagnosis.COST_OVERRUN,
            sigma=7.0,
            evidence_digest="",
            why="it costs too much",
            asked_at_ms=now,
            expires_at_ms=Millis(now + 1_000_000),
        )
        assert await system.immune.store.save(Chart(asked=(question,)))
        path = f"/v1/immune/approvals/{question.approval_id}/approve"
        rehearsed = await http.post(path, params={"dry_run": "true"}, json={})
        assert rehearsed.status_code == 200, rehearsed.text
        told.append(rehearsed.json()["rehearsal"])
    assert told[0].startswith(
        "Of its last 4 calls, as a rate limit it would have refused 2 and trimmed 0; as a token cap"
    )
    assert told[1].startswith("Of its last 4 calls, as a tool filter it would have refused 0 and trimmed")
    assert told[2] == "", "nobody can tell what a restart would have done"
    assert (await http.get("/v1/policies")).json()["policies"] == [], "nothing was done"


async def test_whoever_says_yes_to_everybody_is_not_stopped_by_one_who_was_killed(
    http: httpx2.AsyncClient, system: System
) -> None:
    immune = system.immune
    for name in ("ann", "bob"):
        await register(http, name)
        watch = await immune.watch_of((DEFAULT_PROJECT, AgentId(name)))
        watch.sigma = 9.0
        incident, order = immune.orchestrator.diagnose(watch), PhaseEvent.ORDER_QUARANTINE
        async with immune.deciding:
            assert await immune.orchestrator.order(watch, order, incident=incident, cause="it costs")
            await immune.healer.step(watch)
    await http.post("/v1/agents/ann/kill", json={"reason": "it mails customers", "actor": "eve"})
    said = await http.post("/v1/immune/approvals/approve-all", json={"reason": "all of them", "actor": "eve"})
    assert said.status_code == 200, said.text
    assert [one["agent_id"] for one in said.json()["approved"]] == ["bob"]
    await immune.tick()
    assert (await http.get("/v1/immune/approvals", params={"status": "pending"})).json()["approvals"] == []
