"""One suite for every keeper of tools, on turns that really wait."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.local_turns import LocalTurns
from homeostat.app.stores import open_engine, tool_keeper, turn_store
from homeostat.app.supervisor import Supervisor
from homeostat.app.tool_desk import ToolDesks
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, ToolCallId
from homeostat.core.limits import TOOL_CALLS_BATCH_MAX, WAITS_PER_TURN_MAX
from homeostat.core.ports.tools import ToolKeeper
from homeostat.core.records.tool import CallKey, ToolSpec
from homeostat.core.records.turn import MessageType, ToolCall, WaitStatus
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.memory_tools import MemoryTools

PROJECT = ProjectId("tools")
NOW, LATER, MUCH_LATER = Millis(1_000), Millis(2_000), Millis(3_000)


class Place:
    """A keeper, and a kernel on the same store."""

    def __init__(self, keeper: ToolKeeper, kernel: Kernel) -> None:
        self.keeper = keeper
        self.kernel = kernel

    async def suspend(self, agent_id: str, *calls: tuple[str, float]) -> list[CallKey]:
        """Leave a turn waiting for these tools, each with its seconds."""
        source = LocalTurns(self.kernel)
        key = (PROJECT, AgentId(agent_id))
        await source.register([key])
        await self.kernel.enqueue(Enqueue(key=key, type=MessageType.TURN, payload=Json("{}")))
        session = await source.open([key], lambda _: None)
        (grant,) = await session.claim(1, 5.0)
        wanted = tuple(
            ToolCall(ToolCallId(f"call_{number}"), tool, Json("{}"), seconds)
            for number, (tool, seconds) in enumerate(calls)
        )
        await session.suspend(grant, wanted)
        await session.close()
        return [(grant.turn.turn_id, call.call_id) for call in wanted]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == "memory":
        return None
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite://{tmp_path}/tools.db"


@pytest.fixture
async def place(url: str | None) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        if url is None:
            turns: Any = MemoryTurns()
            keeper: Any = MemoryTools(turns)
        else:
            engine = await open_engine(url)
            stack.push_async_callback(engine.close)
            turns, keeper = turn_store(engine), tool_keeper(engine)
        kernel = Kernel(store=turns, bus=LocalBus())
        supervisor = Supervisor()
        stack.push_async_callback(supervisor.stop)
        for title, run in kernel.loops:
            supervisor.add(title, run)
        yield Place(keeper, kernel)


def spec(name: str, description: str = "") -> ToolSpec:
    return ToolSpec(name, description, Json('{"type":"object"}'))


async def test_tools_are_known_by_name_and_project(place: Place) -> None:
    assert await place.keeper.all(PROJECT) == []
    await place.keeper.put(PROJECT, [spec("b"), spec("a", "first")], NOW)
    await place.keeper.put(ProjectId("other"), [spec("c")], NOW)
    await place.keeper.put(PROJECT, [spec("a", "second")], LATER)
    assert await place.keeper.all(PROJECT) == [spec("a", "second"), spec("b")]


async def test_unanswered_calls_are_found_the_most_urgent_first(place: Place) -> None:
    slow, quick, foreign = await place.suspend("one", ("search", 300), ("search", 60), ("other", 10))
    found = await place.keeper.waiting(PROJECT, ["search"], 10, NOW)
    assert [call.key for call in found] == [quick, slow]
    assert {(call.project, call.agent_id, call.tool) for call in found} == {(PROJECT, "one", "search")}
    assert all(call.call_card_id is not None for call in found)
    assert [call.key for call in await place.keeper.waiting(PROJECT, ["other", "search"], 1, NOW)] == [foreign]
    assert await place.keeper.waiting(ProjectId("other"), ["search"], 10, NOW) == []
    await place.kernel.report(PROJECT, *quick, status=WaitStatus.SUCCESS, result=Json("1"))
    assert [call.key for call in await place.keeper.waiting(PROJECT, ["search"], 10, NOW)] == [slow]


async def test_calls_that_somebody_makes_do_not_stand_before_others(place: Place) -> None:
    first, second, third = await place.suspend("one", ("search", 60), ("search", 120), ("search", 180))

    async def waiting(now: Millis, limit: int) -> list[CallKey]:
        return [call.key for call in await place.keeper.waiting(PROJECT, ["search"], limit, now)]

    await place.keeper.take([first], NOW, LATER)
    await place.keeper.take([second], NOW, MUCH_LATER)
    assert await waiting(NOW, 1) == [third]
    assert await waiting(LATER, 2) == [first, third], "its service fell silent"
    assert await waiting(MUCH_LATER, 9) == [first, second, third]


async def test_a_desk_gives_out_what_waits_behind_many_calls_in_work(place: Place) -> None:
    await place.suspend("one", *[("search", 60)] * WAITS_PER_TURN_MAX)
    (last,) = await place.suspend("two", ("search", 120))
    desk = ToolDesks(kernel=place.kernel, keeper=place.keeper, bus=place.kernel.bus, clock=ManualClock()).desk(PROJECT)
    given: list[CallKey] = []
    while calls := await desk.calls(["search"], limit=TOOL_CALLS_BATCH_MAX, seconds=0):
        given += [call.key for call in calls]
    assert len(given) == len(set(given)) == WAITS_PER_TURN_MAX + 1
    assert given[-1] == last


async def test_a_call_is_taken_by_one_until_its_time_is_over(place: Place) -> None:
    calls = await place.suspend("one", ("search", 60), ("search", 60))
    first, second = calls
    assert await place.keeper.take([first], NOW, LATER) == {first}
    assert await place.keeper.take(calls, NOW, LATER) == {second}
    assert await place.keeper.take(calls, NOW, LATER) == set()
    await place.keeper.hold(PROJECT, [first], MUCH_LATER)
    assert await place.keeper.take(calls, LATER, MUCH_LATER) == {second}
    assert await place.keeper.take([first], MUCH_LATER, Millis(4_000)) == {first}
    await place.keeper.hold(PROJECT, [second], NOW)
    assert await place.keeper.take([second], LATER, MUCH_LATER) == set(), "holding never shortens"
    await place.keeper.hold(ProjectId("elsewhere"), [second], Millis(9_000))
    assert await place.keeper.take([second], MUCH_LATER, Millis(4_000)) == {second}, "it is none of their calls"


async def test_many_at_once_take_each_call_once(place: Place) -> None:
    calls = await place.suspend("one", *[("search", 60)] * 20)
    taken = await asyncio.gather(*(place.keeper.take(calls, NOW, LATER) for _ in range(8)))
    assert sorted(key for keys in taken for key in keys) == sorted(calls)
