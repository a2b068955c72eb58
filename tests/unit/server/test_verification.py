"""`verify --all` on a real installation: it holds while everybody works, and names whatever was tampered with."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.app.settings import Settings
from homeostat.app.verification import Report, verify_all
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, scope_of
from homeostat.core.records.enforcement import Effect
from homeostat.core.records.immune import (
    Applied,
    ApprovalId,
    Chart,
    Diagnosis,
    Incident,
    IncidentId,
    RemedyAction,
    Stance,
    Treatment,
)
from homeostat.testing.crews import crew, eventually

CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}

BACKDATED = (
    "UPDATE transitions SET transition = json_set(transition, '$.at_ms', transition ->> '$.at_ms' - 3600000) "
    "WHERE transition ->> '$.target' = 'draining'"
)
SERVED_AT = "(SELECT call ->> '$.started_at_ms' FROM calls WHERE agent_id = 'kim' AND outcome = 'answered')"
SHORT = (
    f"UPDATE transitions SET transition = json_set(transition, '$.at_ms', {SERVED_AT} - 3000) "
    "WHERE agent_id = 'kim' AND transition ->> '$.target' = 'draining'; "
    f"UPDATE transitions SET transition = json_set(transition, '$.at_ms', {SERVED_AT} - 2500) "
    "WHERE agent_id = 'kim' AND transition ->> '$.source' = 'draining'"
)
WORKED = (
    "UPDATE transitions SET transition = json_set(transition, '$.at_ms', transition ->> '$.at_ms' - 3600000) "
    "WHERE agent_id = 'ann'; "
    "UPDATE turns SET created_at_ms = created_at_ms - 7200000 WHERE agent_id = 'ann' AND seq = 1"
)
EXECUTED_TWICE = (
    "UPDATE turns SET correlation_id = (SELECT max(correlation_id) FROM turns WHERE run_id IS NOT NULL) "
    "WHERE run_id IS NOT NULL"
)
TAMPERED = [
    ("DELETE FROM heads", "always_an_unbroken_line"),
    ("DELETE FROM heads WHERE agent_id = 'ann'", "always_an_unbroken_line"),
    ("UPDATE cards SET content = replace(content, 'success', 'failed') WHERE position = 0", "always_true_cards"),
    ("UPDATE cards SET content = '{}' WHERE position = 0", "always_legible"),
    ("DELETE FROM cards WHERE position = 0", "always_every_turn_is_in_one_place"),
    ("DELETE FROM turns WHERE seq = 2 AND agent_id = 'ann'", "always_an_unbroken_line"),
    ("UPDATE turns SET seq = 9 WHERE seq = 2 AND agent_id = 'ann'", "always_an_unbroken_line"),
    ("DELETE FROM turns WHERE seq <= 2 AND agent_id = 'ann'", "always_an_unbroken_line"),
    ("UPDATE cards SET author = 'eve' WHERE position = 0", "always_true_cards"),
    ("UPDATE heads SET queued = 3 WHERE agent_id = 'ann'", "always_every_turn_is_in_one_place"),
    ("UPDATE heads SET epoch = 0", "always_growing_epochs"),
    ("UPDATE ledger SET lines = replace(lines, 'go', 'no') WHERE instr(lines, 'go')", "always_a_whole_ledger"),
    ("UPDATE ledger SET lines = '{}' WHERE first_seq > 1", "always_a_whole_ledger"),
    ("DELETE FROM ledger WHERE first_seq = (SELECT first_seq FROM ledger LIMIT 1 OFFSET 1)", "always_a_whole_ledger"),
    ("DELETE FROM ledger WHERE first_seq = (SELECT max(first_seq) FROM ledger)", "always_a_whole_ledger"),
    ("DELETE FROM runs", "always_a_run_to_each_ledger"),
    (EXECUTED_TWICE, "always_one_turn_for_one_attempt"),
    ("UPDATE budgets SET tokens_spent = 1000000", "always_within_the_cap"),
    ("UPDATE budgets SET tokens_spent = 0, started_at_ms = started_at_ms - 20000", "always_what_was_logged_is_spent"),
    ("UPDATE budgets SET tokens_held = 1", "always_what_is_held_is_somebodys"),
    ("UPDATE audit SET act = replace(act, 'bob', 'eve') WHERE instr(act, 'bob')", "always_a_whole_audit_log"),
    ("DELETE FROM audit WHERE seq = 2", "always_a_whole_audit_log"),
    (BACKDATED, "always_the_isolated_are_not_served"),
    (SHORT, "always_the_isolated_are_not_served"),
    (WORKED, "always_the_isolated_are_not_served"),
    ("DELETE FROM patients WHERE agent_id = 'kim'", "always_the_held_stay_held"),
    ("UPDATE heads SET gate = 'open', gate_reason = NULL WHERE agent_id = 'ann'", "always_the_held_stay_held"),
]


@pytest.fixture
async def past(system: System, http: httpx2.AsyncClient, tmp_path: Path) -> Path:
    """A little of everything: turns, a run with an approval, a call under a budget, a quarantine."""
    async with crew(system.kernel, "ann"):
        await http.post("/v1/agents/register", json={"agent_type": "test", "agent_id": "ann"})
        registered = await http.post("/v1/agents/register", json={"agent_type": "test", "agent_id": "kim"})
        await http.put("/v1/budgets/agent/kim", json={"tokens": 1_000})
        said = {"authorization": f"Bearer {registered.json()['api_key']}"}
        assert (await http.post("/openai/v1/chat/completions", json=CHAT, headers=said)).status_code == 200
        tasks = [{"name": name, "agent": "ann", "approval": name == "risky"} for name in ("first", "risky")]
        run = (await http.post("/v1/runs", json={"goal": "x", "tasks": tasks})).json()["run_id"]

        async def asked() -> bool:
            return "held" in (await http.get(f"/v1/runs/{run}")).json()["tasks"]

        async def ended() -> bool:
            return (await http.get(f"/v1/runs/{run}")).json()["status"] == "completed"

        await eventually(asked)
        await http.post(f"/v1/runs/{run}/tasks/risky/approve", json={"reason": "go", "actor": "bob"})
        await eventually(ended)
        await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {"number": 3}})
        for agent in ("kim", "ann"):
            assert (await http.post(f"/v1/agents/{agent}/quarantine", json={"reason": "odd"})).status_code < 300
        await eventually(lambda: _are_held(system))
        await system.gateway.clerk.flush()
    return tmp_path


async def _are_held(system: System) -> bool:
    holds = [hold for hold in await system.immune.enforcement.store.holds() if hold.wanted is Stance.CLOSED]
    return len(holds) >= 3 and all(hold.effect is Effect.ENFORCED for hold in holds)


async def verified(folder: Path, file: str = "homeostat.db") -> Report:
    return await verify_all(Settings(data_dir=folder, store_url=f"sqlite://{folder / file}"))


async def test_an_honest_installation_is_as_it_was_promised_while_it_works(past: Path) -> None:
    report = await verified(past)
    assert report.violations == []
    looked_at = {name for name, count in report.counts.items() if count}
    assert looked_at >= {"agents", "turns", "deliverables", "budgets", "runs", "ledger entries", "acts of operators"}
    assert report.counts["turns"] >= 3


async def test_a_cap_that_was_lowered_below_what_was_spent_is_not_broken_by_that(
    past: Path, http: httpx2.AsyncClient
) -> None:
    lowered = (await http.put("/v1/budgets/agent/kim", json={"tokens": 1})).json()
    assert lowered["tokens_spent"] > 1
    assert (await verified(past)).violations == []


async def test_turns_that_retention_took_are_not_missed(system: System, past: Path) -> None:
    store = system.kernel.store
    third = (await store.history(DEFAULT_PROJECT, AgentId("ann"), before=None, limit=1))[0].turn
    assert await store.expire(scope_of(third.turn_id), 9) == third.seq - 1 >= 2
    assert (await verified(past)).violations == []


async def test_a_ledger_that_left_the_store_in_its_time_is_not_missed(
    system: System, past: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system.runs.sweeper, "_retention_ms", -1_000)
    assert await system.runs.sweeper.tick() > 0
    report = await verified(past)
    assert (report.violations, report.counts["runs"], report.counts["ledger entries"]) == ([], 1, 0)


async def test_whatever_was_tampered_with_is_named(past: Path) -> None:
    for number, (statement, promise) in enumerate(TAMPERED):
        copied = sqlite3.connect(past / f"{number}.db")
        with closing(sqlite3.connect(past / "homeostat.db")) as real, closing(copied) as copy:
            real.backup(copy)
            for part in statement.split("; "):
                assert copy.execute(part).rowcount > 0, statement
            copy.commit()
        report = await verified(past, f"{number}.db")
        assert report.violations, statement
        assert report.violations[0].promise == promise, (statement, report.violations)


async def test_an_approval_that_was_used_twice_is_named(system: System, past: Path) -> None:
    (question,) = [ApprovalId("apr_1")]
    treatment = Treatment(
        action=RemedyAction.RESET_MEMORY,
        diagnosis=Diagnosis.UNKNOWN,
        applied=Applied.APPLIED,
        note="",
        at_ms=Millis(1),
        approval_id=question,
    )
    incident = Incident(
        incident_id=IncidentId("inc_1"),
        project=DEFAULT_PROJECT,
        agent_id=AgentId("kim"),
        opened_at_ms=Millis(1),
        treatments=(treatment, treatment),
    )
    assert await system.immune.store.save(Chart(incidents=(incident,)))
    report = await verified(past)
    assert [violation.promise for violation in report.violations] == ["always_treated_on_a_yes"]
