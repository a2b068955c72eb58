"""Ledgers over HTTP: what a run leaves behind is read, followed, signed, exported, checked and run again."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.adapters.upstreams.simulated import SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.models import Models
from homeostat.agent.orchestrator import Factory, Orchestrator
from homeostat.agent.turn import Turn
from homeostat.agent.worker import Worker
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.app.upstreams import read_upstreams
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, RunId
from homeostat.core.records.policy import Action, Policy, PolicyId
from homeostat.runs import chronicle, sweeping
from homeostat.runs.bundle import Bundle, unpack
from homeostat.runs.heads import Head
from homeostat.runs.replaying.replay import replay
from homeostat.runs.replaying.tape import TurnEnded
from homeostat.runs.verify import verify
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.crews import eventually
from homeostat.testing.servers import free_port

Json = dict[str, Any]


async def searcher(turn: Turn) -> Any:
    """Thinks, looks something up and asks another agent."""
    thought = await turn.llm(f"What about {turn.input['topic']}?", model="sim-small")
    drawn = turn.random.randrange(1_000)
    found = await turn.step("look up", _look_up, turn.input["topic"], secret="hunter2")  # noqa: S106 — no secret of anybody
    asked = await turn.ask("counter", {"word": turn.input["topic"]})
    await turn.write("note", {"found": found})
    return {"thought": thought.text, "found": found, "drawn": drawn, "at": await turn.now(), "asked": asked}


async def _look_up(topic: str, secret: str) -> Json:
    del secret
    return {"topic": topic, "api_key": "sk-verysecretverysecret", "score": 1.0}


class Counter(ManagedAgent):
    """Remembers how often it was asked."""

    async def process(self, request: Any) -> Any:
        count = (await self.memory.load("history", 0)) + 1
        self.memory.update("history", count)
        return {"count": count, "letters": len(request.input["word"])}


CAST: dict[str, Factory] = {"searcher": lambda: FunctionAgent(searcher), "counter": Counter}


def find(end: TurnEnded) -> Factory:
    return CAST[end.agent_id]


@asynccontextmanager
async def working(system: System) -> AsyncGenerator[None]:
    worker = Worker(
        source=system.turns,
        orchestrator=Orchestrator(memory=system.memory),
        models=Models(SimulatedUpstream(pace=INSTANT)),
    )
    for agent_id, factory in CAST.items():
        worker.host(agent_id, factory)
    await worker.open()
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


async def finished(http: httpx2.AsyncClient, tasks: int = 2) -> str:
    """A run that completed."""
    wanted = [{"name": f"t{n}", "agent": "searcher", "input": {"topic": f"moon {n}"}} for n in range(tasks)]
    answer = await http.post("/v1/runs", json={"goal": "find out", "tasks": wanted, "seed": 7})
    assert answer.status_code == 201, answer.text
    run_id = answer.json()["run_id"]

    async def resting() -> bool:
        return (await http.get(f"/v1/runs/{run_id}")).json()["at_rest"]

    await eventually(resting)
    assert (await http.get(f"/v1/runs/{run_id}")).json()["status"] == "completed"
    return run_id


@pytest.fixture
async def run_id(system: System, http: httpx2.AsyncClient) -> str:
    async with working(system):
        return await finished(http)


async def exported(http: httpx2.AsyncClient, run_id: str) -> Bundle:
    answer = await http.get(f"/v1/runs/{run_id}/export")
    assert answer.status_code == 200
    return unpack([answer.content], where="the server")


async def test_an_export_holds_what_was_signed_while_it_began(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers, signs = system.runs.ledgers, system.runs.ledgers.seal
    task = {"name": "t", "agent": "searcher", "input": {"topic": "moon"}}
    async with working(system):
        answer = await http.post("/v1/runs", json={"goal": "x", "tasks": [task], "policy": {"apply": "manual"}})
        run = f"/v1/runs/{answer.json()['run_id']}"

        async def overtaken(project: ProjectId, run_id: RunId) -> Head:
            mine = await signs(project, run_id)
            await http.post(f"{run}/apply", json={})
            await signs(project, run_id)
            return mine

        monkeypatch.setattr(ledgers, "seal", overtaken)
        verdict = verify(await exported(http, answer.json()["run_id"]))
    assert verdict.ok, verdict.finding
    assert verdict.heads[-1] == verdict.entries > verdict.heads[0]


async def test_a_run_that_goes_on_behind_a_head_is_replayed_as_far_as_it_is(
    system: System, http: httpx2.AsyncClient
) -> None:
    tasks = [{"name": "t", "agent": "searcher", "input": {}, "approval": True}]
    async with working(system):
        answer = await http.post("/v1/runs", json={"goal": "x", "tasks": tasks, "policy": {"apply": "manual"}})
    run = f"/v1/runs/{answer.json()['run_id']}"
    assert (await http.get(f"{run}/head")).json()["size"] == 3
    await http.post(f"{run}/apply", json={})
    replayed = (await http.post(f"{run}/replay", json={})).json()
    assert (replayed["verdict"], replayed["entries"]) in {("identical", size) for size in (4, 5, 6)}, replayed


@pytest.mark.parametrize("wanted", ["", "kind:step"])
async def test_a_ledger_is_read_from_its_end_as_from_its_beginning(
    http: httpx2.AsyncClient, run_id: str, wanted: str
) -> None:
    async def read(order: str) -> list[int]:
        found: list[int] = []
        cursor: int | None = 0
        while cursor is not None:
            asked = {"cursor": cursor, "limit": 5, "order": order, **({"q": wanted} if wanted else {})}
            page = (await http.get(f"/v1/runs/{run_id}/ledger", params=asked)).json()
            found += [entry["seq"] for entry in page["entries"]]
            cursor = page["next_cursor"]
        return found

    forwards = await read("oldest")
    assert forwards
    assert await read("newest") == forwards[::-1]


async def test_a_cursor_beyond_the_end_is_answered_and_one_beyond_all_numbers_refused(
    http: httpx2.AsyncClient, run_id: str
) -> None:
    ledger, last = f"/v1/runs/{run_id}/ledger", 1 << 53
    whole = (await http.get(ledger, params={"order": "newest"})).json()["entries"]
    for cursor in (1 << 31, last):
        assert (await http.get(ledger, params={"cursor": cursor})).json()["entries"] == []
        newest = await http.get(ledger, params={"cursor": cursor, "order": "newest"}, timeout=10.0)
        assert newest.json()["entries"] == whole
        tasks = await http.get(f"/v1/runs/{run_id}/tasks", params={"cursor": cursor})
        assert tasks.json()["tasks"] == []
        assert (await http.get(f"{ledger}/live", params={"cursor": cursor})).status_code == 200
    for beyond in (last + 1, 1 << 63, int("9" * 20), int("9" * 400)):
        for path in (ledger, f"{ledger}/live", f"/v1/runs/{run_id}/tasks"):
            answer = await http.get(path, params={"cursor": beyond})
            assert (answer.status_code, answer.json()["code"]) == (422, "malformed_payload"), path
    for shown in (str(last), str(last + 1), "9" * 5_000, "\u00b2"):
        live = await http.get(f"{ledger}/live", headers=[(b"last-event-id", shown.encode("latin-1"))])
        assert live.status_code == 200


async def test_a_ledger_tells_everything_and_no_secrets(http: httpx2.AsyncClient, run_id: str) -> None:
    entries: list[Json] = []
    cursor: int | None = 0
    while cursor is not None:
        page = (await http.get(f"/v1/runs/{run_id}/ledger", params={"cursor": cursor, "limit": 5})).json()
        entries += page["entries"]
        cursor = page["next_cursor"]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    kinds = [entry["kind"] for entry in entries]
    assert kinds[0] == "run.created"
    assert "task.ended" not in kinds, "a success is told with the end of its turn"
    tasks = [entry["payload"]["task"] for entry in entries if "task" in entry["payload"]]
    assert [task["status"] for task in tasks if "status" in task] == ["succeeded"] * 2
    assert kinds.count("model.call") == 2
    assert kinds.count("turn.ended") == 4
    assert {"plan.made", "run.moved", "tool.result", "step", "card"} <= set(kinds)
    told = json.dumps(entries)
    assert "verysecret" not in told
    assert "hunter2" not in told
    codes = {entry["payload"]["code"]["target"] for entry in entries if entry["kind"] == "turn.ended"}
    assert codes == {f"{__name__}:searcher", f"{__name__}:Counter"}
    model = next(entry["payload"] for entry in entries if entry["kind"] == "model.call")
    assert json.loads(model["asked"]["told_json"])["messages"][0]["content"].startswith("What about moon")


async def test_it_is_signed_at_the_end_and_verifies(system: System, http: httpx2.AsyncClient, run_id: str) -> None:
    async def signed() -> bool:
        return bool(await system.runs.ledgers.heads(RunId(run_id)))

    await eventually(signed)
    (head,) = await system.runs.ledgers.heads(RunId(run_id))
    verdict = verify(await exported(http, run_id), public_key=system.runs.ledgers.public_key)
    assert verdict.ok, verdict
    assert verdict.heads == (head.size,)
    assert (await http.get(f"/v1/runs/{run_id}/head")).json()["root"] == verdict.root == head.root
    told = (await http.get(f"/v1/runs/{run_id}/verify")).json()
    assert told["valid"]
    assert told["entries"] == verdict.entries


async def test_it_runs_again_from_a_bundle(http: httpx2.AsyncClient, run_id: str) -> None:
    report = await replay(await exported(http, run_id), find)
    assert report.verdict == "identical", report
    assert report.turns == 4


async def test_changed_code_is_told_in_words(
    http: httpx2.AsyncClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other(turn: Turn) -> Any:
        thought = await turn.llm(f"What about the {turn.input['topic']}?", model="sim-small")
        return thought.text

    monkeypatch.setitem(CAST, "searcher", lambda: FunctionAgent(other))
    report = await replay(await exported(http, run_id), find)
    assert report.verdict == "diverged"
    assert report.divergence is not None
    assert 'asked the model something else (step `llm`) (messages[0].content): recorded "What about moon' in (
        report.divergence.message
    )
    assert report.divergence.message.startswith("task ")


async def test_code_that_reaches_outside_is_stopped(
    http: httpx2.AsyncClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other(turn: Turn) -> Any:
        del turn
        await asyncio.open_connection("127.0.0.1", 9)

    monkeypatch.setitem(CAST, "searcher", lambda: FunctionAgent(other))
    report = await replay(await exported(http, run_id), find)
    assert report.divergence is not None
    assert "a replay calls nothing outside" in report.divergence.message


async def test_the_server_runs_no_code_it_does_not_know(http: httpx2.AsyncClient, run_id: str) -> None:
    told = (await http.post(f"/v1/runs/{run_id}/replay", json={})).json()
    assert told["verdict"] == "incomplete"
    assert "which is not taken" in told["skipped"][0]
    assert "the setting replay_modules does not name its module" in told["skipped"][0]
    for named in ({"searcher": "os:system"}, {"*": "os:system"}):
        told = (await http.post(f"/v1/runs/{run_id}/replay", json={"agents": named})).json()
        assert told["verdict"] == "incomplete"
        refused = (
            "os:system, which is named for it, is not allowed: the setting replay_modules does not name its module"
        )
        assert refused in told["skipped"][0]
    assert (await http.post("/v1/runs/run_x/replay", json={})).status_code == 404
    assert (await http.post(f"/v1/runs/{run_id}/replay", json={"mode": "other"})).status_code == 422


@pytest.fixture
async def known(tmp_path: Path) -> AsyncGenerator[tuple[System, httpx2.AsyncClient, str]]:
    """A server that may run this module's agents again, and whose models are simulated; and a run of its."""
    settings = Settings(data_dir=tmp_path, replay_modules=(__name__,), upstreams=read_upstreams("openai=simulated"))
    async with assemble(settings) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
            async with working(system):
                run_id = await finished(http)
            yield system, http, run_id


async def test_the_server_replays_in_every_mode(known: tuple[System, httpx2.AsyncClient, str]) -> None:
    system, http, run_id = known

    async def again(status: int = 200, **body: Any) -> Json:
        answer = await http.post(f"/v1/runs/{run_id}/replay", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    assert (await again())["verdict"] == "identical"
    anew = await again(mode="re-model")
    assert anew["mode"] == "re-model"
    assert anew["live_calls"] >= 1, "models were asked anew"
    calls = (await http.get("/v1/calls")).json()["calls"]
    assert {call["agent_id"] for call in calls} == {"searcher"}, "through the gateway, in the agent's name"
    assert {call["run_id"] for call in calls} == {None}
    assert (await again(mode="re-model", simulate_models=True))["live_calls"] >= 1
    assert len((await http.get("/v1/calls")).json()["calls"]) == len(calls)
    what_if = await again(mode="what-if")
    assert (what_if["verdict"], what_if["live_calls"]) == ("identical", 0), "nothing is asked that was not asked before"
    refused = await again(mode="what-if", policy={"models": {"deny": ["sim-*"]}})
    assert refused["divergence"]["message"].endswith("asked model 'sim-small', which the policy refuses")
    assert refused["divergence"]["seq"] > 1
    without = await again(mode="what-if", policy={"tools": {"deny": ["agent:counter"]}})
    assert "which the policy refuses" in without["divergence"]["message"]
    assert (await again(422, mode="exact", prompt="Be brief."))["code"] == "invalid_request"
    assert (await again(422, mode="what-if", prompt="x" * 100_001))["code"] == "malformed_payload"
    key = (DEFAULT_PROJECT, AgentId("searcher"))
    blocked = Policy(
        policy_id=PolicyId("pol_x"), project=key[0], agent_id=key[1], action=Action.BLOCK, created_at_ms=Millis(1)
    )
    await system.gateway.put_policy(blocked)
    stopped = await again(mode="re-model")
    assert stopped["verdict"] == "incomplete", "policies hold for replays, too"
    assert "no model answered 'searcher'" in stopped["skipped"][0]


async def test_what_a_task_does_is_told_while_it_is_at_it(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chronicle, "CHRONICLE_SECONDS", 0.02)
    may_end = asyncio.Event()

    async def thorough(turn: Turn) -> Any:
        first = [await turn.step(f"step {number}", _look_up, "moon", secret=str(number)) for number in range(20)]
        asked = await turn.ask("counter", {"word": "moon"})
        await turn.write("note", {"found": len(first)})
        await turn.llm("What about the moon?", model="sim-small")
        await may_end.wait()
        return [first, asked, await turn.step("last", _look_up, "moon", secret="")]

    monkeypatch.setitem(CAST, "searcher", lambda: FunctionAgent(thorough))
    async with working(system):
        tasks = [{"name": "t", "agent": "searcher", "input": {"topic": "moon"}}]
        run_id = (await http.post("/v1/runs", json={"goal": "x", "tasks": tasks})).json()["run_id"]

        async def entries() -> list[Json]:
            return (await http.get(f"/v1/runs/{run_id}/ledger?limit=500")).json()["entries"]

        async def kinds() -> list[str]:
            return [entry["kind"] for entry in await entries()]

        async def told() -> bool:
            found = await kinds()
            return found.count("step") == 20 and {"tool.result", "card", "model.call", "turn.ended"} <= set(found)

        await eventually(told)
        assert not any("task" in entry["payload"] for entry in await entries()), "it has not ended"
        may_end.set()

        async def resting() -> bool:
            return (await http.get(f"/v1/runs/{run_id}")).json()["at_rest"]

        await eventually(resting)
    found = await kinds()
    ends = [entry["payload"]["task"] for entry in await entries() if "task" in entry["payload"]]
    assert [(task["name"], task["status"]) for task in ends] == [("t", "succeeded")]
    counted = {kind: found.count(kind) for kind in ("step", "tool.result", "card", "model.call", "turn.ended")}
    assert counted == {"step": 21, "tool.result": 1, "card": 1, "model.call": 1, "turn.ended": 2}, "each is told once"
    assert (await http.get(f"/v1/runs/{run_id}/verify")).json()["valid"]
    report = await replay(await exported(http, run_id), find)
    assert report.verdict == "identical", report


async def test_an_old_ledger_leaves_and_nobody_cries_tampering(
    system: System, http: httpx2.AsyncClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = await exported(http, run_id)
    head = (await http.get(f"/v1/runs/{run_id}/head")).json()
    assert await system.runs.sweeper.tick() == 0, "its time is not over"
    monkeypatch.setattr(system.runs.sweeper, "_retention_ms", -1_000)
    monkeypatch.setattr(sweeping, "LEDGER_SWEEP_ENTRIES_MAX", 10)
    size = head["size"]
    rounds = [await system.runs.sweeper.tick() for _ in range(-(-size // 10) + 1)]
    assert sum(rounds) == size
    assert 10 <= max(rounds) < size, "a bounded part at a time"
    assert await system.runs.store.kept(RunId(""), RunId("run_~"), 10) == []
    for what in ("ledger", "ledger/live", "export", "verify"):
        answer = await http.get(f"/v1/runs/{run_id}/{what}")
        assert (answer.status_code, answer.json()["code"]) == (410, "ledger_swept"), what
        assert "nobody tampered" in answer.json()["detail"]
    assert (await http.post(f"/v1/runs/{run_id}/replay", json={})).status_code == 410
    assert (await http.get(f"/v1/runs/{run_id}/head")).json() == head, "what pins it stays"
    assert verify(bundle, heads=await system.runs.ledgers.heads(RunId(run_id))).ok, "what was exported is proven by it"
    assert (await http.get(f"/v1/runs/{run_id}")).json()["status"] == "completed"


async def test_a_ledger_that_was_changed_is_kept_as_evidence(
    system: System, http: httpx2.AsyncClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system.runs.sweeper, "_retention_ms", -1_000)
    await system.runs.store._do("ledger_sweep", run_id, 1)  # pyright: ignore[reportAttributeAccessIssue]
    assert await system.runs.sweeper.tick() == 0
    told = (await http.get(f"/v1/runs/{run_id}/verify")).json()
    assert not told["valid"]


@pytest.mark.parametrize("written", ["x'ff00fe'", "CAST(x'7bff7d' AS TEXT)", "CAST(lines AS BLOB)"])
async def test_bytes_that_are_no_text_are_found_in_a_ledger(
    tmp_path: Path, http: httpx2.AsyncClient, run_id: str, written: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "homeostat.db", timeout=30)) as connection, connection:
        connection.execute(f"UPDATE ledger SET lines = {written} WHERE run_id = ? AND first_seq = 1", (run_id,))
    told = (await http.get(f"/v1/runs/{run_id}/verify")).json()
    same = written == "CAST(lines AS BLOB)"
    assert told["valid"] is same, "a text is what it was, whatever the column calls it"
    assert same or told["finding"]["seq"] == 1
    assert (await http.get(f"/v1/runs/{run_id}/head")).status_code == (200 if same else 409)
    bundle = (await http.get(f"/v1/runs/{run_id}/export")).content
    assert verify(unpack([bundle], where="there")).ok is same
    for what in ("ledger", "ledger/live"):
        assert (await http.get(f"/v1/runs/{run_id}/{what}")).status_code == 200


async def test_it_can_be_followed_to_its_end(http: httpx2.AsyncClient, run_id: str) -> None:
    seen = (await http.get(f"/v1/runs/{run_id}/ledger/live")).text
    count = (await http.get(f"/v1/runs/{run_id}/verify")).json()["entries"]
    assert seen.count("event: entry\n") == count
    assert seen.endswith("event: end\ndata: {}\n\n")
    rest = (await http.get(f"/v1/runs/{run_id}/ledger/live", headers={"last-event-id": str(count - 1)})).text
    assert rest.count("event: entry\n") == 1


async def test_runs_that_are_not_there_have_no_ledger(http: httpx2.AsyncClient) -> None:
    for what in ("ledger", "ledger/live", "export", "head", "verify"):
        assert (await http.get(f"/v1/runs/run_nowhere/{what}")).status_code == 404
