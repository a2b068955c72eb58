"""Planners that do not come back: their run fails, can be killed at once, and nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.app.workforce import Workforce
from homeostat.core.codec import Json as JsonText
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId
from homeostat.core.records.run import PlannerKind, RunConfig, Target, TaskSpec
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.wire.runs import TaskBody
from homeostat.runs.conductor import Conductor
from homeostat.runs.plan import spec_of
from homeostat.testing.crews import crew, eventually

PLANS = """
import asyncio, sys, threading, time

begun, told, over = threading.Semaphore(0), threading.Event(), threading.Event()

def plain(run):
    begun.release()
    over.wait(30)
    return []

async def blocks(run):
    begun.release()
    over.wait(30)

async def awaits(run):
    begun.release()
    try:
        await asyncio.sleep(30)
    finally:
        told.set()

async def stubborn(run):
    begun.release()
    while not over.is_set():
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            pass

def leaves(run):
    sys.exit(3)

async def cancels(run):
    raise asyncio.CancelledError

def stops(run):
    raise StopIteration(7)
"""
HANGING = ("plain", "blocks", "awaits", "stubborn")
RAISING = {"leaves": "SystemExit: 3", "cancels": "CancelledError", "stops": "StopIteration: 7"}

Json = dict[str, Any]


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"plans_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(PLANS)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.fixture
def seconds() -> float:
    return 30


@pytest.fixture
async def system(tmp_path: Path, plans: str, seconds: float) -> AsyncIterator[System]:
    named = tuple((name, f"{plans}:{name}") for name in (*HANGING, *RAISING))
    async with assemble(Settings(data_dir=tmp_path / "data", planners=named, planner_seconds=seconds)) as system:
        yield system
    module(plans).over.set()


def module(name: str) -> Any:
    return __import__(name)


async def begin(http: httpx2.AsyncClient, function: str) -> str:
    answer = await http.post("/v1/runs", json={"goal": "x", "planner": {"function": function}})
    assert answer.status_code == 201, answer.text
    return f"/v1/runs/{answer.json()['run_id']}"


async def at_rest(http: httpx2.AsyncClient, run: str) -> Json:
    async def resting() -> bool:
        return (await http.get(run)).json()["at_rest"]

    await eventually(resting, 10)
    return (await http.get(run)).json()


async def asked(plans: str) -> None:
    async def there() -> bool:
        return module(plans).begun.acquire(blocking=False)

    await eventually(there, 10)


@pytest.mark.parametrize("seconds", [0.2])
@pytest.mark.parametrize("function", HANGING)
async def test_a_function_that_takes_too_long_fails_its_run(http: httpx2.AsyncClient, function: str) -> None:
    run = await begin(http, function)
    failed = await at_rest(http, run)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "planner_timed_out")
    assert failed["moved"]["reason"] == f"the planning function '{function}' took longer than 0.2 s"
    entries = (await http.get(f"{run}/ledger")).json()["entries"]
    (told,) = [entry["payload"] for entry in entries if entry["kind"] == "run.moved"]
    assert (told["to"], told["reason"]) == ("failed", failed["moved"]["reason"])
    assert (await http.get(f"{run}/head")).status_code == 200, "it is sealed"


@pytest.mark.parametrize("seconds", [0.2])
async def test_an_agent_that_takes_too_long_fails_its_run(system: System, http: httpx2.AsyncClient) -> None:
    async def hangs(_: Grant) -> tuple[Outcome, JsonText]:
        await asyncio.sleep(30)
        raise AssertionError("it was not stopped")

    answer = await http.post("/v1/agents/register", json={"agent_type": "planner", "agent_id": "ann"})
    assert answer.is_success, answer.text
    answer = await http.post("/v1/runs", json={"goal": "x", "planner": {"agent": "ann"}})
    assert answer.status_code == 201, answer.text
    run = f"/v1/runs/{answer.json()['run_id']}"
    await asyncio.sleep(0.5)
    assert (await http.get(run)).json()["status"] == "planning", "what it waits in line is not held against it"
    async with crew(system.kernel, "ann", work=hangs) as hands:
        failed = await at_rest(http, run)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "planner_timed_out")
        assert failed["moved"]["reason"] == "the planning agent 'ann' took longer than 0.2 s"
        assert hands.revoked == hands.begun


@pytest.mark.parametrize("seconds", [0.3])
async def test_the_time_of_a_plan_that_is_there_wakes_nobody(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, step, over = list[Conductor](), Conductor._step, asyncio.Event()

    async def counted(conductor: Conductor) -> bool:
        steps.append(conductor)
        return await step(conductor)

    async def plans(grant: Grant) -> tuple[Outcome, JsonText]:
        if "asks" in grant.turn.payload:
            return Outcome.SUCCESS, JsonText('[{"name": "a", "agent": "ann"}]')
        await over.wait()
        return Outcome.SUCCESS, JsonText("1")

    monkeypatch.setattr(Conductor, "_step", counted)
    async with crew(system.kernel, "ann", work=plans):
        answer = await http.post("/v1/runs", json={"goal": "x", "planner": {"agent": "ann"}})
        assert answer.status_code == 201, answer.text
        await asyncio.sleep(1.0)
        assert len(steps) < 30
        over.set()
        assert (await at_rest(http, f"/v1/runs/{answer.json()['run_id']}"))["status"] == "completed"


@pytest.mark.parametrize("function", HANGING)
async def test_a_run_that_is_being_planned_is_killed_at_once(
    http: httpx2.AsyncClient, plans: str, function: str
) -> None:
    run = await begin(http, function)
    await asked(plans)
    answer = await http.post(f"{run}/kill", json={"reason": "no"})
    assert (answer.status_code, answer.json()["status"]) == (200, "killed")
    assert (await at_rest(http, run))["status"] == "killed"
    if function == "awaits":
        assert await asyncio.to_thread(module(plans).told.wait, 10), "it is told to stop"


async def test_tasks_that_somebody_gives_stand_in_for_a_function_that_hangs(
    system: System, http: httpx2.AsyncClient, plans: str
) -> None:
    run = await begin(http, "awaits")
    await asked(plans)
    async with crew(system.kernel, "ann"):
        answer = await http.post(f"{run}/plan", json={"tasks": [{"name": "a", "agent": "ann"}]})
        assert answer.status_code == 200, answer.text
        assert (await at_rest(http, run))["status"] == "completed"
    assert await asyncio.to_thread(module(plans).told.wait, 10)


@pytest.mark.parametrize("function", HANGING)
async def test_a_function_that_hangs_holds_up_no_shutdown(tmp_path: Path, plans: str, function: str) -> None:
    async with asyncio.timeout(10):
        async with assemble(Settings(data_dir=tmp_path, planners=(("it", f"{plans}:{function}"),))) as system:
            config = RunConfig(goal="x", seed=1, planner=PlannerKind.FUNCTION, planner_name="it")
            await system.runs.control.create(DEFAULT_PROJECT, config, None, actor="bob")
            await asked(plans)
    module(plans).over.set()


@pytest.mark.parametrize(("function", "words"), RAISING.items())
async def test_a_function_that_leaves_fails_its_run_and_not_its_server(
    http: httpx2.AsyncClient, function: str, words: str
) -> None:
    failed = await at_rest(http, await begin(http, function))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "planner_failed")
    assert words in failed["error"]["message"]


async def test_a_store_that_is_away_for_a_moment_fails_no_plan(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def one(config: RunConfig) -> list[TaskSpec]:
        return [spec_of(TaskBody(name=config.goal, agent="ann"))]

    system.runs.add_planner("one", one)
    find, failures = Workforce.find, [StoreUnavailable(problem="away")]

    async def away(self: Workforce, project: ProjectId, target: Target) -> list[AgentId]:
        if failures:
            raise failures.pop()
        return await find(self, project, target)

    async with crew(system.kernel, "ann"):
        monkeypatch.setattr(Workforce, "find", away)
        assert (await at_rest(http, await begin(http, "one")))["status"] == "completed"
    assert failures == []
