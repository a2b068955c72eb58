"""Whoever is refused learns what stands in the way: who was first, what to do instead, and why a run failed."""

import asyncio
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


async def begin(http: httpx2.AsyncClient, *tasks: Json, **more: Any) -> str:
    answer = await http.post("/v1/runs", json={"goal": "get it done", "tasks": list(tasks), **more})
    assert answer.status_code == 201, answer.text
    return f"/v1/runs/{answer.json()['run_id']}"


async def reached(http: httpx2.AsyncClient, run: str, status: str) -> Json:
    async def there() -> bool:
        return (await http.get(run)).json()["status"] == status

    await eventually(there)
    return (await http.get(run)).json()


async def refused(http: httpx2.AsyncClient, path: str, **body: Any) -> Json:
    answer = await http.post(path, json=body)
    assert answer.status_code in (409, 422), answer.text
    assert answer.json()["hint"]
    return answer.json()


async def test_the_loser_of_an_answer_learns_who_won(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        risky = {"name": "risky", "agent": "ann", "approval": True}
        run = await begin(http, risky, {"name": "plain", "agent": "ann", "after": ["risky"]})
        await reached(http, run, "paused")
        path = f"{run}/tasks/risky/approve"
        answers = await asyncio.gather(*(http.post(path, json={"actor": n, "reason": "go"}) for n in ("bob", "eve")))
        won, lost = sorted(answers, key=lambda answer: answer.status_code)
        assert (won.status_code, lost.status_code) == (200, 409)
        told = lost.json()
        assert told["code"] == "task_settled"
        assert told["actor"] in ("bob", "eve")
        assert f"approved at {told['at']} by {told['actor']} (go)" in told["detail"]
        assert (await http.get(f"{run}/tasks/risky")).json()["approved_by"] == told["actor"]
        assert (await refused(http, f"{run}/tasks/plain/approve"))["detail"].count(" by ") == 0
        run = await begin(http, risky)
        await reached(http, run, "paused")
        await http.post(f"{run}/tasks/risky/reject", json={"actor": "kim", "reason": "no"})
        told = await refused(http, f"{run}/tasks/risky/approve")
        assert (told["actor"], told["state"]) == ("kim", "failed")
        assert "rejected at" in told["detail"]


async def test_a_plan_is_applied_and_not_resumed(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        run = await begin(http, {"name": "a", "agent": "ann"}, policy={"apply": "manual"})
        told = await refused(http, f"{run}/resume")
        assert (told["code"], told["state"]) == ("run_unapplied", "planned")
        assert "apply" in told["hint"]
        assert (await http.get(run)).json()["status"] == "planned"


async def test_nothing_holds_a_run_that_was_killed(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        run = await begin(http, {"name": "a", "agent": "ann"}, policy={"apply": "manual"})
        assert (await http.post(f"{run}/pause", json={})).json()["paused_by"] == "operator"
        assert (await http.post(f"{run}/kill", json={})).json()["paused_by"] is None
        assert (await refused(http, f"{run}/resume"))["code"] == "run_finished"


async def test_a_failed_run_tells_why_its_task_failed(system: System, http: httpx2.AsyncClient) -> None:
    async def fail(grant: Grant) -> tuple[Outcome, Text]:
        del grant
        return Outcome.FAILED, Text("null")

    async with crew(system.kernel, "ann", work=fail):
        run = await begin(http, {"name": "a", "agent": "ann"})
        error = (await reached(http, run, "failed"))["error"]
    assert error == {
        "code": "task_failed",
        "task": "a",
        "message": "task 'a' failed: wrong",
        "cause": {"code": "wrong"},
    }


async def test_a_cursor_that_is_none_is_refused(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/runs", params={"cursor": "zzz"})
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed_payload")
    assert (await http.get("/v1/runs", params={"cursor": "run_" + "0" * 24})).json()["runs"] == []


async def test_what_is_wrong_with_a_request_comes_with_a_way_out(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann"):
        circle = [{"name": "a", "agent": "ann", "after": ["a"]}]
        assert (await refused(http, "/v1/runs", goal="x", tasks=circle))["code"] == "plan_invalid"
        both = {"tasks": [{"name": "a", "agent": "ann"}], "planner": {"agent": "ann"}}
        assert (await refused(http, "/v1/runs", goal="x", **both))["code"] == "invalid_request"


async def test_whoever_answers_for_a_run_that_was_killed_learns_who_killed_it(
    system: System, http: httpx2.AsyncClient
) -> None:
    """Whether or not what became of its tasks is written down by then."""
    async with crew(system.kernel, "ann"):
        for verb in ("approve", "reject"):
            run = await begin(http, {"name": "risky", "agent": "ann", "approval": True})
            await reached(http, run, "paused")
            path = f"{run}/tasks/risky/{verb}"
            kill = http.post(f"{run}/kill", json={"actor": "bob", "reason": "smoke"})
            killed, lost = await asyncio.gather(kill, http.post(path, json={"actor": "eve"}))
            assert killed.status_code == 200
            assert lost.status_code in (200, 409)
            told = await refused(http, path)
            for one in [told] if lost.status_code == 200 else [told, lost.json()]:
                assert (one["code"], one["actor"]) in (("run_finished", "bob"), ("task_settled", "eve")), one
                assert "it is held" not in one["detail"]
            await reached(http, run, "killed")
            assert "bob (smoke)" in told["detail"] or lost.status_code == 200
        assert "it cannot be killed any more" in (await refused(http, f"{run}/kill?dry_run=1"))["detail"]


@pytest.mark.parametrize("force", [False, True])
async def test_who_pauses_a_run_that_waits_for_an_approval_holds_it(
    system: System, http: httpx2.AsyncClient, *, force: bool
) -> None:
    async with crew(system.kernel, "ann"):
        run = await begin(http, {"name": "risky", "agent": "ann", "approval": True})
        assert (await reached(http, run, "paused"))["paused_by"] == "gate"
        held = await http.post(f"{run}/pause", json={"actor": "kim", "reason": "nobody touches it", "force": force})
        assert (held.status_code, held.json()["paused_by"]) == (200, "operator")
        assert held.json()["moved"]["actor"] == "kim"
        approved = await http.post(f"{run}/tasks/risky/approve", json={"actor": "bob"})
        assert (approved.status_code, approved.json()["status"]) == (200, "paused")
        assert (await refused(http, f"{run}/pause"))["actor"] == "kim"
        await http.post(f"{run}/resume", json={"actor": "kim"})
        assert (await reached(http, run, "completed"))["tasks"] == {"succeeded": 1}
