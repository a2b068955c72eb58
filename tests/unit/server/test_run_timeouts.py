"""The time-out of a task: it is the time in which its turn is worked on, and no other."""

import asyncio
import json
from typing import Any

import httpx2

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ToolCallId, TurnId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import Grant, MessageType, ToolCall
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Enqueue, Suspend
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


def task(name: str, seconds: float, timeout: float, **more: Any) -> Json:
    return {"name": name, "agent": "ann", "input": {"s": seconds}, "timeout_seconds": timeout, **more}


async def work(grant: Grant) -> tuple[Outcome, Text]:
    await asyncio.sleep(json.loads(grant.turn.payload)["s"])
    return Outcome.SUCCESS, grant.turn.payload


async def begin(http: httpx2.AsyncClient, *tasks: Json) -> str:
    answer = await http.post("/v1/runs", json={"goal": "get it done", "tasks": list(tasks)})
    assert answer.status_code == 201, answer.text
    return f"/v1/runs/{answer.json()['run_id']}"


async def act(http: httpx2.AsyncClient, run: str, verb: str, **body: Any) -> None:
    answer = await http.post(f"{run}/{verb}", json=body)
    assert answer.status_code == 200, answer.text


async def at_rest(http: httpx2.AsyncClient, run: str) -> Json:
    async def resting() -> bool:
        return (await http.get(run)).json()["at_rest"]

    await eventually(resting)
    return (await http.get(run)).json()


async def under_way(system: System) -> None:
    async def running() -> bool:
        mailbox = await system.kernel.store.head(DEFAULT_PROJECT, AgentId("ann"))
        return mailbox is not None and mailbox.head.status is HeadStatus.RUNNING

    await eventually(running)


async def error_of(http: httpx2.AsyncClient, run: str, name: str) -> str | None:
    error = (await http.get(f"{run}/tasks/{name}")).json()["error"]
    return None if error is None else error["code"]


async def test_a_wait_in_line_is_no_work(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann", work=work):
        slow = [task(name, 0.3, 2.0, on_failure="continue") for name in "abcdefgh"]
        run = await begin(http, *slow, task("hangs", 60, 0.2, on_failure="continue"))
        done = await at_rest(http, run)
        assert done["tasks"] == {"succeeded": 8, "failed": 1}
        assert await error_of(http, run, "hangs") == "task_timed_out"


async def test_what_was_taken_from_its_worker_begins_anew(system: System, http: httpx2.AsyncClient) -> None:
    async def hang_at_first(grant: Grant) -> tuple[Outcome, Text]:
        await asyncio.sleep(60 if grant.fresh else 0)
        return Outcome.SUCCESS, grant.turn.payload

    async with crew(system.kernel, "ann", work=hang_at_first):
        run = await begin(http, task("a", 0, 2.0))
        await under_way(system)
        await act(http, run, "pause", force=True)
        await at_rest(http, run)
        await asyncio.sleep(2.1)
        await act(http, run, "resume")
        done = await at_rest(http, run)
        assert (done["status"], done["tasks"]) == ("completed", {"succeeded": 1})


async def test_a_graceful_pause_comes_to_rest_though_a_task_hangs(system: System, http: httpx2.AsyncClient) -> None:
    async with crew(system.kernel, "ann", work=work):
        run = await begin(http, task("hangs", 60, 0.4), task("next", 0, 60, after=["hangs"]))
        await under_way(system)
        await act(http, run, "pause")
        resting = await at_rest(http, run)
        assert (resting["status"], resting["tasks"]) == ("paused", {"failed": 1, "skipped": 1})
        assert await error_of(http, run, "hangs") == "task_timed_out"


async def test_waiting_for_tools_is_work(system: System, http: httpx2.AsyncClient) -> None:
    async def ask(grant: Grant) -> tuple[Outcome, Text]:
        call = ToolCall(ToolCallId("c1"), "search", Text("{}"), 60.0)
        await system.kernel.suspend(Suspend(fence=fence_of(grant), calls=(call,)))
        await asyncio.Event().wait()
        raise AssertionError

    async with crew(system.kernel, "ann", work=ask):
        run = await begin(http, task("asks", 0, 0.3))
        assert (await at_rest(http, run))["status"] == "failed"
        assert await error_of(http, run, "asks") == "task_timed_out"


async def test_a_task_that_is_tried_again_leaves_nobody_at_work(system: System, http: httpx2.AsyncClient) -> None:
    kernel, asked = system.kernel, list[TurnId]()
    ended: list[Outcome | None] = []

    async def ask(grant: Grant) -> tuple[Outcome, Text]:
        turn = grant.turn
        if turn.agent_id == "ann":
            for turn_id in asked:
                end = await kernel.deliverables.get(DEFAULT_PROJECT, turn_id)
                ended.append(None if end is None else end.status)
            child = Enqueue(
                key=(DEFAULT_PROJECT, AgentId("bob")),
                type=MessageType.TURN,
                payload=Text("1"),
                source=turn.agent_id,
                parent_turn_id=turn.turn_id,
                run_id=turn.run_id,
                depth=1,
            )
            asked.append((await kernel.enqueue(child)).turn_id)
        await asyncio.Event().wait()
        return Outcome.SUCCESS, Text("1")

    async with crew(kernel, "ann", "bob", work=ask):
        run = await begin(http, task("a", 0, 0.3, retries=1, backoff_seconds=0.01, on_failure="continue"))
        assert (await at_rest(http, run))["tasks"] == {"failed": 1}
    assert ended == [Outcome.STOP]
    entries = (await http.get(f"{run}/ledger", params={"limit": 100})).json()["entries"]
    ends = {entry["payload"]["turn_id"]: entry["payload"] for entry in entries if entry["kind"] == "turn.ended"}
    assert [ends[turn_id]["status"] for turn_id in asked] == ["stop", "stop"]
