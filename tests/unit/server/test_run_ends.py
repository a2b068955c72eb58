"""When a run is over nothing of it is left behind: whoever was asked for it is free for others."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.codec import Json as Text
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, ToolCallId, TurnId
from homeostat.core.records import provenance
from homeostat.core.records.card import CardDraft
from homeostat.core.records.recording import TaskTold
from homeostat.core.records.turn import Grant, MessageType, ToolCall
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Enqueue, Suspend
from homeostat.runs import recording
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]
BOB = (DEFAULT_PROJECT, AgentId("bob"))


async def begin(http: httpx2.AsyncClient, **body: Any) -> str:
    answer = await http.post("/v1/runs", json={"goal": "get it done", **body})
    assert answer.status_code == 201, answer.text
    return f"/v1/runs/{answer.json()['run_id']}"


async def at_rest(http: httpx2.AsyncClient, run: str) -> Json:
    async def resting() -> bool:
        return (await http.get(run)).json()["at_rest"]

    await eventually(resting, 10)
    return (await http.get(run)).json()


async def told(http: httpx2.AsyncClient, run: str, agent_id: str) -> list[tuple[str, str | None]]:
    """What a ledger tells of how the turns of an agent ended."""
    entries = (await http.get(f"{run}/ledger", params={"limit": 100})).json()["entries"]
    ends = [entry["payload"] for entry in entries if entry["kind"] == "turn.ended"]
    return [(end["turn_id"], end["status"]) for end in ends if end["agent_id"] == agent_id]


async def changes(http: httpx2.AsyncClient, run: str) -> list[str]:
    entries = (await http.get(f"{run}/ledger", params={"limit": 100})).json()["entries"]
    return [entry["payload"]["change"] for entry in entries if entry["kind"] == "run.changed"]


async def end_of(system: System, turn_id: TurnId) -> Deliverable | None:
    return await system.kernel.deliverables.get(DEFAULT_PROJECT, turn_id)


async def takes_turns(system: System) -> None:
    """An agent takes what comes to it from others."""
    async with crew(system.kernel, "bob"):
        accepted = await system.kernel.enqueue(Enqueue(key=BOB, type=MessageType.TURN, payload=Text("1")))
        end = await system.kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 10)
        assert end is not None, "its agent does nothing any more"
        assert end.succeeded


@pytest.mark.parametrize("where", ["dispatched", "suspended", "queued"])
async def test_what_a_task_asked_for_and_did_not_wait_for_is_stopped_with_its_run(
    system: System, http: httpx2.AsyncClient, where: str
) -> None:
    kernel, asked = system.kernel, list[TurnId]()
    await kernel.register(BOB)

    async def ask(grant: Grant) -> tuple[Outcome, Text]:
        turn = grant.turn
        for _ in range(2 if where == "queued" else 1):
            child = await kernel.enqueue(
                Enqueue(
                    key=BOB,
                    type=MessageType.TURN,
                    payload=Text("1"),
                    source=turn.agent_id,
                    parent_turn_id=turn.turn_id,
                    run_id=turn.run_id,
                    depth=1,
                )
            )
            asked.append(child.turn_id)
        if where == "suspended":
            worker = await kernel.open_worker([BOB], lambda _: None)
            (taken,) = await kernel.claim(worker, 1, 10)
            call = ToolCall(ToolCallId("c1"), "search", Text("{}"), 60.0)
            await kernel.suspend(Suspend(fence=fence_of(taken), calls=(call,)))
            await kernel.close_worker(worker)
        return Outcome.SUCCESS, Text("1")

    async with crew(kernel, "ann", work=ask):
        run = await begin(http, tasks=[{"name": "asks", "agent": "ann"}])
        assert (await at_rest(http, run))["status"] == "completed"
    for turn_id in asked:
        end = await end_of(system, turn_id)
        assert end is not None, "it holds its agent for good"
        assert end.status is Outcome.STOP
        assert "completed" in str(end.error)
    assert await told(http, run, "bob") == [(turn_id, "stop") for turn_id in asked]
    await takes_turns(system)


async def test_what_outlives_its_task_is_told_of_once_it_is_over(system: System, http: httpx2.AsyncClient) -> None:
    kernel, may_end, may_rest = system.kernel, asyncio.Event(), asyncio.Event()

    async def ask(grant: Grant) -> tuple[Outcome, Text]:
        turn = grant.turn
        if turn.agent_id == "bob":
            await may_end.wait()
        elif b"stays" in turn.payload.encode():
            await may_rest.wait()
        else:
            child = Enqueue(
                key=BOB,
                type=MessageType.TURN,
                payload=Text("1"),
                source=turn.agent_id,
                parent_turn_id=turn.turn_id,
                run_id=turn.run_id,
                depth=1,
            )
            await kernel.enqueue(child)
        return Outcome.SUCCESS, Text("1")

    async with crew(kernel, "ann", "bob", work=ask), crew(kernel, "cat", work=ask):
        tasks = [{"name": "asks", "agent": "ann"}, {"name": "stays", "agent": "cat", "input": "stays"}]
        run = await begin(http, tasks=tasks)

        async def goes_on() -> bool:
            return "goes_on" in await changes(http, run)

        async def is_told() -> bool:
            return bool(await told(http, run, "bob"))

        await eventually(goes_on, 10)
        assert not await is_told(), "it is at work"
        may_end.set()
        await eventually(is_told, 10)
        may_rest.set()
        assert (await at_rest(http, run))["status"] == "completed"
    assert [status for _, status in await told(http, run, "bob")] == ["success"]
    assert await changes(http, run) == ["goes_on"]
    assert (await http.get(f"{run}/verify")).json()["valid"]


@pytest.mark.parametrize("apply", ["auto", "manual"])
async def test_a_plan_that_is_given_by_hand_ends_the_turn_that_was_to_make_one(
    system: System, http: httpx2.AsyncClient, apply: str
) -> None:
    may_end = asyncio.Event()

    async def work(grant: Grant) -> tuple[Outcome, Text]:
        await may_end.wait()
        return Outcome.SUCCESS, grant.turn.payload

    await system.kernel.register(BOB)
    async with crew(system.kernel, "ann", work=work):
        run = await begin(http, planner={"agent": "bob"}, policy={"apply": apply})

        async def planning() -> bool:
            view = await system.kernel.store.head(*BOB)
            return view is not None and view.head.turn_id is not None

        async def stopped() -> bool:
            view = await system.kernel.store.head(*BOB)
            return view is not None and view.head.turn_id is None

        await eventually(planning, 10)
        answer = await http.post(f"{run}/plan", json={"tasks": [{"name": "a", "agent": "ann"}]})
        assert answer.status_code == 200, answer.text
        await eventually(stopped, 10)
        await takes_turns(system)
        if apply == "manual":
            assert (await at_rest(http, run))["status"] == "planned"
            assert [status for _, status in await told(http, run, "bob")] == ["stop"]
            assert (await http.post(f"{run}/apply", json={})).status_code == 200
        assert (await http.get(run)).json()["status"] == "applying", "nobody waits for the end of the run"
        may_end.set()
        assert (await at_rest(http, run))["status"] == "completed"
    assert [status for _, status in await told(http, run, "bob")] == ["stop"], "it is told once"
    assert (await http.get(f"{run}/verify")).json()["valid"]


async def test_what_a_ledger_has_no_room_for_is_told_by_its_digest_and_its_run_ends(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 40_000
    monkeypatch.setattr(recording, "ENTRY_BYTES_MAX", room)
    monkeypatch.setattr(provenance, "ENTRY_BYTES_MAX", room)
    kernel = system.kernel
    boxes = [
        await kernel.create_box(DEFAULT_PROJECT, [CardDraft("note", Text(f'"{"lorem " * size}"'))], None)
        for size in (10, room)
    ]

    async def ask(grant: Grant) -> tuple[Outcome, Text]:
        turn = grant.turn
        for box_id in boxes:
            child = await kernel.enqueue(
                Enqueue(
                    key=BOB,
                    type=MessageType.TURN,
                    payload=Text("1"),
                    source=turn.agent_id,
                    parent_turn_id=turn.turn_id,
                    run_id=turn.run_id,
                    context_box_id=box_id,
                    depth=1,
                )
            )
            await kernel.deliverables.wait(DEFAULT_PROJECT, child.turn_id, 10)
        return Outcome.SUCCESS, Text("1")

    async with crew(kernel, "ann", work=ask), crew(kernel, "bob"):
        run = await begin(http, tasks=[{"name": "asks", "agent": "ann"}])
        assert (await at_rest(http, run))["status"] == "completed"
    entries = (await http.get(f"{run}/ledger", params={"limit": 100})).json()["entries"]
    small, large = [entry["payload"] for entry in entries if entry["payload"].get("agent_id") == "bob"]
    assert "lorem" in small["context"][0]["content_json"]
    assert "left_out" not in small
    assert "context" not in large
    assert set(large["left_out"]) == {"context"}
    assert large["result_json"] == "1", "all else of it is told"
    assert (await http.get(f"{run}/verify")).json()["valid"]


@pytest.mark.parametrize("verb", ["", "kill"])
async def test_a_turn_of_which_nothing_can_be_told_keeps_no_run_from_its_end(
    system: System, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    begun, notes = asyncio.Event(), system.runs._desk.notes
    assert notes is not None

    async def work(grant: Grant) -> tuple[Outcome, Text]:
        begun.set()
        if verb:
            await asyncio.Event().wait()
        return Outcome.SUCCESS, grant.turn.payload

    async def breaking(project: ProjectId, tasks: Mapping[TurnId, TaskTold], noted: Any, *, ended: bool) -> Any:
        if any(task.name == "odd" for task in tasks.values()):
            raise MalformedPayload(field="context", problem="odd")
        return await notes(project, tasks, noted, ended=ended)

    monkeypatch.setattr(system.runs._desk, "notes", breaking)
    async with crew(system.kernel, "ann", work=work):
        run = await begin(http, tasks=[{"name": name, "agent": "ann"} for name in ("odd", "even")])
        await begun.wait()
        if verb:
            await http.post(f"{run}/{verb}", json={})
        done = await at_rest(http, run)
    assert done["tasks"] == ({"stopped": 2} if verb else {"succeeded": 2})
    entries = (await http.get(f"{run}/ledger", params={"limit": 100})).json()["entries"]
    changes = [entry["payload"] for entry in entries if entry["kind"] == "run.changed"]
    assert [said["why"] for said in changes if said["change"] == "untold"] == ["malformed_payload"]
    assert (await http.get(f"{run}/verify")).json()["valid"]
