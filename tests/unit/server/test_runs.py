"""Runs over HTTP: from a goal to its end, held, resumed, killed, and what is refused with which code."""

from typing import Any

import httpx2

from homeostat.app.assemble import System
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
