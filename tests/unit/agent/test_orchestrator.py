"""The orchestrator starts what is not ready, replaces what has ended, and keeps memory with the work."""

import asyncio
from typing import Any

import pytest

from homeostat import AgentState, ExecutionContext, FatalError, ManagedAgent, OrchestratorProtocol
from homeostat.agent.memory import VolatileMemory
from homeostat.agent.orchestrator import Orchestrator
from homeostat.core.errors import AgentUnknown
from homeostat.core.ids import AgentId, ProjectId

KEY = (ProjectId("default"), AgentId("clerk"))


class Clerk(ManagedAgent):
    made = 0

    def __init__(self) -> None:
        Clerk.made += 1
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def process(self, request: Any) -> Any:
        if isinstance(request, Exception):
            raise request
        history = await self.memory.load("history", [])
        self.memory.update("history", [*history, request])
        if request == "wait":
            self.entered.set()
            await self.gate.wait()
        return self.context.trace_id, [*history, request]


def work(request: Any, trace: str = "t1") -> ExecutionContext:
    return ExecutionContext(trace_id=trace, target="clerk", request=request)


@pytest.fixture
def keeper() -> VolatileMemory:
    return VolatileMemory()


@pytest.fixture
def orchestrator(keeper: VolatileMemory) -> Orchestrator:
    Clerk.made = 0
    orchestrator = Orchestrator(memory=keeper)
    orchestrator.host("clerk", Clerk)
    return orchestrator


async def test_it_keeps_the_protocol(orchestrator: OrchestratorProtocol) -> None:
    assert (await orchestrator.make_routing_decision(work(1))).target == "clerk"
    with pytest.raises(AgentUnknown, match="nobody"):
        await orchestrator.orchestrate(ExecutionContext(trace_id="t", target="nobody"))


async def test_an_agent_is_started_once_and_told_each_trace(orchestrator: Orchestrator) -> None:
    assert await orchestrator.orchestrate(work(1, "t1")) == ("t1", [1])
    assert await orchestrator.orchestrate(work(2, "t2")) == ("t2", [1, 2])
    assert Clerk.made == 1
    agent = orchestrator.agent("clerk")
    await orchestrator.shutdown()
    assert agent.get_state() is AgentState.TERMINATED


async def test_a_terminated_agent_is_replaced_and_remembers(orchestrator: Orchestrator) -> None:
    await orchestrator.orchestrate(work(1))
    with pytest.raises(FatalError):
        await orchestrator.orchestrate(work(FatalError("broken")))
    assert await orchestrator.orchestrate(work(2)) == ("t1", [1, 2])
    assert Clerk.made == 2
    await orchestrator.shutdown()


async def test_an_agent_that_ended_is_not_made_again_for_nothing(orchestrator: Orchestrator) -> None:
    with pytest.raises(FatalError):
        await orchestrator.orchestrate(work(FatalError("broken")))
    assert Clerk.made == 1
    assert orchestrator.known("clerk") is None


class Passing(ManagedAgent):
    """Keeps nothing between two requests."""

    stateless = True

    async def process(self, request: Any) -> Any:
        return id(self), self.agent_id, self.context.trace_id


async def test_one_stateless_object_serves_many_agents_one_after_the_other(orchestrator: Orchestrator) -> None:
    served: set[int] = set()
    for number in range(20):
        orchestrator.host(f"passing{number}", Passing)
        context = ExecutionContext(trace_id=f"t{number}", target=f"passing{number}")
        who, name, trace = await orchestrator.orchestrate(context)
        assert (name, trace) == (f"passing{number}", f"t{number}")
        assert orchestrator.known(name) is None, "between two requests it holds nothing"
        served.add(who)
    assert len(served) == 1
    await orchestrator.shutdown()


async def test_an_agent_that_registered_by_itself_is_kept(orchestrator: Orchestrator) -> None:
    agent = Passing()
    agent.bind(agent_id="guest", orchestrator=orchestrator)
    await agent.startup()
    for _ in range(2):
        assert (await orchestrator.orchestrate(ExecutionContext(trace_id="t", target="guest")))[0] == id(agent)
    assert orchestrator.known("guest") is agent
    await orchestrator.shutdown()
    assert agent.get_state() is AgentState.TERMINATED


async def test_memory_is_durable_when_the_work_is_done(orchestrator: Orchestrator, keeper: VolatileMemory) -> None:
    await orchestrator.orchestrate(work(1))
    assert await keeper.recall(KEY) == {"history": "[1]"}
    await keeper.keep(KEY, {"history": "[7]"}, 0)  # pyright: ignore[reportArgumentType]
    assert await orchestrator.orchestrate(work(2)) == ("t1", [7, 2]), "another process may have written meanwhile"
    await orchestrator.shutdown()


async def test_work_that_was_cancelled_leaves_no_memory(orchestrator: Orchestrator, keeper: VolatileMemory) -> None:
    working = asyncio.create_task(orchestrator.orchestrate(work("wait")))
    clerk = orchestrator.agent("clerk")
    assert isinstance(clerk, Clerk)
    await clerk.entered.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await keeper.recall(KEY) == {}
    await orchestrator.shutdown()
    assert await keeper.recall(KEY) == {}
