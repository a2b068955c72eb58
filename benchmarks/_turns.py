"""A kernel with one worker in this process, and the closed loop that the turn benchmarks drive through it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, ToolCallId, TurnId, WorkerId
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Grant, MessageType, ToolCall, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Delivered, fence_of
from homeostat.kernel.commands import Deliver, Enqueue, Suspend
from homeostat.kernel.kernel import Kernel

PROJECT = ProjectId("default")
PAYLOAD = Json('{"text":"hello"}')
RESULT = Json('{"ok":true}')


def agents(count: int) -> list[AgentKey]:
    return [(PROJECT, AgentId(f"agent-{number:06d}")) for number in range(count)]


def message(key: AgentKey) -> Enqueue:
    return Enqueue(key=key, type=MessageType.TURN, payload=PAYLOAD)


@dataclass
class Bench:
    """A running kernel and the tasks that are its loops."""

    kernel: Kernel
    started: Callable[[Grant], None] | None = None
    stuck: Callable[[Grant], bool] | None = None
    held: set[TurnId] = field(default_factory=set[TurnId])

    async def register(self, keys: list[AgentKey]) -> None:
        await asyncio.gather(*(self.kernel.register(key) for key in keys))

    async def no_op_worker(self, worker_id: WorkerId, *, calls_tool: bool = False) -> None:
        """Claim for ever; each turn ends at once, or after one tool call."""
        while True:
            for grant in await self.kernel.claim(worker_id, 64, 30):
                self._work(grant, calls_tool=calls_tool)

    def _work(self, grant: Grant, *, calls_tool: bool) -> None:
        """Do nothing and deliver; once that is durable, go on with the agent's next turn if there is one."""
        if self.started is not None:
            self.started(grant)
        if self.stuck is not None and self.stuck(grant):
            self.held.add(grant.turn.turn_id)
            return
        if calls_tool and not grant.waits:
            call = ToolCall(ToolCallId("call_1"), "search", Json("{}"))
            self.kernel.submit(Suspend(fence=fence_of(grant), calls=(call,)))
            return

        def ended(delivered: "asyncio.Future[Delivered]") -> None:
            if not delivered.cancelled() and (following := delivered.result().next) is not None:
                self._work(following, calls_tool=calls_tool)

        self.kernel.submit(
            Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=RESULT, claim_next=True)
        ).add_done_callback(ended)

    async def closed_loop(self, keys: list[AgentKey], turns: int) -> float:
        """Every client enqueues, waits for the deliverable and begins again; returns turns per second."""
        loop = asyncio.get_running_loop()
        each = max(1, turns // len(keys))
        began = loop.time()
        await asyncio.gather(*(self._client(key, each) for key in keys))
        return each * len(keys) / (loop.time() - began)

    async def _client(self, key: AgentKey, turns: int) -> None:
        for _ in range(turns):
            _, deliverable = await self.kernel.ask(message(key), 60)
            assert deliverable is not None
            assert deliverable.status is Outcome.SUCCESS

    async def answer_tools(self) -> None:
        """Answer each tool call as soon as it is announced."""

        async def answer(event: object) -> None:
            body = getattr(event, "payload", "")
            turn_id = body.split('"agent_turn_id":"')[1].split('"')[0]
            await self.kernel.report(
                PROJECT, TurnId(turn_id), ToolCallId("call_1"), status=WaitStatus.SUCCESS, result=RESULT
            )

        background: set[asyncio.Task[None]] = set()

        async def later(event: object) -> None:
            task = asyncio.create_task(answer(event))
            background.add(task)
            task.add_done_callback(background.discard)

        await self.kernel.bus.subscribe("hs.v1.*.main.cmd.tool.*.call", later)


@asynccontextmanager
async def bench(store: TurnStore, bus: Bus | None = None, *, lease_seconds: float = 10.0) -> AsyncGenerator[Bench]:
    """A kernel with its loops running; they end with the block."""
    kernel = Kernel(store=store, bus=bus or LocalBus(), lease_seconds=lease_seconds)
    await kernel.listen()
    tasks = [asyncio.ensure_future(run()) for _, run in kernel.loops]
    try:
        yield Bench(kernel)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
