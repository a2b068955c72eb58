"""What a run may spend: refused at the gateway, warned of, paused for, raised, and nothing after a kill."""

import asyncio
import math
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from homeostat import Client
from homeostat.app.assemble import System
from homeostat.core.clock import Millis
from homeostat.core.codec import Json as Text
from homeostat.core.errors import HomeostatError, InvalidRequest
from homeostat.core.ids import DEFAULT_PROJECT, RunId
from homeostat.core.records.budget import Amount, Budget, BudgetKind, BudgetLimit
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.view import Outcome
from homeostat.gateway.office import Office
from homeostat.runs.budget import judge
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


class Callers:
    """Agents whose every task is one model call of so many tokens."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.keys: dict[str, str] = {}
        self.answers: list[int] = []
        self.may_call = asyncio.Event()
        self.may_call.set()
        self.begun = asyncio.Event()

    async def register(self, *names: str) -> None:
        for name in names:
            body = {"agent_type": "caller", "agent_id": name}
            self.keys[name] = (await self._http.post("/v1/agents/register", json=body)).json()["api_key"]

    async def call(self, name: str, **headers: str) -> httpx2.Response:
        body = {"model": "gpt-4o-mini", "max_tokens": 40, "messages": [{"role": "user", "content": "a word"}]}
        head = {"authorization": f"Bearer {self.keys[name]}", **headers}
        return await self._http.post("/openai/v1/chat/completions", json=body, headers=head)

    async def work(self, grant: Grant) -> tuple[Outcome, Text]:
        self.begun.set()
        await self.may_call.wait()
        answer = await self.call(grant.turn.agent_id)
        self.answers.append(answer.status_code)
        return (Outcome.SUCCESS if answer.status_code == 200 else Outcome.FAILED), Text("null")


async def begin(http: httpx2.AsyncClient, count: int, **more: Any) -> Json:
    tasks = [{"name": f"t{number}", "type": "caller", "input": {}} for number in range(count)]
    answer = await http.post("/v1/runs", json={"goal": "spend", "tasks": tasks, "policy": {"parallel": 1}, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def look(http: httpx2.AsyncClient, run: Json) -> Json:
    return (await http.get(f"/v1/runs/{run['run_id']}")).json()


async def reached(http: httpx2.AsyncClient, run: Json, status: str) -> Json:
    async def there() -> bool:
        found = await look(http, run)
        return found["status"] == status and found["at_rest"]

    await eventually(there, 20)
    return await look(http, run)


async def test_a_used_up_budget_pauses_the_run_and_more_lets_it_end(system: System, http: httpx2.AsyncClient) -> None:
    callers = Callers(http)
    await callers.register("ann")
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 8, budget={"tokens": 200})
        paused = await reached(http, run, "paused")
        assert paused["paused_by"] == "budget"
        assert 0 < paused["budget"]["tokens_spent"] <= 200
        assert paused["tasks"].get("failed") is None, "what there was no money for is not the task's fault"
        assert 402 in callers.answers or paused["budget"]["tokens_spent"] == 200
        more = {"budget": {"tokens": 100_000}, "reason": "worth it"}
        assert (await http.post(f"/v1/runs/{run['run_id']}/resume", json=more)).status_code == 200
        done = await reached(http, run, "completed")
    assert done["tasks"] == {"succeeded": 8}
    assert done["budget"]["tokens_max"] == 100_000
    assert done["ledger_entries"] > 8 + 8, "outcomes and model calls are in the ledger"
    ledger = (await http.get(f"/v1/runs/{run['run_id']}/ledger?limit=500")).json()["entries"]
    given_back = [entry for entry in ledger if entry["payload"].get("change") == "given_back"]
    assert len(given_back) == callers.answers.count(402)


async def test_a_task_that_fails_by_itself_once_there_was_money_again_is_not_given_back(
    system: System, http: httpx2.AsyncClient
) -> None:
    callers = Callers(http)
    await callers.register("ann")
    begun: list[Grant] = []

    async def stubborn(grant: Grant) -> tuple[Outcome, Text]:
        begun.append(grant)

        async def let_through() -> bool:
            answer = await callers.call("ann")
            callers.answers.append(answer.status_code)
            return answer.status_code == 200

        await eventually(let_through)
        return Outcome.FAILED, Text("null")

    async with crew(system.kernel, "ann", work=stubborn):
        run = await begin(http, 1, budget={"tokens": 10})

        async def paused() -> bool:
            return (await look(http, run))["status"] == "paused"

        await eventually(paused)
        await http.post(f"/v1/runs/{run['run_id']}/resume", json={"budget": {"tokens": 100_000}})
        failed = await reached(http, run, "failed")
    assert (callers.answers[0], callers.answers[-1]) == (402, 200)
    assert (len(begun), failed["tasks"]) == (1, {"failed": 1})


async def test_a_used_up_budget_fails_the_run_where_its_policy_says_so(
    system: System, http: httpx2.AsyncClient
) -> None:
    callers = Callers(http)
    await callers.register("ann")
    async with crew(system.kernel, "ann", work=callers.work):
        policy = {"parallel": 1, "on_budget": "fail"}
        run = await begin(http, 8, budget={"tokens": 200}, policy=policy)
        failed = await reached(http, run, "failed")
    assert failed["budget"]["tokens_spent"] <= 200


async def test_time_runs_out_only_while_a_run_is_applied(system: System, http: httpx2.AsyncClient) -> None:
    callers = Callers(http)
    await callers.register("ann")
    callers.may_call.clear()
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1, budget={"seconds": 0.2})

        async def paused() -> bool:
            return (await look(http, run))["status"] == "paused"

        await eventually(paused)
        found = await look(http, run)
        assert found["paused_by"] == "budget"
        spent = found["budget"]["seconds_spent"]
        assert spent >= 0.2
        callers.may_call.set()
        resting = await reached(http, run, "paused")
        assert resting["budget"]["seconds_spent"] == spent, "a pause costs no time"
        await http.post(f"/v1/runs/{run['run_id']}/resume", json={"budget": {"seconds": 600}})
        await reached(http, run, "completed")


async def test_calls_of_a_killed_run_are_refused(system: System, http: httpx2.AsyncClient) -> None:
    callers = Callers(http)
    await callers.register("ann")
    callers.may_call.clear()
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1)
        await callers.begun.wait()
        assert (await callers.call("ann")).status_code == 200
        # The kill itself, before anybody has stopped the turn.
        store = system.runs.store
        run_id = RunId(run["run_id"])
        assert await store.ended(run_id) is None
        killing = asyncio.create_task(http.post(f"/v1/runs/{run['run_id']}/kill", json={}))

        async def ended() -> bool:
            return await store.ended(run_id) is not None

        await eventually(ended)
        named = {"x-homeostat-run-id": run["run_id"]}
        refused = await callers.call("ann", **named)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_closed")
        assert (await killing).status_code == 200
        assert (await callers.call("ann", **named)).status_code == 409
        assert (await callers.call("ann")).status_code == 200, "an agent may do other work"


async def test_a_warning_pauses_a_run_where_its_policy_says_so(system: System, http: httpx2.AsyncClient) -> None:
    callers = Callers(http)
    await callers.register("ann")
    callers.may_call.clear()
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1, budget={"seconds": 30}, policy={"pause_on_warning": True})
        await callers.begun.wait()
        stored = await system.runs.get(DEFAULT_PROJECT, RunId(run["run_id"]))
        later = Millis(stored.moved.at_ms + 25_000)
        seen = judge(stored, None, later)
        assert (seen.ending, seen.used_up) == ((BudgetLimit.SECONDS,), None)
        assert seen.forecast == "time cap reached in 5 s"
        run = await begin(http, 1, budget={"seconds": 0.3}, policy={"pause_on_warning": True})

        async def paused() -> bool:
            return (await look(http, run))["status"] == "paused"

        await eventually(paused)
        found = await look(http, run)
        assert found["budget"]["warned"] or found["paused_by"] == "budget"  # a slow machine may see the end first


async def test_nothing_is_foretold_of_a_run_that_is_paused(system: System, http: httpx2.AsyncClient) -> None:
    callers = Callers(http)
    await callers.register("ann")
    callers.may_call.clear()
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1, budget={"seconds": 300})
        await callers.begun.wait()
        foretold = (await look(http, run))["budget"]
        assert foretold["forecast"].startswith("time cap reached in ")
        assert foretold["reached_in_seconds"] > 0
        assert (await http.post(f"/v1/runs/{run['run_id']}/pause", json={"force": True})).status_code == 200
        held = (await look(http, run))["budget"]
        assert (held["forecast"], held["reached_in_seconds"]) == (None, None), "its pace is none"


async def test_a_client_sends_no_budget_that_bounds_nothing(client: Client) -> None:
    """JSON has no word for these: they would reach the server as no bound at all."""
    for amount in (math.nan, math.inf):
        with pytest.raises(InvalidRequest):
            await client.runs.create("x", tasks=[], budget={"usd": amount})
        with pytest.raises(InvalidRequest):
            await client.runs.resume("run_1", budget={"seconds": amount})


async def test_what_an_agent_s_own_budget_refuses_is_an_ordinary_failure_of_its_task(
    system: System, http: httpx2.AsyncClient
) -> None:
    """Whatever the run may spend: to try it again at once, and for ever, would change nothing."""
    callers = Callers(http)
    await callers.register("ann")
    assert (await http.put("/v1/budgets/agent/ann", json={"tokens": 10})).is_success
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1, budget={"tokens": 100_000})
        failed = await reached(http, run, "failed")
    assert failed["tasks"] == {"failed": 1}
    assert callers.answers == [402]


async def test_a_run_that_has_no_room_for_a_call_is_held_though_word_of_it_is_lost(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untold(office: Office, error: HomeostatError, agent: AgentKey) -> None:
        del office, error, agent

    monkeypatch.setattr(Office, "tell", untold)
    callers = Callers(http)
    await callers.register("ann")
    async with crew(system.kernel, "ann", work=callers.work):
        run = await begin(http, 1, budget={"tokens": 10})
        paused = await reached(http, run, "paused")
    assert paused["paused_by"] == "budget"
    assert paused["moved"]["reason"] == "the tokens cap leaves no room for a call"
    assert paused["tasks"] == {"waiting": 1}
    assert set(callers.answers) == {402}
    assert len(callers.answers) <= 2, "it is not tried again and again"


async def test_no_pace_is_made_of_the_first_moments_of_a_run(system: System, http: httpx2.AsyncClient) -> None:
    await Callers(http).register("ann")
    run = await begin(http, 1, budget={"usd": 2, "seconds": 300})
    stored = await system.runs.get(DEFAULT_PROJECT, RunId(run["run_id"]))
    begun = stored.applying_since_ms or stored.moved.at_ms
    dear = Budget(
        project=DEFAULT_PROJECT,
        kind=BudgetKind.RUN,
        holder=stored.run_id,
        micros_max=2_000_000,
        started_at_ms=begun,
        spent=Amount(1000, 100_000),
    )
    stored = replace(stored, applying_since_ms=begun, paused=None)
    assert judge(stored, dear, Millis(begun + 500)).forecast is None
    assert judge(stored, dear, Millis(begun + 2000)).forecast == "usd cap reached in 38 s"
