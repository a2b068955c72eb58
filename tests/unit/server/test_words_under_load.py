"""What an operator's word costs: so few commits that it is answered at once, whatever else is going on."""

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from contextvars import Context
from typing import Any

import httpx2
import pytest

from homeostat.adapters.stores.sqlite import engine as module
from homeostat.app.assemble import System
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.records.enforcement import Effect
from homeostat.core.urgency import is_urgent
from homeostat.server.protocol import LeanProtocol
from tests.unit.server.test_immune import register

ANN = (DEFAULT_PROJECT, AgentId("ann"))
KILL_COMMITS_MAX = 6  # that it was asked, what is decided, two gates, what was read back, how it ended
KILL_ROUNDS_MAX = 2  # once it has begun: its lane begins, and ends
TASK = {"name": "only", "agent": "ann", "input": "x", "approval": True}


class Commits:
    """Counts what is committed on operators' behalf, on the way that the load of a busy server leaves open."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, statement: str) -> None:
        self.count += statement == "BEGIN IMMEDIATE" and is_urgent()  # one that reads begins otherwise


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    monkeypatch.setattr(module, "LOOP_URGENT_SECONDS_MAX", 1e9)  # however busy the machine is
    counted, connect = Commits(), module._connect

    def traced(target: str) -> sqlite3.Connection:
        connection = connect(target)
        connection.set_trace_callback(counted.trace)
        return connection

    monkeypatch.setattr(module, "_connect", traced)
    yield counted
    assert counted.count, "nothing was counted"


async def killed(http: httpx2.AsyncClient) -> dict[str, Any]:
    answer = await http.post("/v1/agents/ann/kill", json={"reason": "it mails customers", "actor": "eve"})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_kill_is_decided_and_told_in_few_commits(commits: Commits, http: httpx2.AsyncClient) -> None:
    await register(http)
    for _ in range(2):  # nobody knows it yet; then it was let out
        before = commits.count
        health = await killed(http)
        assert commits.count - before <= KILL_COMMITS_MAX
        assert (health["phase"], health["killed"], health["receipt"]["effect"]) == ("quarantined", True, "enforced")
        assert [step["event"] for step in health["history"]][:2] == ["drained", "order_quarantine"]
        assert (await http.post("/v1/agents/ann/release", json={})).json()["phase"] == "probation"


async def test_a_run_is_killed_and_a_task_approved_in_three(commits: Commits, http: httpx2.AsyncClient) -> None:
    await register(http)
    made = await http.post("/v1/runs", json={"goal": "g", "tasks": [TASK], "policy": {"apply": "manual"}})
    before = commits.count
    answer = await http.post(f"/v1/runs/{made.json()['run_id']}/kill", json={"reason": "enough"})
    assert (answer.json()["status"], commits.count - before) == ("killed", 3)


class Rounds:
    """Counts the rounds of the loop that each order takes, from its first step to its last, without its body."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self._count = 0

    def tick(self) -> None:
        self._count += 1
        asyncio.get_running_loop().call_soon(self.tick)

    async def counted(self, work: Coroutine[Any, Any, None]) -> None:
        began = self._count
        await work
        self.taken.append(self._count - began)


@pytest.fixture
async def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    rounds, perform = Rounds(), LeanProtocol.perform

    def performed(self: LeanProtocol, cycle: Any, work: Any, context: Context | None = None) -> asyncio.Task[None]:
        return perform(self, cycle, work if context is None else rounds.counted(work), context)

    monkeypatch.setattr(LeanProtocol, "perform", performed)
    rounds.tick()
    return rounds


async def test_a_kill_goes_through_the_loop_in_few_rounds(
    rounds: Rounds, commits: Commits, http: httpx2.AsyncClient, url: str
) -> None:
    await register(http)
    body = b'{"reason":"it mails customers","actor":"eve"}'
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        head = b"POST /v1/agents/ann/kill HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)  # at once, so that it waits for nothing of ours
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await http.post("/v1/agents/ann/release", json={})
    assert min(rounds.taken[::2]) <= KILL_ROUNDS_MAX
    assert commits.count


async def test_who_looks_at_an_agent_writes_nothing(commits: Commits, http: httpx2.AsyncClient, system: System) -> None:
    await register(http)
    assert (await http.get("/v1/agents/ann/health")).json()["phase"] == "initializing"
    assert await system.immune.store.patient(ANN) is None
    await killed(http)
    patient = await system.immune.store.patient(ANN)
    assert patient is not None
    assert (patient.version, patient.killed) == (1, True)
    assert commits.count


async def test_a_receipt_waits_for_nobody_elses_calls(
    http: httpx2.AsyncClient, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    await register(http)
    flushed: list[str] = []
    monkeypatch.setattr(system.gateway.clerk, "flush", lambda: asyncio.sleep(0, flushed.append("everything")))
    assert (await killed(http))["receipt"]["requests_answered"] == 0
    assert not flushed
    monkeypatch.setattr(system.gateway.clerk, "owes", lambda agent: agent == ANN)
    assert (await http.get("/v1/agents/ann/receipt")).json()["effect"] == Effect.ENFORCED
    assert flushed, "what it got is not in the books yet"


async def test_the_log_has_what_a_kill_changed(http: httpx2.AsyncClient) -> None:
    await register(http)
    await killed(http)
    done, asked, *_ = (await http.get("/v1/audit")).json()["items"]
    assert (asked["outcome"], done["outcome"], done["of_seq"]) == ("requested", "done", asked["seq"])
    assert done["changes"]["phase"] == ["initializing", "quarantined"]
    assert done["changes"]["killed"] == [False, True]
