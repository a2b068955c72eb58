"""The account of a run: there before anything is called for it, and its clock goes only while the run is applied."""

import asyncio

import httpx2
import msgspec
import pytest

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, RunId
from homeostat.core.records.call import CallId
from homeostat.core.records.run import RunConfig, Target, TargetKind, TaskSpec
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.runs import treasurer
from homeostat.testing.crews import crew, eventually
from tests.unit.server.talkers import Talkers, begin, look, reached, talk

# --- before anything is called ---------------------------------------------------------------------------------


async def test_what_an_agent_planned_keeps_to_the_cap_though_nobody_applied_it(
    system: System, http: httpx2.AsyncClient
) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, planner={"agent": "ann"}, budget={"tokens": 10})
        paused = await reached(http, run_id, "paused", "completed")
    assert (paused["status"], paused["paused_by"]) == ("paused", "budget")
    assert talkers.calls == [402]
    assert (await http.get(f"/v1/budgets/run/{run_id}")).json()["tokens"] == 10


async def test_calls_of_a_plan_count_for_the_run(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http, planning_calls=2)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        manual = {"apply": "manual"}
        run_id = await begin(http, planner={"agent": "ann"}, budget={"tokens": 100_000, "seconds": 60}, policy=manual)
        planned = await reached(http, run_id, "planned")
        assert planned["budget"]["tokens_spent"] > 0
        account = (await http.get(f"/v1/budgets/run/{run_id}")).json()
        assert account["tokens_spent"] == planned["budget"]["tokens_spent"]
        assert account["ends_at"] is None, "planning takes none of its time"
        await http.post(f"/v1/runs/{run_id}/apply", json={})
        done = await reached(http, run_id, "completed")
        assert done["budget"]["tokens_spent"] > 2 * planned["budget"]["tokens_spent"]


async def test_a_plan_there_is_no_money_for_fails_and_says_so(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http, planning_calls=4)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, planner={"agent": "ann"}, budget={"tokens": 10})
        failed = await reached(http, run_id, "failed", "completed", "paused")
    assert (failed["status"], talkers.calls) == ("failed", [402])
    assert failed["error"]["code"] == "budget_exceeded"
    assert "planning" in failed["error"]["message"]


async def test_the_account_is_there_when_a_function_plans(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    found: list[int] = []

    async def one(config: RunConfig) -> list[TaskSpec]:
        accounts = (await http.get("/v1/budgets")).json()["budgets"]
        found.extend(account["tokens"] for account in accounts)
        del config
        return [TaskSpec(name="talk", target=Target(TargetKind.AGENT, "ann"), input=msgspec.Raw(b'{"calls": 4}'))]

    system.runs.add_planner("one", one)
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, planner={"function": "one"}, budget={"tokens": 10})
        paused = await reached(http, run_id, "paused", "completed")
    assert (paused["status"], found, talkers.calls) == ("paused", [10], [402])


# --- its clock -------------------------------------------------------------------------------------------------


async def test_a_task_that_ends_in_a_pause_is_not_refused_for_its_time(
    system: System, http: httpx2.AsyncClient
) -> None:
    talkers = Talkers(http)
    talkers.pause_seconds = 0.3
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, tasks=[talk(6), {**talk(1), "name": "after"}], budget={"seconds": 3})

        async def called() -> bool:
            return bool(talkers.calls)

        await eventually(called)
        assert (await http.post(f"/v1/runs/{run_id}/pause", json={})).status_code == 200
        paused = await reached(http, run_id, "paused")
        assert set(talkers.calls) == {200}, "the time of the run stands while it is held"
        assert paused["tasks"].get("succeeded", 0) >= 1
        spent = paused["budget"]["seconds_spent"]
        assert spent < 3
        assert (await http.get(f"/v1/budgets/run/{run_id}")).json()["ends_at"] is None
        await http.post(f"/v1/runs/{run_id}/resume", json={})
        assert (await reached(http, run_id, "completed"))["budget"]["seconds_spent"] > spent


async def test_the_clock_goes_on_with_what_was_left(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    talkers.pause_seconds = 0.1
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, tasks=[talk(1_000)], budget={"seconds": 1.5})
        await http.post(f"/v1/runs/{run_id}/pause", json={"force": True})
        await reached(http, run_id, "paused")
        await asyncio.sleep(2)
        await http.post(f"/v1/runs/{run_id}/resume", json={})

        async def started() -> bool:
            return (await http.get(f"/v1/budgets/run/{run_id}")).json()["ends_at"] is not None

        await eventually(started)
        paused = await reached(http, run_id, "paused")
        assert paused["paused_by"] == "budget"
        assert 1.5 <= paused["budget"]["seconds_spent"] < 3
        assert talkers.calls[-1] == 402, "what is used up is refused"


# --- when all is done ------------------------------------------------------------------------------------------


async def test_a_run_whose_tasks_are_done_completes_though_its_time_is_used_up(
    system: System, http: httpx2.AsyncClient
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(grant: Grant) -> tuple[Outcome, Text]:
        begun.set()
        await may_end.wait()
        return Outcome.SUCCESS, grant.turn.payload

    await http.post("/v1/agents/register", json={"agent_type": "slow", "agent_id": "ann"})
    async with crew(system.kernel, "ann", work=work):
        run_id = await begin(http, tasks=[{"name": "slow", "agent": "ann", "input": {}}], budget={"seconds": 2})
        await begun.wait()
        await reached(http, run_id, "paused", rests=False)
        may_end.set()
        assert (await reached(http, run_id, "paused"))["tasks"] == {"succeeded": 1}
        await http.post(f"/v1/runs/{run_id}/resume", json={})
        done = await reached(http, run_id, "completed", "paused")
        await asyncio.sleep(0.1)
    assert (await look(http, run_id))["status"] == "completed", done


# --- who may change it -----------------------------------------------------------------------------------------


async def test_the_budget_of_a_live_run_is_changed_with_the_run(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, tasks=[talk(4)], budget={"tokens": 10})
        await reached(http, run_id, "paused")
        account = f"/v1/budgets/run/{run_id}"
        for refused in (await http.delete(account), await http.put(account, json={"tokens": 5})):
            said = refused.json()
            assert (refused.status_code, said["code"], said["state"]) == (409, "budget_of_run", "paused")
            assert "resume" in said["hint"]
        assert (await http.get(account)).json()["tokens"] == 10
        await http.post(f"/v1/runs/{run_id}/resume", json={"budget": {"tokens": 100_000}})
        await reached(http, run_id, "completed")
        assert (await http.get(account)).json()["tokens"] == 100_000
        assert (await http.delete(account)).status_code == 204, "of a run that is over nothing is held any more"
        unbounded = await begin(http, tasks=[talk(1)], policy={"apply": "manual"})
        assert (await http.put(f"/v1/budgets/run/{unbounded}", json={"tokens": 5})).status_code == 409
        assert (await http.put("/v1/budgets/run/elsewhere", json={"tokens": 5})).status_code == 200


# --- what it shows ---------------------------------------------------------------------------------------------


async def test_a_run_without_caps_shows_what_it_spent(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        for budget in ({}, {"seconds": 600}):
            gate = {**talk(1), "name": "gate", "after": ["talk"], "approval": True}
            run_id = await begin(http, tasks=[talk(3), gate], budget=budget)
            held = (await reached(http, run_id, "paused"))["budget"]
            calls = (await http.get("/v1/calls", params={"run_id": run_id})).json()["calls"]
            took = sum(one["tokens_in"] + one["tokens_out"] for one in calls)
            assert (len(calls), held["tokens_spent"]) == (3, took)
            assert held["usd_spent"] == pytest.approx(sum(one["cost_usd"] for one in calls))
            await http.post(f"/v1/runs/{run_id}/tasks/gate/approve", json={})
            done = (await reached(http, run_id, "completed"))["budget"]
            assert done["tokens_spent"] > took
        listed = (await http.get("/v1/runs")).json()["runs"]
        assert all(run["budget"]["tokens_spent"] > took for run in listed)


async def test_a_call_that_outlives_its_run_for_a_moment_is_in_its_ledger(
    system: System, http: httpx2.AsyncClient
) -> None:
    talkers, calls = Talkers(http), list[asyncio.Future[bool]]()
    await talkers.register("ann")

    async def work(grant: Grant) -> tuple[Outcome, Text]:
        calls.append(asyncio.ensure_future(talkers.call(grant.turn.agent_id)))
        await asyncio.shield(calls[0])  # whoever stops the turn does not reach the call
        return Outcome.SUCCESS, Text("null")

    async def called() -> bool:
        return bool(system.gateway.in_flight_here((DEFAULT_PROJECT, AgentId("ann"))))

    async with crew(system.kernel, "ann", work=work):
        run_id = await begin(http, tasks=[talk(1), {**talk(1), "name": "after", "after": ["talk"]}])
        await eventually(called)
        assert (await http.post(f"/v1/runs/{run_id}/kill", json={})).status_code == 200
        killed = await reached(http, run_id, "killed", rests=False)
        assert not killed["at_rest"], "a call of it is open"
        killed = await reached(http, run_id, "killed")
        assert calls[0].done()
    assert killed["tasks"] == {"stopped": 2}
    (call,) = (await http.get("/v1/calls", params={"run_id": run_id})).json()["calls"]
    assert killed["budget"]["tokens_spent"] == call["tokens_in"] + call["tokens_out"] > 0
    entries = (await http.get(f"/v1/runs/{run_id}/ledger", params={"limit": 100})).json()["entries"]
    assert [entry["kind"] for entry in entries].count("gateway.call") == 1
    assert (await http.get(f"/v1/runs/{run_id}/verify")).json()["valid"]


async def test_a_run_waits_for_no_call_for_ever_and_names_those_that_are_open(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_for(project: ProjectId, run_id: RunId) -> list[CallId]:
        del project, run_id
        return [CallId("call_a")]

    monkeypatch.setattr(treasurer, "CALL_SETTLES_SECONDS", 0.2)
    monkeypatch.setattr(system.gateway, "open_for", open_for)
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        run_id = await begin(http, tasks=[talk(1)])
        await reached(http, run_id, "completed")
    entries = (await http.get(f"/v1/runs/{run_id}/ledger", params={"limit": 100})).json()["entries"]
    changes = [entry["payload"] for entry in entries if entry["kind"] == "run.changed"]
    assert changes == [{"change": "calls_open", "calls": ["call_a"]}]
    assert [entry["kind"] for entry in entries].count("gateway.call") == 1


async def test_a_cap_that_comes_later_counts_what_was_spent_before(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work):
        gate = {**talk(1), "name": "gate", "after": ["talk"], "approval": True}
        run_id = await begin(http, tasks=[talk(3), gate])
        took = (await reached(http, run_id, "paused"))["budget"]["tokens_spent"]
        await http.post(f"/v1/runs/{run_id}/resume", json={"budget": {"tokens": took}})

        async def broke() -> bool:
            return (await look(http, run_id))["paused_by"] == "budget"

        await eventually(broke)
        assert (await look(http, run_id))["budget"]["tokens_spent"] == took
