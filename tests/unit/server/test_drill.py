"""Fire drills and operations: the real path, measured; the agent let out, and nothing learned."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.adapters.stores.sqlite import SqliteAccess, SqliteEngine
from homeostat.app.assemble import System, assemble
from homeostat.app.holding import StandIns
from homeostat.app.operations import Operations, OperationUnknown
from homeostat.app.settings import Settings
from homeostat.core.codec import Json as JsonText
from homeostat.core.errors import HomeostatError, Overloaded
from homeostat.core.ids import AgentId, Ids, ProjectId
from homeostat.core.limits import OPERATION_HELD_SECONDS, OPERATIONS_RUNNING_MAX
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.call import ToolUse
from homeostat.core.records.immune import Diagnosis
from homeostat.core.records.operation import Operation, OperationStatus
from homeostat.core.records.vitals import Vitals
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.drill import FAULTS
from homeostat.immune.healer import FIRE_DRILL
from homeostat.immune.ward import Move
from homeostat.server.repeats import SEE_TO_IT_THEMSELVES
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import until
from homeostat.testing.suites import access_store

PROJECT = ProjectId("default")
ANN = (PROJECT, AgentId("ann"))
WHY = {"reason": "the monthly drill", "actor": "bea"}
QUICK = Doctrine(tick_seconds=0.02, settle_seconds=0.05, reconcile_seconds=0.05, drain_seconds=2.0)
Json = dict[str, Any]


@pytest.fixture
async def system() -> AsyncIterator[System]:
    """A fleet whose immune system ticks fast, with one agent whose normal is known and others beside it."""
    async with assemble(Settings(ephemeral=True), stand_ins=StandIns(doctrine=QUICK)) as system:
        yield system


@pytest.fixture(autouse=True)
async def ann(system: System, http: httpx2.AsyncClient) -> None:
    luck = random.Random(7)  # noqa: S311 — the same every time
    for name in ("ann", "bob", "cid", "dan", "eva"):
        await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": name})
    for number in range(60):
        for name in ("ann", "bob", "cid", "dan", "eva"):
            system.immune.intake.take(_usual(system, name, number, luck))
        await system.immune.tick()
    assert system.immune.phase_of(ANN) == "healthy"


def _usual(system: System, name: str, number: int, luck: random.Random) -> Vitals:
    tokens = luck.randint(80, 120)
    return Vitals(
        sample_id=f"{name}-{number}",
        project=PROJECT,
        agent_id=AgentId(name),
        at_ms=system.clock.now_ms(),
        source="gateway",
        latency_ms=float(luck.randint(400, 600)),
        tokens_in=luck.randint(300, 500),
        tokens_out=tokens,
        cost_usd=tokens * 1e-5,
        tools=(ToolUse("search", str(number)),) if number % 3 == 0 else (),
    )


async def ended(http: httpx2.AsyncClient, path: str) -> Json:
    async with asyncio.timeout(30):
        while True:
            answer = await http.get(path)
            told: Json = answer.json()
            if told["status"] != "running":
                return told
            assert answer.headers["retry-after"] == "1"
            await asyncio.sleep(QUICK.tick_seconds)


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_drill_goes_down_the_real_path_and_leaves_nothing_behind(
    http: httpx2.AsyncClient, system: System, kind: Diagnosis
) -> None:
    watch = await system.immune.watch_of(ANN)
    normal, quarantines = system.immune.normal.known(ANN), watch.patient.quarantines
    begun = await http.post("/v1/agents/ann/drill", json={"kind": kind, **WHY})
    assert begun.status_code == 202, begun.text
    assert begun.headers["location"].endswith(begun.json()["operation_id"])
    done = await ended(http, begun.headers["location"])
    assert (done["status"], done["error"]) == ("succeeded", None)
    result = done["result"]
    assert (
        0 < result["detected_after_seconds"] <= result["contained_after_seconds"] <= result["recovered_after_seconds"]
    )
    assert (result["released"], result["problem"]) == (True, "")
    assert result["first_hypothesis"]
    health = (await http.get("/v1/agents/ann/health")).json()
    assert health["phase"] == "healthy"
    path = [step["target"] for step in reversed(health["history"])]
    assert path[-4:] == ["draining", "quarantined", "probation", "healthy"]
    incident = (await http.get(f"/v1/immune/incidents/{result['incident_id']}")).json()
    assert (incident["cohort"], incident["treatments"], incident["lost"]) == ("fire drill", [], 0)
    assert system.immune.normal.known(ANN) == normal, "a drill teaches nothing"
    assert not watch.drill
    assert (await system.immune.watch_of(ANN)).patient.quarantines == quarantines
    acts = (await http.get("/v1/audit", params={"q": "verb:drill_agent outcome:done"})).json()["items"]
    assert [(act["actor"], act["reason"]) for act in acts] == [("bea", "the monthly drill")]


async def test_a_drill_is_refused_where_it_would_do_harm(http: httpx2.AsyncClient, system: System) -> None:
    body = {"kind": "cost_overrun", **WHY}
    assert (await http.post("/v1/agents/nobody/drill", json=body)).status_code == 404
    assert (await http.post("/v1/agents/ann/drill", json={**body, "kind": "boredom"})).status_code == 422
    unknown = await http.post("/v1/agents/ann/drill", json={**body, "kind": "unknown"})
    assert (unknown.status_code, unknown.json()["code"]) == (409, "drill_refused")
    tried = await http.post("/v1/agents/ann/drill?dry_run=true", json=body)
    assert [one["agent_id"] for one in tried.json()["agents"]] == ["ann"]
    assert await system.operations.all(PROJECT, before=None, limit=9) == []
    await http.post("/v1/agents/ann/quarantine", json=WHY)
    for path in ("/v1/agents/ann/drill", "/v1/agents/ann/drill?dry_run=true"):
        held = await http.post(path, json=body)
        assert (held.status_code, held.json()["code"]) == (409, "drill_refused"), path


async def test_a_drill_that_is_broken_off_lets_its_agent_out(system: System) -> None:
    drill = asyncio.create_task(
        system.immune.drills.hold(ANN, Diagnosis.COST_OVERRUN, actor="bea", seconds=30.0), name="drill"
    )
    await until(lambda: system.immune.phase_of(ANN) != "healthy")
    drill.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drill
    watch = await system.immune.watch_of(ANN)
    await until(lambda: not watch.drill)
    assert watch.phase in ("healthy", "probation")


@pytest.mark.parametrize("verb", ["quarantine", "kill"])
async def test_whom_an_operator_isolates_during_a_drill_stays_isolated(
    system: System, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    immune = system.immune
    monkeypatch.setattr(immune.drills, "_send", lambda *_, **__: None)  # the drill itself gets nobody isolated
    drill = asyncio.create_task(immune.drills.hold(ANN, Diagnosis.COST_OVERRUN, actor="bea", seconds=30.0))
    watch = await immune.watch_of(ANN)
    await until(lambda: watch.drill)
    order = immune.quarantine if verb == "quarantine" else immune.kill
    await order(ANN, reason="it leaks", actor="cleo")
    done = await drill
    assert (watch.phase, watch.patient.actor, watch.patient.killed) == (Phase.QUARANTINED, "cleo", verb == "kill")
    assert (done.contained_after, done.released) == (None, False)
    assert done.problem == "somebody else isolated it meanwhile, and it stays so"


async def test_whom_a_dead_process_was_draining_for_a_drill_is_let_out_by_the_next(system: System) -> None:
    immune = system.immune
    async with immune.deciding:
        watch = await immune.watch_of(ANN)
        incident = replace(immune.orchestrator.diagnose(watch), cohort=FIRE_DRILL)
        held = Move(watch=watch, event=PhaseEvent.ORDER_QUARANTINE, cause="a drill", incident=incident)
        assert await immune.ward.move(held)
        assert (watch.phase, watch.drill) == (Phase.DRAINING, False), "what is left when nobody is there to end it"
        immune.leading = False
    await until(lambda: immune.phase_of(ANN) in ("probation", "healthy"))
    steps = await immune.store.transitions(ANN, before=None, limit=9)
    assert "its drill ended with the process that held it" in [step.cause for step in steps]


# --- operations ----------------------------------------------------------------------------------------------------


async def test_long_work_is_an_operation_where_that_is_preferred(http: httpx2.AsyncClient) -> None:
    now = await http.get("/v1/audit/verify")
    assert (now.status_code, now.json()["valid"]) == (200, True)
    later = await http.get("/v1/audit/verify", headers={"prefer": "respond-async"})
    assert later.status_code == 202
    done = await ended(http, later.headers["location"])
    assert (done["verb"], done["result"]["valid"]) == ("verify_audit", True)
    listed = (await http.get("/v1/operations")).json()["operations"]
    assert [one["operation_id"] for one in listed] == [done["operation_id"]]
    failed = await http.post("/v1/runs/run_no/replay", json={}, headers={"prefer": "respond-async"})
    told = await ended(http, failed.headers["location"])
    assert (told["status"], told["error"]["code"]) == ("failed", "run_unknown")


async def test_an_operation_is_paged_and_known_by_its_id_alone(http: httpx2.AsyncClient) -> None:
    begun = [await http.get("/v1/audit/verify", headers={"prefer": "respond-async"}) for _ in range(3)]
    for one in begun:
        await ended(http, one.headers["location"])
    names = [one.json()["operation_id"] for one in reversed(begun)]
    first = (await http.get("/v1/operations", params={"limit": 2})).json()
    rest = (await http.get("/v1/operations", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [one["operation_id"] for one in (*first["operations"], *rest["operations"])] == names
    assert rest["next_cursor"] is None
    for name in ("nonsense", "op_00000000000000000000000a", "op_%00"):
        assert (await http.get(f"/v1/operations/{name}")).json()["code"] == "operation_unknown", name


async def test_a_verb_on_many_is_an_operation_and_a_rehearsal_is_none(http: httpx2.AsyncClient) -> None:
    later = {"prefer": "respond-async"}
    tried = await http.post("/v1/red-button?dry_run=true", json=WHY, headers=later)
    assert tried.status_code == 200, tried.text
    assert (await http.get("/v1/operations")).json()["operations"] == []
    pressed = await http.post("/v1/red-button", json=WHY, headers=later)
    assert pressed.status_code == 202, pressed.text
    done = await ended(http, pressed.headers["location"])
    assert (done["status"], done["verb"], done["actor"]) == ("succeeded", "press_button", "bea")


def _explained(error: HomeostatError) -> JsonText:
    return JsonText(f'"{error.code}"')


async def test_another_process_sees_an_operation_run_end_and_be_lost() -> None:
    """Two processes on one store: what one does, the other sees; what one took with it is lost when its hold ends."""
    clock = ManualClock()
    engine = SqliteEngine(None)
    await engine.open()
    store = SqliteAccess(engine)
    one, other = (Operations(store=store, clock=clock, ids=Ids(clock=clock)) for _ in range(2))

    async def seen(operation: Operation) -> Operation:
        mine = await one.get(PROJECT, operation.operation_id)
        assert await other.get(PROJECT, operation.operation_id) == mine
        return mine

    done, never = asyncio.Event(), asyncio.Event()

    async def work() -> list[int]:
        await done.wait()
        return [1]

    short = await one.begin(PROJECT, "v", "o", work, actor="a", explain=_explained)
    long = await one.begin(PROJECT, "v", "o", never.wait, actor="a", explain=_explained)
    for _ in range(4):
        clock.advance(OPERATION_HELD_SECONDS / 2)
        await one.tick()
        assert (await seen(short)).status is OperationStatus.RUNNING, "its owner renews it"
    done.set()
    await one._tasks[short.operation_id]
    assert ((await seen(short)).status, (await seen(short)).result) == (OperationStatus.SUCCEEDED, "[1]")
    clock.advance(OPERATION_HELD_SECONDS)
    assert (await other.get(PROJECT, long.operation_id)).status is OperationStatus.LOST, "nobody has renewed it"
    assert (await one.get(PROJECT, long.operation_id)).status is OperationStatus.RUNNING, "its owner knows better"
    await one.tick()
    assert (await seen(long)).status is OperationStatus.RUNNING
    await one.close()
    assert (await seen(long)).status is OperationStatus.LOST, "a process that ends in peace says so at once"
    await engine.close()


async def test_what_a_killed_process_was_at_is_lost_when_the_next_one_starts(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with assemble(settings) as system:
        left = access_store.operation(until=system.clock.now_ms() + 60_000)
        await system.operations._store.put_operation(left)
        assert (await system.operations.get(PROJECT, left.operation_id)).status is OperationStatus.RUNNING
    async with assemble(settings) as system:
        assert (await system.operations.get(PROJECT, left.operation_id)).status is OperationStatus.LOST


async def test_operations_are_bounded_and_end_with_their_process(system: System) -> None:
    never = asyncio.Event()
    operations = system.operations

    async def begin() -> Operation:
        return await operations.begin(PROJECT, "v", "o", never.wait, actor="a", explain=_explained)

    begun = [await begin() for _ in range(OPERATIONS_RUNNING_MAX)]
    with pytest.raises(Overloaded):
        await begin()
    with pytest.raises(OperationUnknown):
        await operations.get(ProjectId("other"), begun[0].operation_id)
    await asyncio.sleep(0)
    await operations.close()
    assert {(await operations.get(PROJECT, one.operation_id)).status for one in begun} == {OperationStatus.LOST}
    assert "drill_agent" not in SEE_TO_IT_THEMSELVES
