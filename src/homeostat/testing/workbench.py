"""A Homeostat in memory to try agents on: messages in, deliverables out, tools and a model that do as they are told."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.upstreams.simulated import Prompt, Reply, SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.memory import VolatileMemory
from homeostat.agent.models import Models
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.tools import ToolService
from homeostat.agent.worker import Worker
from homeostat.app.local_turns import LocalTurns
from homeostat.app.supervisor import Supervisor
from homeostat.app.tool_desk import ToolDesks
from homeostat.core.codec import from_json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, CardId, ToolCallId, TurnId
from homeostat.core.limits import LEASE_SECONDS
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import MessageType, WaitStatus
from homeostat.core.records.view import Deliverable
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.memory_tools import MemoryTools

PATIENCE_SECONDS = 10.0


class Workbench:
    """Everything that a test of an agent needs at hand. Use it as `async with Workbench() as bench`."""

    def __init__(self, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.bus = LocalBus()
        self.store = MemoryTurns()
        self.kernel = Kernel(store=self.store, bus=self.bus, lease_seconds=lease_seconds)
        self.source = LocalTurns(self.kernel)
        self.memory = VolatileMemory()
        self.tools = ToolDesks(
            kernel=self.kernel, keeper=MemoryTools(self.store), bus=self.bus, clock=self.kernel.clock
        )
        self._supervisor = Supervisor()
        self.tool_calls: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.chunks: list[Any] = []
        self.script: Callable[[Prompt], Reply | None] | None = None
        self.upstream = SimulatedUpstream(pace=INSTANT, script=lambda prompt: self.script and self.script(prompt))

    async def __aenter__(self) -> Self:
        await self.kernel.listen()
        await self.tools.listen()
        await self.bus.subscribe(subject("*", Channel.CMD, "tool", "*", "call"), self._on_tool)
        await self.bus.subscribe(subject("*", Channel.STR, "agent", "*", "chunk"), self._on_chunk)
        for title, run in self.kernel.loops:
            self._supervisor.add(title, run)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._supervisor.stop()

    async def _on_tool(self, event: Event) -> None:
        self.tool_calls.put_nowait(from_json(event.payload))

    async def _on_chunk(self, event: Event) -> None:
        self.chunks.append(from_json(event.payload))

    # --- workers -------------------------------------------------------------------------------------------

    def worker(
        self, agents: Mapping[str, Any] | None = None, /, *, concurrency: int = 8, source: Any = None, **named: Any
    ) -> Worker:
        """A worker that hosts agents by id: classes, or functions that are called with the turn."""
        orchestrator = Orchestrator(memory=self.memory, tools=self.tools.desk())
        models = Models(self.upstream, sleep=_at_once)
        worker = Worker(source=source or self.source, orchestrator=orchestrator, models=models, concurrency=concurrency)
        for agent_id, made in {**(agents or {}), **named}.items():
            is_class = isinstance(made, type)
            worker.host(agent_id, made if is_class else lambda made=made: FunctionAgent(made))
        return worker

    @asynccontextmanager
    async def working(
        self, agents: Mapping[str, Any] | None = None, /, *, stop_seconds: float = 5.0, **named: Any
    ) -> AsyncGenerator[Worker]:
        """A worker at work until the block ends."""
        worker = self.worker(agents, **named)
        await worker.open()
        running = asyncio.create_task(worker.run(stop_seconds=stop_seconds))
        try:
            yield worker
        finally:
            worker.stop()
            await running

    @asynccontextmanager
    async def serving(self, *tools: Any) -> AsyncGenerator[ToolService]:
        """A tool service at work until the block ends."""
        service = ToolService(self.tools.desk(), tools)
        running = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            service.stop()
            await running

    # --- messages ------------------------------------------------------------------------------------------

    async def send(self, agent_id: str, payload: Any = None, **named: Any) -> TurnId:
        await self.kernel.register((DEFAULT_PROJECT, AgentId(agent_id)))
        if (fields := named.get("result_fields")) is not None:
            named["result_fields"] = to_json(fields)
        command = Enqueue(
            key=(DEFAULT_PROJECT, AgentId(agent_id)), type=MessageType.TURN, payload=to_json(payload), **named
        )
        return (await self.kernel.enqueue(command)).turn_id

    async def end(self, turn_id: TurnId, seconds: float = PATIENCE_SECONDS) -> Deliverable:
        found = await self.kernel.deliverables.wait(DEFAULT_PROJECT, turn_id, seconds)
        assert found is not None, f"{turn_id} did not end"
        return found

    async def ask(self, agent_id: str, payload: Any = None, **named: Any) -> Any:
        """Send a message and return the result of its turn; raises what went wrong as an AssertionError."""
        ended = await self.end(await self.send(agent_id, payload, **named))
        assert ended.error is None, ended.error
        return from_json(ended.result)

    async def fails(self, agent_id: str, payload: Any = None, **named: Any) -> dict[str, Any]:
        ended = await self.end(await self.send(agent_id, payload, **named))
        assert ended.status == "failed", ended
        assert ended.error is not None
        return from_json(ended.error)

    async def answer(self, result: Any = None, *, status: WaitStatus = WaitStatus.SUCCESS) -> dict[str, Any]:
        """Answer the next tool call that comes in."""
        call = await asyncio.wait_for(self.tool_calls.get(), PATIENCE_SECONDS)
        await self.report(call, result, status=status)
        return call

    async def report(self, call: dict[str, Any], result: Any, *, status: WaitStatus = WaitStatus.SUCCESS) -> None:
        await self.kernel.report(
            DEFAULT_PROJECT,
            TurnId(call["agent_turn_id"]),
            ToolCallId(call["tool_call_id"]),
            status=status,
            result=to_json(result),
        )

    async def args_of(self, call: dict[str, Any]) -> Any:
        card = await self.store.card(DEFAULT_PROJECT, CardId(call["tool_call_card_id"]))
        assert card is not None
        return from_json(card.content)["args"]


async def _at_once(seconds: float) -> None:
    del seconds
