"""`verify --all` on real installations: it holds while everybody works, and names whatever was tampered with."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import asyncpg
import httpx2
import pytest

from homeostat.app import stores
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.app.verification import Report, verify, verify_all
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, CardId, RunId, TurnId, digest_of, scope_floor, scope_of
from homeostat.core.records.call import call_of
from homeostat.core.records.enforcement import Effect
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.immune import (
    Applied,
    Approval,
    ApprovalId,
    ApprovalStatus,
    Chart,
    Diagnosis,
    Incident,
    IncidentId,
    RemedyAction,
    Stance,
    Treatment,
)
from homeostat.core.records.provenance import Chain, EntryKind, Tip
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.records.writes import OutboxRow, Writes
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.crews import Crew, crew, eventually
from homeostat.testing.servers import free_port

CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
HOUR_MS = 3_600_000
YES = ApprovalId("apr_1")


# --- what is there -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else stores.embedded_url(tmp_path)


@pytest.fixture
async def system(tmp_path: Path, store_url: str) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path, store_url=store_url)) as system:
        yield system


@dataclass(frozen=True)
class Past:
    """An installation with a history."""

    folder: Path
    store_url: str

    async def verified(self) -> Report:
        return await verify_all(Settings(data_dir=self.folder, store_url=self.store_url))


@pytest.fixture
async def past(system: System, http: httpx2.AsyncClient, tmp_path: Path, store_url: str) -> Past:
    """A little of everything, and everybody is still at work."""
    await live(system, http)
    return Past(tmp_path, store_url)


@pytest.fixture
async def remains(tmp_path: Path, store_url: str) -> Past:
    """The same, when everybody has left; one announcement was not made."""
    settings = Settings(data_dir=tmp_path, store_url=store_url)
    listener = bind("127.0.0.1", free_port())
    async with (
        assemble(settings) as system,
        serving(system, listener),
        httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http,
    ):
        await live(system, http)
    await _leave_unsaid(store_url, AgentId("bob"))
    return Past(tmp_path, store_url)


async def live(system: System, http: httpx2.AsyncClient) -> None:
    """Turns, a run with an approval, a call under a budget, quarantines, a treatment; some of it is not over."""
    async with crew(system.kernel, "ann", "bob", "dan"):
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
        for agent in ("ann", "bob", "dan"):
            await _said(http, agent)
        for agent in ("ann", "bob", "dan"):
            await eventually(lambda agent=agent: _is_idle(http, agent))
        for agent in ("kim", "ann"):
            assert (await http.post(f"/v1/agents/{agent}/quarantine", json={"reason": "odd"})).status_code < 300
        await eventually(lambda: _are_held(system))
        await system.gateway.clerk.flush()
    for agent in ("ann", "ann", "dan"):  # nobody serves them now
        await _said(http, agent)
    # As it was once answered, at once: a question this old that nobody has answered lapses with the next tick.
    answer = replace(_question(), status=ApprovalStatus.APPROVED, answered_at_ms=Millis(2), answered_by="bob")
    assert await system.immune.store.save(Chart(asked=(answer,), incidents=(_incident("inc_1", YES),)))


async def _has_begun(crew: Crew, times: int) -> bool:
    return len(crew.begun) == times


async def _said(http: httpx2.AsyncClient, agent: str) -> None:
    answer = await http.post(f"/v1/agents/{agent}/inbox", json={"type": "turn", "payload": {"number": 3}})
    assert answer.status_code == 202


async def _is_idle(http: httpx2.AsyncClient, agent: str) -> bool:
    return (await http.get(f"/v1/agents/{agent}/head")).json()["status"] == "idle"


async def _are_held(system: System) -> bool:
    holds = [hold for hold in await system.immune.enforcement.store.holds() if hold.wanted is Stance.CLOSED]
    return len(holds) >= 3 and all(hold.effect is Effect.ENFORCED for hold in holds)


def _question() -> Approval:
    return Approval(
        approval_id=YES,
        project=DEFAULT_PROJECT,
        agent_id=AgentId("kim"),
        incident_id=IncidentId("inc_1"),
        action=RemedyAction.RESET_MEMORY,
        diagnosis=Diagnosis.UNKNOWN,
        sigma=9.0,
        evidence_digest="",
        why="",
        asked_at_ms=Millis(1),
        expires_at_ms=Millis(3),
    )


def _incident(incident_id: str, *used: ApprovalId) -> Incident:
    treatment = Treatment(
        action=RemedyAction.RESET_MEMORY, diagnosis=Diagnosis.UNKNOWN, applied=Applied.APPLIED, note="", at_ms=Millis(2)
    )
    return Incident(
        incident_id=IncidentId(incident_id),
        project=DEFAULT_PROJECT,
        agent_id=AgentId("kim"),
        opened_at_ms=Millis(1),
        treatments=tuple(replace(treatment, approval_id=one) for one in used),
    )


async def _leave_unsaid(store_url: str, agent: AgentId) -> None:
    """As a process does that dies between a commit and its announcement."""
    engine = await stores.open_engine(store_url)
    store = stores.turn_store(engine)
    (view,) = await store.history(DEFAULT_PROJECT, agent, before=None, limit=1)
    assert view.deliverable is not None
    event = _end(view.turn.turn_id, agent, view.deliverable.card_id)
    assert (await store.save(Writes(outbox=OutboxRow(scope_of(view.turn.turn_id), (event,))))).ok
    await engine.close()


def _end(turn_id: TurnId, agent: AgentId, card_id: CardId) -> Event:
    said = {"agent_turn_id": turn_id, "status": "success", "deliverable_card_id": card_id}
    return Event(turn_id, DEFAULT_PROJECT, Channel.EVT, "agent", agent, "task", to_json(said))


# --- who is honest -----------------------------------------------------------------------------------------------


async def test_an_honest_installation_is_as_it_was_promised_while_it_works(past: Past) -> None:
    report = await past.verified()
    assert report.violations == []
    looked_at = {name for name, count in report.counts.items() if count}
    assert looked_at >= {"agents", "turns", "deliverables", "budgets", "runs", "ledger entries", "acts of operators"}
    assert report.counts["turns"] >= 8


async def test_an_honest_installation_is_as_it_was_promised_when_everybody_has_left(remains: Past) -> None:
    report = await remains.verified()
    assert report.violations == []
    assert report.counts["announcements that wait"] == 1
    assert report.counts["approvals"] == 1


async def test_a_cap_that_was_lowered_below_what_was_spent_is_not_broken_by_that(
    past: Past, http: httpx2.AsyncClient
) -> None:
    lowered = (await http.put("/v1/budgets/agent/kim", json={"tokens": 1})).json()
    assert lowered["tokens_spent"] > 1
    assert (await past.verified()).violations == []


async def test_turns_that_retention_took_are_not_missed(system: System, past: Past) -> None:
    store = system.kernel.store
    third = (await store.history(DEFAULT_PROJECT, AgentId("ann"), before=None, limit=3))[2].turn
    assert await store.expire(scope_of(third.turn_id), 9) == third.seq - 1 >= 2
    assert (await past.verified()).violations == []
    assert await store.expire(scope_floor(system.clock.now_ms() + HOUR_MS), 99) >= 3
    assert await store.history(DEFAULT_PROJECT, AgentId("bob"), before=None, limit=1) == []
    assert (await past.verified()).violations == []


async def test_a_turn_that_was_overtaken_while_its_run_was_held_is_no_step_back(
    system: System, http: httpx2.AsyncClient, store_url: str, tmp_path: Path
) -> None:
    until = asyncio.Event()

    async def wait(grant: Grant) -> tuple[Outcome, Json]:
        if grant.turn.run_id is not None:
            await until.wait()
        return Outcome.SUCCESS, Json("1")

    async with crew(system.kernel, "zoe", work=wait) as zoe:
        await http.post("/v1/agents/register", json={"agent_type": "test", "agent_id": "zoe"})
        run = (await http.post("/v1/runs", json={"goal": "x", "tasks": [{"name": "t", "agent": "zoe"}]})).json()[
            "run_id"
        ]

        async def status(wanted: str) -> bool:
            return (await http.get(f"/v1/runs/{run}")).json()["status"] == wanted

        await eventually(lambda: _has_begun(zoe, 1))
        await http.post(f"/v1/runs/{run}/pause", json={"force": True, "reason": "wait"})
        await _said(http, "zoe")
        await eventually(lambda: _has_begun(zoe, 2))
        until.set()
        await http.post(f"/v1/runs/{run}/resume", json={"reason": "go on"})
        await eventually(lambda: status("completed"))
    turns = await system.kernel.store.history(DEFAULT_PROJECT, AgentId("zoe"), before=None, limit=9)
    later, overtaken = [one.deliverable for one in turns]
    assert later is not None
    assert overtaken is not None
    assert later.epoch < overtaken.epoch
    assert (await Past(tmp_path, store_url).verified()).violations == []


async def test_a_ledger_that_left_the_store_in_its_time_is_not_missed(
    system: System, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system.runs.sweeper, "_retention_ms", -1_000)
    assert await system.runs.sweeper.tick() > 0
    report = await past.verified()
    assert (report.violations, report.counts["runs"], report.counts["ledger entries"]) == ([], 1, 0)


async def test_a_yes_for_a_while_answers_for_another_incident(system: System, past: Past) -> None:
    store = system.immune.store
    asked = replace(_question(), approval_id=ApprovalId("apr_2"))
    assert await store.save(Chart(asked=(asked,)))
    answer = replace(asked, status=ApprovalStatus.APPROVED, answered_at_ms=Millis(2), stands_until_ms=Millis(9))
    told = (_incident("inc_2", asked.approval_id), _incident("inc_3", asked.approval_id))
    assert await store.save(Chart(answered=(answer,), incidents=told))
    assert (await past.verified()).violations == []


# --- who is not --------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The engine itself does not let it happen."""


class Saboteur:
    """Somebody who can write to the store."""

    def __init__(self, store_url: str) -> None:
        self.url = store_url
        self.touched: set[str] = set()

    async def rows(self, statement: str) -> list[tuple[str, ...]]:
        if self.url.startswith("sqlite"):
            with closing(self._file()) as connection:
                return connection.execute(statement).fetchall()
        connection = await asyncpg.connect(self.url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    async def do(self, statement: str) -> None:
        """Change at least one row."""
        self.touched.update(re.findall(r"^(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)", statement))
        if self.url.startswith("sqlite"):
            with closing(self._file()) as connection, connection:
                changed = connection.execute(statement).rowcount
        else:
            connection = await asyncpg.connect(self.url)
            try:
                changed = int((await connection.execute(statement)).rpartition(" ")[2])
            except asyncpg.CheckViolationError:
                raise Refused from None
            finally:
                await connection.close()
        assert changed > 0, statement

    def _file(self) -> sqlite3.Connection:
        return sqlite3.connect(self.url.removeprefix("sqlite://"))

    async def step_at(self, agent: str, at_ms: int, event: str) -> None:
        """Move a step of an agent's health to another time."""
        for name, text in await self.rows(
            f"SELECT transition_id, transition FROM transitions WHERE agent_id = '{agent}'"
        ):
            if (step := json.loads(text))["event"] == event:
                moved = json.dumps({**step, "at_ms": at_ms})
                await self.do(f"UPDATE transitions SET transition = '{moved}' WHERE transition_id = '{name}'")

    async def served(self, began_ms: int) -> None:
        """Let the only call of the agent have been answered at another time."""
        columns = "project, agent_id, run_id, model, outcome, tokens, cost_micros"
        ((text,),) = await self.rows("SELECT call FROM calls WHERE agent_id = 'kim' AND outcome = 'answered'")
        call_id = call_of(scope_floor(began_ms))
        call = json.dumps({**json.loads(text), "call_id": call_id, "started_at_ms": began_ms})
        await self.do(
            f"INSERT INTO calls (call_id, {columns}, call) "
            f"SELECT '{call_id}', {columns}, '{call}' FROM calls WHERE agent_id = 'kim' AND outcome = 'answered'"
        )

    async def exchanged(self, agent: str, seq: int, old: str, new: str) -> None:
        """Change a deliverable, and its digest with it."""
        place = f"scope = (SELECT substr(turn_id, 6) FROM turns WHERE agent_id = '{agent}' AND seq = {seq})"
        ((content,),) = await self.rows(f"SELECT content FROM cards WHERE {place} AND position = 0")
        assert old in content, content
        told = Json(content.replace(old, new))
        await self.do(
            f"UPDATE cards SET content = '{told}', digest = '{digest_of(told)}' WHERE {place} AND position = 0"
        )


async def _a_call_in_a_quarantine(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT max(created_at_ms) FROM turns")
    now = int(text)
    await saboteur.step_at("kim", now - 2 * HOUR_MS, "order_quarantine")
    await saboteur.step_at("kim", now - 2 * HOUR_MS, "drained")
    await saboteur.served(now - HOUR_MS)


async def _a_call_soon_after_draining(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT call FROM calls WHERE agent_id = 'kim' AND outcome = 'answered'")
    began = int(json.loads(text)["started_at_ms"])
    apart = (3_000, 2_500) if saboteur.url.startswith("sqlite") else (HOUR_MS, HOUR_MS)
    await saboteur.step_at("kim", began - apart[0], "order_quarantine")
    await saboteur.step_at("kim", began - apart[1], "drained")
    if not saboteur.url.startswith("sqlite"):
        await saboteur.served(began - HOUR_MS // 2)


async def _a_turn_in_a_quarantine(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT max(created_at_ms) FROM turns")
    now = int(text)
    await saboteur.step_at("ann", now - 2 * HOUR_MS, "order_quarantine")
    await saboteur.step_at("ann", now - 2 * HOUR_MS, "drained")
    own = "agent_id = 'ann' AND seq = "
    await saboteur.do(f"UPDATE turns SET created_at_ms = {now - 3 * HOUR_MS} WHERE {own} 1")
    await saboteur.do(f"UPDATE turns SET created_at_ms = {now - HOUR_MS} WHERE {own} 2")
    place = f"scope = (SELECT substr(turn_id, 6) FROM turns WHERE {own} 2)"
    await saboteur.do(f"UPDATE cards SET created_at_ms = {now - HOUR_MS + 9} WHERE {place} AND position = 0")


async def _a_yes_used_twice(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT incident FROM incidents WHERE incident_id = 'inc_1'")
    incident = json.loads(text)
    told = json.dumps({**incident, "treatments": incident["treatments"] * 2})
    await saboteur.do(f"UPDATE incidents SET incident = '{told}' WHERE incident_id = 'inc_1'")


async def _a_yes_used_elsewhere(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT incident FROM incidents WHERE incident_id = 'inc_1'")
    told = json.dumps({**json.loads(text), "incident_id": "inc_2"})
    await saboteur.do(
        f"INSERT INTO incidents SELECT 'inc_2', project, agent_id, '{told}' FROM incidents WHERE incident_id = 'inc_1'"
    )


async def _a_no_acted_on(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT approval FROM approvals")
    told = json.dumps({**json.loads(text), "status": "rejected"})
    await saboteur.do(f"UPDATE approvals SET status = 'rejected', approval = '{told}'")


async def _an_answer_nobody_gave(saboteur: Saboteur) -> None:
    ((text,),) = await saboteur.rows("SELECT approval FROM approvals")
    told = json.dumps({**json.loads(text), "status": "pending"})
    await saboteur.do(f"UPDATE approvals SET status = 'pending', approval = '{told}'")


async def _an_answer_given_twice(saboteur: Saboteur) -> None:
    ((run_id, text),) = await saboteur.rows("SELECT run_id, run FROM runs")
    run = json.loads(text)
    chain = Chain(DEFAULT_PROJECT, RunId(run_id), Tip(*run["tip"]))
    said = {"change": "rejected", "task": "risky", "actor": "eve", "reason": "no"}
    chain.add(EntryKind.RUN_CHANGED, said, at_ms=Millis(1))
    seq, told = run["tip"][0], json.dumps({**run, "tip": list(chain.tip)})
    await saboteur.do(
        "INSERT INTO ledger (run_id, first_seq, last_seq, project, lines) "
        f"VALUES ('{run_id}', {seq}, {seq}, 'default', '{chain.lines[0]}')"
    )
    await saboteur.do(f"UPDATE runs SET run = '{told}'")


async def _an_epoch_that_goes_back(saboteur: Saboteur) -> None:
    await saboteur.exchanged("ann", 3, '"epoch":3', '"epoch":1')


async def _an_epoch_of_the_active_turn_that_was_before(saboteur: Saboteur) -> None:
    await saboteur.do("UPDATE heads SET epoch = 1 WHERE agent_id = 'dan'")


async def _another_end_than_was_announced(saboteur: Saboteur) -> None:
    await saboteur.exchanged("bob", 1, '"number":3', '"number":4')


EXECUTED_TWICE = (
    "UPDATE turns SET correlation_id = (SELECT max(correlation_id) FROM turns WHERE run_id IS NOT NULL) "
    "WHERE run_id IS NOT NULL"
)
DELIVERED_TWICE = (
    "INSERT INTO cards SELECT project, scope, 99, type, content, digest, author, created_at_ms, reference "
    "FROM cards WHERE position = 0"
)
ONE_PLACE, LINE, CARDS = "always_every_turn_is_in_one_place", "always_an_unbroken_line", "always_true_cards"
EPOCHS, LEDGER, ONE_END = "always_growing_epochs", "always_a_whole_ledger", "always_one_terminal_event"
SERVED, HELD = "always_the_isolated_are_not_served", "always_the_held_stay_held"
FIRST_OF_ANN = "(SELECT turn_id FROM turns WHERE agent_id = 'ann' AND seq = 1)"
FIRST_IN_LINE = "(SELECT min(seq) FROM inbox)"

TAMPERED: list[tuple[str | Callable[[Saboteur], Awaitable[None]], str]] = [
    ("DELETE FROM heads", LINE),
    ("DELETE FROM heads WHERE agent_id = 'ann'", LINE),
    # Turns that are lost, or in two places.
    ("DELETE FROM turns WHERE seq = 2 AND agent_id = 'ann'", LINE),
    ("DELETE FROM turns WHERE seq <= 2 AND agent_id = 'ann'", LINE),
    ("DELETE FROM turns WHERE seq = 5 AND agent_id = 'ann'", ONE_PLACE),
    ("DELETE FROM turns WHERE agent_id = 'bob'", LINE),
    ("DELETE FROM turns WHERE agent_id = 'ann'", ONE_PLACE),
    ("DELETE FROM turns", ONE_PLACE),
    ("UPDATE turns SET seq = 9 WHERE seq = 2 AND agent_id = 'ann'", LINE),
    ("UPDATE turns SET agent_id = 'ann' WHERE agent_id = 'bob'", LINE),
    ("UPDATE heads SET tail_seq = 9 WHERE agent_id = 'ann'", LINE),
    ("UPDATE heads SET last_turn_id = NULL WHERE agent_id = 'ann'", ONE_PLACE),
    ("UPDATE heads SET queued = 3 WHERE agent_id = 'ann'", ONE_PLACE),
    (f"DELETE FROM inbox WHERE seq = {FIRST_IN_LINE}", ONE_PLACE),
    (
        f"INSERT INTO inbox SELECT project, agent_id, 99, turn_id, 0, 0, 0 FROM inbox WHERE seq = {FIRST_IN_LINE}",
        ONE_PLACE,
    ),
    (f"INSERT INTO inbox VALUES ('default', 'ann', 99, {FIRST_OF_ANN}, 0, 0, 0)", ONE_PLACE),
    (f"UPDATE inbox SET seq = 99 WHERE seq = {FIRST_IN_LINE}", ONE_PLACE),
    (f"UPDATE heads SET status = 'dispatched', epoch = 9, turn_id = {FIRST_OF_ANN} WHERE agent_id = 'ann'", ONE_PLACE),
    (f"UPDATE heads SET status = 'dispatched', epoch = 9, turn_id = {FIRST_OF_ANN} WHERE agent_id = 'bob'", ONE_PLACE),
    ("UPDATE heads SET status = 'idle', turn_id = NULL WHERE agent_id = 'dan'", ONE_PLACE),
    # Deliverables.
    ("DELETE FROM cards WHERE position = 0", ONE_PLACE),
    ("UPDATE cards SET content = replace(content, 'success', 'failed') WHERE position = 0", CARDS),
    ("UPDATE cards SET content = '{}' WHERE position = 0", "always_legible"),
    ("UPDATE cards SET author = 'eve' WHERE position = 0", CARDS),
    ("UPDATE cards SET digest = 'x' WHERE position = 0", CARDS),
    ("UPDATE cards SET type = 'x' WHERE position = 0", CARDS),
    (DELIVERED_TWICE, CARDS),
    # Epochs.
    ("UPDATE heads SET epoch = 0", EPOCHS),
    (_an_epoch_that_goes_back, EPOCHS),
    (_an_epoch_of_the_active_turn_that_was_before, EPOCHS),
    # Announcements.
    ("INSERT INTO outbox SELECT 'ffff' || substr(outbox_id, 5), events FROM outbox", ONE_END),
    (_another_end_than_was_announced, ONE_END),
    # Ledgers and runs.
    ("UPDATE ledger SET lines = replace(lines, 'go', 'no') WHERE lines LIKE '%go%'", LEDGER),
    ("UPDATE ledger SET lines = '{}' WHERE first_seq > 1", LEDGER),
    ("DELETE FROM ledger WHERE first_seq = (SELECT first_seq FROM ledger ORDER BY first_seq LIMIT 1 OFFSET 1)", LEDGER),
    ("DELETE FROM ledger WHERE first_seq = (SELECT max(first_seq) FROM ledger)", LEDGER),
    ("DELETE FROM ledger", LEDGER),
    ("UPDATE runs SET run = replace(run, '\"tip\":[', '\"tip\":[9')", LEDGER),
    ("DELETE FROM runs", "always_a_run_to_each_ledger"),
    (EXECUTED_TWICE, "always_one_turn_for_one_attempt"),
    # Money.
    ("UPDATE budgets SET tokens_spent = 1000000", "always_within_the_cap"),
    ("UPDATE budgets SET tokens_max = 1", "always_within_the_cap"),
    ("UPDATE budgets SET micros_max = 5, micros_spent = 6", "always_within_the_cap"),
    ("UPDATE budgets SET tokens_spent = 0, started_at_ms = started_at_ms - 20000", "always_what_was_logged_is_spent"),
    ("UPDATE budgets SET tokens_held = 1", "always_what_is_held_is_somebodys"),
    # Questions.
    (_an_answer_given_twice, "always_one_answer_stands"),
    (_a_yes_used_twice, "always_an_approval_is_executed_once"),
    (_a_yes_used_elsewhere, "always_an_approval_is_executed_once"),
    (_a_no_acted_on, "always_treated_on_a_yes"),
    (_an_answer_nobody_gave, "always_treated_on_a_yes"),
    ("DELETE FROM approvals", "always_treated_on_a_yes"),
    # Isolation.
    (_a_call_in_a_quarantine, SERVED),
    (_a_call_soon_after_draining, SERVED),
    (_a_turn_in_a_quarantine, SERVED),
    ("DELETE FROM patients WHERE agent_id = 'kim'", HELD),
    ("UPDATE heads SET gate = 'open', gate_reason = NULL WHERE agent_id = 'ann'", HELD),
    ("DELETE FROM transitions WHERE agent_id = 'kim'", HELD),
    # What operators did.
    ("UPDATE audit SET act = replace(act, 'bob', 'eve') WHERE act LIKE '%bob%'", "always_a_whole_audit_log"),
    ("DELETE FROM audit WHERE seq = 2", "always_a_whole_audit_log"),
]


@asynccontextmanager
async def ruined(past: Past, number: int) -> AsyncGenerator[Saboteur]:
    """The same store once more, for somebody to damage; what he touches is put back where a copy would take long."""
    if past.store_url.startswith("sqlite"):
        path = past.folder / f"{number}.db"
        source = sqlite3.connect(past.store_url.removeprefix("sqlite://"))
        with closing(source), closing(sqlite3.connect(path)) as copy:
            source.backup(copy)
        yield Saboteur(f"sqlite://{path}")
        return
    saboteur = Saboteur(past.store_url)
    connection = await asyncpg.connect(past.store_url)
    try:
        await connection.execute("CREATE SCHEMA IF NOT EXISTS before")
        for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            await connection.execute(f"CREATE TABLE IF NOT EXISTS before.{table} AS TABLE public.{table}")
        yield saboteur
        await connection.execute("SET session_replication_role = replica")
        for table in saboteur.touched:
            await connection.execute(f"DELETE FROM {table}")
            await connection.execute(f"INSERT INTO {table} TABLE before.{table}")
    finally:
        await connection.close()


async def test_whatever_was_tampered_with_is_named(remains: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "LOOK_AGAIN_SECONDS", 0.0)
    unseen: list[str] = []
    refused = 0
    for number, (sabotage, promise) in enumerate(TAMPERED):
        async with ruined(remains, number) as saboteur:
            try:
                await (saboteur.do(sabotage) if isinstance(sabotage, str) else sabotage(saboteur))
            except Refused:
                refused += 1
                continue
            found = [one.promise for one in (await Past(remains.folder, saboteur.url).verified()).violations]
        if found[:1] != [promise]:
            name = sabotage if isinstance(sabotage, str) else sabotage.__name__
            unseen.append(f"{name}: {promise}, found {found[:3]}")
    assert not unseen, "\n".join(unseen)
    assert refused <= 3
    assert (await remains.verified()).violations == [], "all of it was put back"
