"""Whoever is held by a budget was warned of it: by an event, once, whichever cap it was, and in words that say why."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec

from homeostat.app.assemble import System
from homeostat.app.feed import Kind
from homeostat.core.codec import Json as Text
from homeostat.core.codec import from_json
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.testing.crews import crew, eventually
from tests.unit.server.talkers import Json, Talkers, begin, look, reached, talk


@asynccontextmanager
async def warnings(system: System) -> AsyncGenerator[list[Json]]:
    """What is said of budgets within the block, as events that everybody hears; webhooks hear the same."""
    heard: list[Json] = []

    async def hear(event: Event) -> None:
        heard.append(msgspec.json.decode(event.payload, type=dict[str, Any]))

    await system.bus.subscribe(subject("*", Channel.EVT, "run", "*", "budget_warning"), hear)
    yield heard


async def test_time_that_runs_out_is_warned_of_once(system: System, http: httpx2.AsyncClient) -> None:
    may_end = asyncio.Event()

    async def work(grant: Grant) -> tuple[Outcome, Text]:
        await may_end.wait()
        return Outcome.SUCCESS, grant.turn.payload

    await http.post("/v1/agents/register", json={"agent_type": "slow", "agent_id": "ann"})
    slow = {"name": "slow", "agent": "ann", "input": {}}
    async with crew(system.kernel, "ann", work=work), warnings(system) as heard:
        reader = await system.feed.follow(DEFAULT_PROJECT, frozenset({Kind.BUDGET}), None)
        run_id = await begin(http, tasks=[slow, {**slow, "name": "next"}], budget={"seconds": 1.5})

        async def warned() -> bool:
            return (await look(http, run_id))["budget"]["warned"] and bool(heard)

        await eventually(warned)
        await reached(http, run_id, "paused", rests=False)
        await http.post(f"/v1/runs/{run_id}/resume", json={})
        await reached(http, run_id, "paused", rests=False)
        may_end.set()
        await reached(http, run_id, "paused")
        assert len(heard) == 1
        told = heard[0]
        assert (told["holder"], told["seconds_max"]) == (run_id, 1.5)
        assert told["seconds_spent"] >= 1.2
        assert "of 1.5 s" in told["reason"]
        await reader.news(5)
        (entry,) = reader.take()
        shown = from_json(Text(entry.data.decode()))
        assert isinstance(shown, dict)
        assert (shown["kind"], shown["holder_kind"], shown["holder"]) == ("budget", "run", run_id)
        reader.close()
        assert (await http.get(f"/v1/budgets/run/{run_id}")).json()["warned_at"] is not None
        await http.post(f"/v1/runs/{run_id}/resume", json={"budget": {"seconds": 60}})
        assert not (await reached(http, run_id, "completed"))["budget"]["warned"], "another budget, another warning"


async def test_a_call_that_is_refused_early_is_warned_of_and_says_what_it_wanted(
    system: System, http: httpx2.AsyncClient
) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work), warnings(system) as heard:
        run_id = await begin(http, tasks=[talk(1)], budget={"tokens": 30_000})
        one = (await reached(http, run_id, "completed"))["budget"]["tokens_spent"]
        bound = 40 + 100  # what it may answer, and its bytes, about
        run_id = await begin(http, tasks=[talk(20)], budget={"tokens": one + bound})
        paused = await reached(http, run_id, "paused")

        async def told() -> bool:
            return bool(heard)

        await eventually(told)
    budget, reason = paused["budget"], paused["moved"]["reason"]
    assert paused["paused_by"] == "budget"
    assert 0 < budget["tokens_spent"] < 0.8 * (one + bound)
    assert budget["warned"]
    assert [told["holder"] for told in heard] == [run_id]
    assert "the tokens cap leaves no room for a call of up to" in reason
    assert f"{budget['tokens_spent']} of {one + bound} are spent" in reason
    assert budget["forecast"] == "no room is left for the next call"
    assert budget["reached_in_seconds"] is None
    log = (await http.get("/v1/calls", params={"run_id": run_id, "outcome": "refused"})).json()["calls"]
    assert log[0]["code"] == "budget_exceeded"


async def test_a_run_that_fails_for_its_budget_was_warned_of_it(system: System, http: httpx2.AsyncClient) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    async with crew(system.kernel, "ann", work=talkers.work), warnings(system) as heard:
        run_id = await begin(http, tasks=[talk(20)], budget={"tokens": 190}, policy={"on_budget": "fail"})
        await reached(http, run_id, "failed")

        async def told() -> bool:
            return bool(heard)

        await eventually(told)


async def test_each_cap_is_warned_of_by_itself_and_again_once_it_was_raised(
    system: System, http: httpx2.AsyncClient
) -> None:
    talkers = Talkers(http)
    await talkers.register("ann")
    run_id = ""

    async def resumed(calls: int, **budget: float) -> Json:
        """What a run says of its budget after so many calls and another budget."""
        (await http.post(f"/v1/runs/{run_id}/resume", json={"budget": budget})).raise_for_status()
        for name in list(waiting)[: calls // 5]:
            (await http.post(f"/v1/runs/{run_id}/tasks/{name}/approve", json={})).raise_for_status()
            waiting.remove(name)
        return (await reached(http, run_id, "paused"))["budget"]

    async with crew(system.kernel, "ann", work=talkers.work), warnings(system) as heard:
        run_id = await begin(http, tasks=[talk(5)], budget={"tokens": 30_000})
        once = (await reached(http, run_id, "completed"))["budget"]
        tokens, usd = once["tokens_spent"] // 5, once["usd_spent"] / 5
        waiting = [f"talk{number}" for number in range(20)]
        tasks = [{**talk(5), "name": name, "approval": True} for name in waiting]
        run_id = await begin(http, tasks=tasks, budget={"tokens": 24 * tokens, "usd": 200 * usd})
        await reached(http, run_id, "paused")
        assert (await resumed(20))["warned_of"] == ["tokens"]
        assert (await resumed(10, tokens=1_000 * tokens, usd=36 * usd))["warned_of"] == ["usd"], "it was raised"
        assert (await resumed(5, tokens=1_000 * tokens, usd=1_000 * usd))["warned_of"] == []
        shown = await resumed(5, tokens=46 * tokens)
        assert (shown["warned"], shown["warned_of"]) == (True, ["tokens"])

        async def told() -> bool:
            return [one["caps"] for one in heard] == [["tokens"], ["usd"], ["tokens"]]

        await eventually(told, 20)
        account = (await http.get(f"/v1/budgets/run/{run_id}")).json()
        assert (account["warned_of"], account["warned_at"] is not None) == (["tokens"], True)
    entries = (await http.get(f"/v1/runs/{run_id}/ledger", params={"limit": 500})).json()["entries"]
    noted = [entry["payload"]["caps"] for entry in entries if entry["payload"].get("change") == "budget_warning"]
    assert noted == [["tokens"], ["usd"], ["tokens"]]
