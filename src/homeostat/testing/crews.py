"""A crew: agents in the test's own process that do with a turn what a function says."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, StaleEpoch
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey, BudgetLimit
from homeostat.core.records.call import Call, CallFilter, CallId
from homeostat.core.records.run import Target, TargetKind
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.kernel.commands import Deliver
from homeostat.kernel.kernel import Kernel

PROJECT = ProjectId("default")

Work = Callable[[Grant], Awaitable[tuple[Outcome, Json]]]


async def agree(grant: Grant) -> tuple[Outcome, Json]:
    """Deliver what was asked."""
    return Outcome.SUCCESS, grant.turn.payload


@dataclass
class Crew:
    """What was begun, what was taken away, and what ended."""

    kernel: Kernel
    work: Work
    begun: list[TurnId] = field(default_factory=list[TurnId])
    revoked: list[TurnId] = field(default_factory=list[TurnId])
    dies: bool = False  # it says goodbye to nobody
    _tasks: dict[TurnId, asyncio.Task[None]] = field(default_factory=dict[TurnId, "asyncio.Task[None]"])

    def revoke(self, fence: Fence) -> None:
        self.revoked.append(fence.turn_id)
        if (task := self._tasks.get(fence.turn_id)) is not None:
            task.cancel()

    async def serve(self, keys: Sequence[AgentKey]) -> None:
        """Take turns for ever."""
        worker_id = await self.kernel.open_worker(keys, self.revoke)
        try:
            while True:
                for grant in await self.kernel.claim(worker_id, 64, 30):
                    self._begin(grant)
        finally:
            for task in list(self._tasks.values()):
                task.cancel()
            if not self.dies:
                with suppress(HomeostatError):
                    await self.kernel.close_worker(worker_id)

    def _begin(self, grant: Grant) -> None:
        task = asyncio.get_running_loop().create_task(self._work(grant))
        self._tasks[grant.turn.turn_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(grant.turn.turn_id, None))

    async def _work(self, grant: Grant | None) -> None:
        while grant is not None:
            self.begun.append(grant.turn.turn_id)
            status, result = await self.work(grant)
            error = Json('{"code":"wrong"}') if status is Outcome.FAILED else None
            try:
                delivered = await self.kernel.deliver(
                    Deliver(fence=fence_of(grant), status=status, result=result, error=error, claim_next=True)
                )
            except StaleEpoch:
                return
            grant = delivered.next
            if grant is not None and (task := asyncio.current_task()) is not None:
                self._tasks[grant.turn.turn_id] = task


class NoBank:
    """No accounts: where nothing is spent, or a test spends by hand."""

    def __init__(self) -> None:
        self.accounts: dict[BudgetKey, Budget] = {}
        self.warned: list[tuple[BudgetKey, BudgetLimit]] = []

    async def put_budget(self, budget: Budget) -> Budget:
        known = self.accounts.get(budget.key)
        kept = budget if known is None else replace(budget, spent=known.spent, held=known.held)
        self.accounts[budget.key] = kept
        return kept

    async def budget(self, key: BudgetKey) -> Budget | None:
        return self.accounts.get(key)

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount:
        del project, run_id, after
        return ZERO

    async def open_for(self, project: ProjectId, run_id: RunId) -> list[CallId]:
        del project, run_id
        return []

    async def alone(self) -> bool:
        return True

    def warn(self, key: BudgetKey, limit: BudgetLimit) -> None:
        self.warned.append((key, limit))

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]:
        del wanted, limit
        return []


class Roster:
    """Every agent there is fits every target but one by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [AgentId(name) for name in names]

    async def find(self, project: ProjectId, target: Target) -> list[AgentId]:
        del project
        if target.kind is TargetKind.AGENT:
            return [name for name in self._names if name == target.name]
        return self._names


@asynccontextmanager
async def crew(kernel: Kernel, *names: str, work: Work = agree, project: ProjectId = PROJECT) -> AsyncGenerator[Crew]:
    """Agents by these names that work until the block ends."""
    keys = [(project, AgentId(name)) for name in names]
    for key in keys:
        await kernel.register(key)
    made = Crew(kernel, work)
    serving = asyncio.get_running_loop().create_task(made.serve(keys))
    try:
        yield made
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def eventually(holds: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Wait until something holds that has no signal of its own."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
