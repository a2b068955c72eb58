"""Runs over HTTP: from a goal to its end, held, resumed, killed, and what is refused with which code."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.records.run import RunConfig, TaskSpec
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.wire.runs import TaskBody
from homeostat.runs.plan import spec_of
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


def task(name: str, *after: str, agent: str = "ann", **more: Any) -> Json:
    return {"name": name, "agent": agent, "input": {"do": name}, "after": list(after), **more}


async def begin(http: httpx2.AsyncClient, *tasks: Json, **more: Any) -> Json:
    answer = await http.post("/v1/runs", json={"goal": "get it done", "tasks": list(tasks), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def look(http: httpx2.AsyncClient, run: Json) -> Json:
    return (await http.get(f"/v1/runs/{run['run_id']}")).json()


async def reached(http: httpx2.AsyncClient, run: Json, status: str) -> Json:
    async def there() -> bool:
        return (await look(http, run))["status"] == status

    await eventually(there)
    return await look(http, run)


async def at_rest(http: httpx2.AsyncClient, run: Json) -> Json:
    async def resting() -> bool:
        return (await look(http, run))["at_rest"]

    await eventually(resting)
    return await look(http, run)


async def test_tasks_run_in_order_and_the_run_completes(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann", "bob") as hands:
        last = task("last", "first", "second")
        last["input"] = {"both": [{"$result": "first"}, {"$result": "second"}]}
        run = await begin(http, last, task("first"), task("second", agent="bob"))
        done = await reached(http, run, "completed")
    assert done["tasks"] == {"succeeded": 3}
    assert done["moved"]["actor"] == "homeostat"
    assert len(hands.begun) == 3
    shown = (await http.get(f"/v1/runs/{run['run_id']}/tasks/last")).json()
    assert shown["result"] == {"both": [{"do": "first"}, {"do": "second"}]}
    assert shown["attempt"] == 1


async def test_a_seed_is_a_number_that_every_reader_of_json_can_hold(http: httpx2.AsyncClient) -> None:
    """A browser and jq know no whole number above 2^53: whoever copied a larger one from there had another seed."""
    await http.post("/v1/agents/register", json={"agent_type": "test", "agent_id": "ann"})
    seeds = {(await begin(http, task("only"), seed=None))["seed"] for _ in range(4)}
    assert len(seeds) == 4
    assert max(seeds) < 2**53


class Hands:
    """What a crew does with a turn, by the name of the task: wait for a word, fail so many times, or agree."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.waiting: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []

    async def work(self, grant: Grant) -> tuple[Outcome, Text]:
        name = json.loads(grant.turn.payload).get("do", "")
        self.begun.append(name)
        if (word := self.waiting.get(name)) is not None:
            await word.wait()
        if self.failing.get(name, 0) > 0:
            self.failing[name] -= 1
            return Outcome.FAILED, Text("null")
        return Outcome.SUCCESS, grant.turn.payload

    async def has_begun(self, name: str, times: int = 1) -> None:
        async def begun() -> bool:
            return self.begun.count(name) >= times

        await eventually(begun)


async def act(http: httpx2.AsyncClient, run: Json, verb: str, status: int = 200, **body: Any) -> Json:
    answer = await http.post(f"/v1/runs/{run['run_id']}/{verb}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["step\u00a01", "👩\u200d💻", "\u202egnp", "手順\u30001", "a/b"])
async def test_a_task_is_found_by_whatever_name_it_was_given(
    system: System, http: httpx2.AsyncClient, name: str
) -> None:
    path = quote(name, safe="")
    async with crew(system.kernel, "ann"):
        run = await begin(http, task(name, approval=True))
        await reached(http, run, "paused")
        assert (await http.get(f"/v1/runs/{run['run_id']}/tasks/{path}")).json()["name"] == name
        await act(http, run, f"tasks/{path}/approve")
        await reached(http, run, "completed")


@pytest.mark.parametrize("on_failure", ["fail", "continue"])
async def test_a_task_fails_that_is_too_large_with_the_results_it_asks_for(
    system: System, http: httpx2.AsyncClient, on_failure: str
) -> None:
    async def work(grant: Grant) -> tuple[Outcome, Text]:
        return Outcome.SUCCESS, Text(f'"{"x" * 600_000}"')

    both = task("both", "first", "second", on_failure=on_failure)
    both["input"] = [{"$result": "first"}, {"$result": "second"}]
    last = task("last", "first")
    last["input"] = {"$result": "first"}
    async with crew(system.kernel, "ann", work=work):
        run = await begin(http, task("first"), task("second"), both, last, task("never", "both"))
        done = await at_rest(http, run)
    assert done["status"] == ("failed" if on_failure == "fail" else "completed")
    shown = (await http.get(f"/v1/runs/{run['run_id']}/tasks/both")).json()
    assert (shown["status"], shown["error"]["code"]) == ("failed", "payload_too_large")
    assert (await http.get(f"/v1/runs/{run['run_id']}/tasks/never")).json()["status"] == "skipped"


async def test_a_failed_task_is_tried_again_and_then_fails_its_run(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.failing = {"shaky": 2, "bad": 9}
    async with crew(system.kernel, "ann", "bob", work=hands.work):
        run = await begin(http, task("shaky", retries=2, backoff_seconds=0.01))
        assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 1}
        assert hands.begun == ["shaky"] * 3
        run = await begin(http, task("bad", retries=1, backoff_seconds=0.01), task("never", "bad"))
        failed = await at_rest(http, run)
    assert failed["status"] == "failed"
    assert failed["error"]["task"] == "bad"
    assert failed["tasks"] == {"failed": 1, "skipped": 1}
    assert "never" not in hands.begun


async def test_what_does_not_depend_on_a_failure_goes_on(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.failing = {"bad": 1}
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(
            http, task("bad", on_failure="continue"), task("after bad", "bad"), task("then", "after bad"), task("good")
        )
        done = await reached(http, run, "completed")
        path = f"/v1/runs/{run['run_id']}"
        entries = (await http.get(f"{path}/ledger", params={"limit": 100})).json()["entries"]
        assert (await http.get(f"{path}/verify")).json()["valid"]
        replayed = await http.post(f"{path}/replay", json={})
    assert done["tasks"] == {"failed": 1, "skipped": 2, "succeeded": 1}
    assert done["moved"]["reason"] == "1 of 4 tasks succeeded, 1 failed, 2 skipped"
    skipped = [entry["payload"] for entry in entries if entry["payload"].get("change") == "skipped"]
    assert [name for said in skipped for name in said["tasks"]] == ["after bad", "then"], (
        "the ledger tells of them, too"
    )
    assert replayed.json()["verdict"] != "tampered"


async def test_a_task_that_takes_too_long_is_stopped(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.waiting = {"slow": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work) as made:
        run = await begin(http, task("slow", timeout_seconds=0.1))
        failed = await at_rest(http, run)
        assert failed["status"] == "failed"
        shown = (await http.get(f"/v1/runs/{run['run_id']}/tasks/slow")).json()
        assert shown["error"]["code"] == "task_timed_out"
        assert made.revoked == [shown["turn_id"]]


async def test_a_graceful_pause_lets_tasks_end_and_a_resume_goes_on_after_them(
    system: System, http: httpx2.AsyncClient
) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, task("first"), task("second", "first"))
        await hands.has_begun("first")
        paused = await act(http, run, "pause", actor="bob", reason="lunch")
        assert (paused["status"], paused["paused_by"], paused["moved"]["actor"]) == ("paused", "operator", "bob")
        hands.waiting["first"].set()
        resting = await at_rest(http, run)
        assert resting["tasks"] == {"succeeded": 1, "waiting": 1}
        lost = await act(http, run, "pause", 409, actor="eve")
        assert lost["code"] == "run_overtaken"
        assert "bob" in lost["detail"]
        await act(http, run, "resume")
        done = await reached(http, run, "completed")
    assert done["tasks"] == {"succeeded": 2}
    assert hands.begun == ["first", "second"]


async def test_a_forced_pause_puts_turns_back_and_a_resume_gives_them_out_again(
    system: System, http: httpx2.AsyncClient
) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work) as made:
        run = await begin(http, task("first"), task("second", "first"))
        await hands.has_begun("first")
        await act(http, run, "pause", force=True)
        await at_rest(http, run)
        shown = (await http.get(f"/v1/runs/{run['run_id']}/tasks/first")).json()
        turn = (await http.get(f"/v1/turns/{shown['turn_id']}")).json()
        assert turn["status"] == "queued"
        assert made.revoked == [shown["turn_id"]]
        answer = await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {"do": "other"}})
        await hands.has_begun("other")  # its agent is free for others
        assert answer.status_code == 202
        hands.waiting["first"].set()
        assert hands.begun.count("first") == 1
        await act(http, run, "resume")
        assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 2}
    assert hands.begun.count("first") == 2


async def test_a_run_that_is_resumed_as_soon_as_it_was_paused_by_force_goes_on(
    system: System, http: httpx2.AsyncClient
) -> None:
    """Whoever drives it may only hear of the pause when that is over."""
    hands = Hands()
    async with crew(system.kernel, "ann", work=hands.work):
        for _ in range(8):
            hands.waiting = {"first": asyncio.Event()}
            hands.begun.clear()
            run = await begin(http, task("first"), task("second", "first"))
            await hands.has_begun("first")
            await act(http, run, "pause", force=True)
            await act(http, run, "resume")
            hands.waiting["first"].set()
            assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 2}
            assert not system.kernel.flusher.held_runs


async def test_a_run_that_is_held_here_alone_is_let_go(system: System, http: httpx2.AsyncClient) -> None:
    """That it goes on was never heard, as word of it was lost with the bus, or came before that it rests."""
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, task("first"), task("second", "first"))
        await hands.has_begun("first")
        system.kernel.hold_run(run["run_id"])
        hands.waiting["first"].set()
        assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 2}
        assert not system.kernel.flusher.held_runs


async def test_a_kill_stops_turns_and_starts_nothing_more(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work) as made:
        run = await begin(http, task("first"), task("queued"), task("second", "first"))
        await hands.has_begun("first")
        killed = await act(http, run, "kill", actor="bob", reason="runaway")
        assert killed["status"] == "killed"
        resting = await at_rest(http, run)
        assert resting["tasks"] == {"stopped": 3}
        assert hands.begun == ["first"], "what was in line is not begun either"
        shown = (await http.get(f"/v1/runs/{run['run_id']}/tasks/first")).json()
        end = (await http.get(f"/v1/turns/{shown['turn_id']}/deliverable")).json()
        assert end["status"] == "stop"
        assert made.revoked == [shown["turn_id"]]
        for verb in ("pause", "resume", "kill", "apply"):
            refused = await act(http, run, verb, 409)
            assert refused["code"] == "run_finished"
            assert "bob" in refused["detail"]
        message = {"type": "turn", "payload": {}, "run_id": run["run_id"]}
        refused = await http.post("/v1/agents/ann/inbox", json=message)
        assert (refused.status_code, refused.json()["code"]) == (409, "run_closed")


async def test_a_message_names_a_run_of_its_own_project_or_is_refused(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    other = {"x-homeostat-project": "other"}
    assert (
        await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "eve"}, headers=other)
    ).is_success
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, task("first"))
        await hands.has_begun("first")
        for agent, named, headers in (
            ("eve", run["run_id"], other),
            ("ann", "run_" + "0" * 24, {}),
            ("ann", "none at all", {}),
        ):
            message = {"type": "turn", "payload": {}, "run_id": named}
            refused = await http.post(f"/v1/agents/{agent}/inbox", json=message, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (404, "run_unknown"), agent
        joined = await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {}, "run_id": run["run_id"]})
        assert joined.status_code == 202
        await act(http, run, "kill")
        await at_rest(http, run)
        end = (await http.get(f"/v1/turns/{joined.json()['turn_id']}/deliverable")).json()
        assert end["status"] == "stop"


async def test_a_plan_waits_where_its_policy_says_so(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann") as made:
        run = await begin(http, task("only"), policy={"apply": "manual"})
        assert run["status"] == "planned"
        assert not made.begun
        await act(http, run, "apply", reason="looks right")
        await reached(http, run, "completed")


async def test_a_task_waits_for_approval_and_holds_its_run(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        run = await begin(http, task("first"), task("risky", "first", approval=True), task("last", "risky"))
        held = await reached(http, run, "paused")
        assert held["paused_by"] == "gate"
        assert held["tasks"] == {"succeeded": 1, "held": 1, "waiting": 1}
        await act(http, run, "tasks/risky/approve", actor="ann")
        assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 3}
        assert (await act(http, run, "tasks/risky/approve", 409))["code"] == "task_settled"
        run = await begin(http, task("risky", approval=True))
        await reached(http, run, "paused")
        await act(http, run, "tasks/risky/reject", reason="no")
        assert (await reached(http, run, "failed"))["tasks"] == {"failed": 1}


async def test_an_agent_plans(system: System, http: httpx2.AsyncClient) -> None:
    async def work(grant: Grant) -> tuple[Outcome, Text]:
        asked = json.loads(grant.turn.payload)
        if asked.get("asks") == "plan":
            return Outcome.SUCCESS, Text(json.dumps({"tasks": [task("a"), task("b", "a")]}))
        return Outcome.SUCCESS, grant.turn.payload

    async with crew(system.kernel, "ann", "pat", work=work):
        answer = await http.post("/v1/runs", json={"goal": "x", "planner": {"agent": "pat"}})
        assert answer.json()["status"] == "planning"
        assert (await reached(http, answer.json(), "completed"))["tasks"] == {"succeeded": 2}


async def test_a_plan_that_is_none_fails_the_run(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "pat"):
        answer = await http.post("/v1/runs", json={"goal": "x", "planner": {"agent": "pat"}})
        failed = await reached(http, answer.json(), "failed")
    assert failed["error"]["code"] == "plan_invalid"


async def test_a_function_plans(system: System, http: httpx2.AsyncClient) -> None:
    async def halves(config: RunConfig) -> list[TaskSpec]:
        return [spec_of(TaskBody(name=word, agent="ann")) for word in config.goal.split()]

    system.runs.add_planner("halves", halves)
    async with crew(system.kernel, "ann"):
        answer = await http.post("/v1/runs", json={"goal": "one two", "planner": {"function": "halves"}})
        assert (await reached(http, answer.json(), "completed"))["tasks"] == {"succeeded": 2}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"tasks": [task("a", "b"), task("b", "a")]}, 422, "plan_invalid"),
        ({"tasks": [task("a", "a")]}, 422, "plan_invalid"),
        ({"tasks": [task("a", "nobody")]}, 422, "plan_invalid"),
        ({"tasks": [task("a"), task("a")]}, 422, "plan_invalid"),
        ({"tasks": []}, 422, "plan_invalid"),
        ({"tasks": [{"name": "a"}]}, 422, "plan_invalid"),
        ({"tasks": [{**task("a"), "input": {"$result": "b"}}]}, 422, "plan_invalid"),
        ({"tasks": [task("a", agent="stranger")]}, 422, "target_unknown"),
        ({"tasks": [{"name": "a", "type": "stranger"}]}, 422, "target_unknown"),
        ({"tasks": [task("a")], "budget": {"usd": -1}}, 422, "malformed_payload"),
        ({"tasks": [task("a")], "planner": {"agent": "ann"}}, 422, "invalid_request"),
        ({"planner": {"agent": "stranger"}}, 422, "planner_unknown"),
        ({}, 422, "planner_unknown"),
    ],
)
async def test_what_cannot_be_is_refused_and_changes_nothing(
    system: System, http: httpx2.AsyncClient, body: Json, status: int, code: str
) -> None:
    async with crew(system.kernel, "ann"):
        answer = await http.post("/v1/runs", json={"goal": "x", **body})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await http.get("/v1/runs")).json()["runs"] == []


async def test_the_red_button_kills_and_holds_until_it_is_lifted(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work):
        runs = [await begin(http, task("first")) for _ in range(3)]
        assert (await http.post("/v1/red-button", json={})).status_code == 422
        pressed = (await http.post("/v1/red-button", json={"reason": "smoke", "actor": "bob"})).json()
        assert sorted(pressed["killed"]) == sorted(run["run_id"] for run in runs)
        refused = await http.post("/v1/runs", json={"goal": "x", "tasks": [task("a")]})
        assert (refused.status_code, refused.json()["code"]) == (409, "red_button_pressed")
        assert "smoke" in refused.json()["detail"]
        assert (await http.request("DELETE", "/v1/red-button", json={})).json() == {"pressed": []}
        await reached(http, await begin(http, task("a")), "completed")


async def test_a_repeated_request_makes_one_run(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        body = {"goal": "x", "tasks": [task("a")]}
        head = {"Idempotency-Key": "k1"}
        answers = await asyncio.gather(*(http.post("/v1/runs", json=body, headers=head) for _ in range(4)))
        answers.append(await http.post("/v1/runs", json=body, headers=head))
        assert {answer.status_code for answer in answers} <= {201, 409}, "one that is under way is not begun again"
        assert len({answer.json()["run_id"] for answer in answers if answer.status_code == 201}) == 1
        assert len((await http.get("/v1/runs")).json()["runs"]) == 1
        other = await http.post("/v1/runs", json={**body, "goal": "y"}, headers=head)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_two_operators_at_once_learn_who_won(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    hands.waiting = {"first": asyncio.Event()}
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, task("first"))
        path = f"/v1/runs/{run['run_id']}/kill"
        answers = await asyncio.gather(*(http.post(path, json={"actor": name}) for name in ("bob", "eve", "kim")))
    won = [answer.json() for answer in answers if answer.status_code == 200]
    lost = [answer.json() for answer in answers if answer.status_code == 409]
    assert (len(won), len(lost)) == (1, 2)
    assert all(won[0]["moved"]["actor"] in answer["detail"] for answer in lost)
