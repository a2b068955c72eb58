"""A task is shown as running while somebody works on its turn, and not before."""

import asyncio
from typing import Any

import httpx2

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


class Hands:
    """Works on one task after another, each until it may end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def work(self, grant: Grant) -> tuple[Outcome, Text]:
        self.begun.set()
        await self.may_end.wait()
        return Outcome.SUCCESS, grant.turn.payload


async def begin(http: httpx2.AsyncClient, hands: Hands) -> str:
    tasks = [{"name": name, "agent": "ann", "input": name} for name in "abc"]
    last = {"name": "last", "agent": "ann", "after": ["a"]}
    answer = await http.post("/v1/runs", json={"goal": "get it done", "tasks": [*tasks, last]})
    assert answer.status_code == 201, answer.text
    await hands.begun.wait()
    return f"/v1/runs/{answer.json()['run_id']}"


async def shown(http: httpx2.AsyncClient, run: str, **query: str) -> dict[str, str]:
    listed = (await http.get(f"{run}/tasks", params=query)).json()["tasks"]
    return {task["name"]: task["status"] for task in listed}


async def test_a_task_in_line_is_queued(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, hands)
        standing = {"a": "running", "b": "queued", "c": "queued", "last": "waiting"}
        assert await shown(http, run) == standing
        for status in ("running", "queued", "waiting"):
            wanted = {name: word for name, word in standing.items() if word == status}
            assert await shown(http, run, status=status) == wanted
            assert await shown(http, run, q=f"status:{status}") == wanted
        one = (await http.get(f"{run}/tasks/b")).json()
        assert (one["status"], one["started_at"]) == ("queued", None)
        assert (await http.get(f"{run}/tasks/a")).json()["started_at"] is not None
        assert (await http.get(run)).json()["tasks"] == {"waiting": 1, "queued": 2, "running": 1}
        why = (await http.get(run.replace("/v1/", "/v1/why/"))).json()
        assert "2 queued, 1 running" in str(why)
        hands.may_end.set()

        async def done() -> bool:
            return (await http.get(run)).json()["tasks"] == {"succeeded": 4}

        await eventually(done)
        assert set((await shown(http, run, status="succeeded")).values()) == {"succeeded"}
        listed = (await http.get(f"{run}/tasks")).json()["tasks"]
        assert not any("result" in task for task in listed), "a list has no room for what tasks delivered"
        assert (await http.get(f"{run}/tasks/b")).json()["result"] == "b"


async def test_nothing_of_a_run_that_is_held_by_force_is_running(system: System, http: httpx2.AsyncClient) -> None:
    hands = Hands()
    async with crew(system.kernel, "ann", work=hands.work):
        run = await begin(http, hands)
        paused = (await http.post(f"{run}/pause", json={"force": True})).json()
        assert paused["tasks"] == {"waiting": 4}

        async def resting() -> bool:
            return (await http.get(run)).json()["at_rest"]

        await eventually(resting)
        assert (await http.get(run)).json()["tasks"] == {"waiting": 4}
        assert (
            await shown(http, run, status="waiting")
            == await shown(http, run)
            == dict.fromkeys(["a", "b", "c", "last"], "waiting")
        )
        assert await shown(http, run, status="running") == {}
        hands.may_end.set()
        await http.post(f"{run}/resume", json={})

        async def done() -> bool:
            return (await http.get(run)).json()["tasks"] == {"succeeded": 4}

        await eventually(done)
