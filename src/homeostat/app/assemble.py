"""Puts a Homeostat together: the only place that chooses adapters."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.app import stores
from homeostat.app.local_turns import LocalTurns
from homeostat.app.sessions import WorkerSessions
from homeostat.app.settings import Settings
from homeostat.app.supervisor import Supervisor
from homeostat.app.tool_desk import ToolDesks
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import AgentId, Ids
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.fleet import RegistryStore, StatusKeeper
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.store import TurnStore
from homeostat.core.ports.tools import ToolKeeper
from homeostat.fleet.fleet import Fleet
from homeostat.fleet.registry import Enrolled, Introduction
from homeostat.kernel.commands import Idempotency
from homeostat.kernel.kernel import Kernel


@dataclass(slots=True, kw_only=True)
class System:
    """A running Homeostat: its rooms, and who looks after their loops."""

    settings: Settings
    clock: Clock
    ids: Ids
    bus: Bus
    kernel: Kernel
    fleet: Fleet
    turns: LocalTurns
    workers: WorkerSessions
    memory: MemoryKeeper
    tools: ToolDesks
    supervisor: Supervisor
    store_place: str

    async def enrol(
        self, said: Introduction, agent_id: AgentId, *, key: str | None, idempotency: Idempotency | None = None
    ) -> Enrolled:
        """Register an agent where all rooms know it: the kernel gives it an inbox, the fleet its key."""
        await self.kernel.register((said.project, agent_id), idempotency=idempotency)
        return await self.fleet.register(replace(said, agent_id=agent_id), key)


@asynccontextmanager
async def assemble(settings: Settings, *, clock: Clock | None = None) -> AsyncGenerator[System, None]:
    """A Homeostat that runs until the block ends. What began last ends first."""
    clock = clock or SystemClock()
    ids = Ids(clock=clock)
    async with AsyncExitStack() as stack:
        opened = await _open_stores(settings, stack)
        bus = await _open_bus(settings, stack)
        kernel = Kernel(
            store=opened.turns,
            bus=bus,
            clock=clock,
            ids=ids,
            lease_seconds=settings.lease_seconds,
            retention_seconds=settings.retention_seconds,
        )
        fleet = Fleet(
            store=opened.registry,
            keeper=_status_keeper(settings, opened.registry),
            bus=bus,
            clock=clock,
            ids=ids,
            alone=settings.bus_url is None,
        )
        stack.push_async_callback(fleet.close)
        supervisor = Supervisor(clock=clock)
        stack.push_async_callback(supervisor.stop)
        for title, run in kernel.loops:
            supervisor.add(title, run)
        await kernel.listen()
        await fleet.open()
        for title, run in fleet.loops:
            supervisor.add(title, run)
        turns = LocalTurns(kernel)
        workers = WorkerSessions(kernel, turns)
        supervisor.add("worker sessions", workers.run)
        stack.push_async_callback(workers.leave)
        tools = ToolDesks(kernel=kernel, keeper=opened.tools, bus=bus, clock=clock)
        await tools.listen()
        yield System(
            settings=settings,
            clock=clock,
            ids=ids,
            bus=bus,
            kernel=kernel,
            fleet=fleet,
            turns=turns,
            workers=workers,
            memory=opened.memory,
            tools=tools,
            supervisor=supervisor,
            store_place=opened.place,
        )


@dataclass(frozen=True, slots=True)
class _Stores:
    """Every room's keeper on one engine, and where that is in words."""

    turns: TurnStore
    registry: RegistryStore
    memory: MemoryKeeper
    tools: ToolKeeper
    place: str


async def _open_stores(settings: Settings, stack: AsyncExitStack) -> _Stores:
    """The store that the settings name, open and migrated."""
    url = None if settings.ephemeral else settings.store_url or stores.embedded_url(settings.data_dir)
    engine = await stores.open_engine(url)
    stack.push_async_callback(engine.close)
    return _Stores(
        stores.turn_store(engine),
        stores.registry_store(engine),
        stores.memory_keeper(engine),
        stores.tool_keeper(engine),
        stores.place(url),
    )


def _status_keeper(settings: Settings, registry: RegistryStore) -> StatusKeeper:
    if settings.status_url is None:
        return LocalStatuses(store=registry)
    from homeostat.adapters.statuses.redis import RedisStatuses  # noqa: PLC0415 — a driver is loaded where it is used

    return RedisStatuses(url=settings.status_url)


async def _open_bus(settings: Settings, stack: AsyncExitStack) -> Bus:
    if settings.bus_url is None:
        local = LocalBus()
        stack.push_async_callback(local.close)
        return local
    from homeostat.adapters.doorbells.nats import NatsBus  # noqa: PLC0415 — a driver is loaded where it is used

    bus = NatsBus(settings.bus_url)
    stack.push_async_callback(bus.close)
    await bus.open()
    return bus
