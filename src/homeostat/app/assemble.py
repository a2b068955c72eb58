"""Puts a Homeostat together: the only place that chooses adapters."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from homeostat.access.access import Access
from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.prices.listed import ListedPrices
from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.app.assignments import KernelAssignments
from homeostat.app.cordons import Cordons
from homeostat.app.custody import CustodyDesk
from homeostat.app.feed import Feed
from homeostat.app.forgetting import context_clearer
from homeostat.app.holding import Rooms, StandIns
from homeostat.app.isolation import open_immunity
from homeostat.app.keepers import Stores, keep_time, open_stores
from homeostat.app.keyring import RegisterKeyring
from homeostat.app.ledgers import open_ledgers
from homeostat.app.local_turns import LocalTurns
from homeostat.app.operations import Operations, open_operations
from homeostat.app.planners import load_planners
from homeostat.app.sessions import WorkerSessions
from homeostat.app.settings import Auth, Settings
from homeostat.app.spending import Spending
from homeostat.app.supervisor import Supervisor
from homeostat.app.tool_desk import ToolDesks
from homeostat.app.tracing import Tracing, sdk_present
from homeostat.app.turn_vitals import TurnVitals
from homeostat.app.upstreams import open_outlets, read_prices
from homeostat.app.vitals_log import VitalsLog
from homeostat.app.webhooks import Webhooks, open_webhooks
from homeostat.app.workforce import Workforce
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import AgentId, Ids, ProjectId
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.fleet import RegistryStore, StatusKeeper
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.provider import IdentityProvider
from homeostat.fleet.fleet import Fleet
from homeostat.fleet.registry import Enrolled, Introduction
from homeostat.gateway.gateway import Gateway
from homeostat.gateway.office import Manners
from homeostat.immune.hearing import Listener
from homeostat.immune.immune import Immune
from homeostat.kernel.commands import Idempotency
from homeostat.kernel.kernel import Kernel
from homeostat.runs.recording import notes_of
from homeostat.runs.runs import Runs


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
    gateway: Gateway
    immune: Immune
    turn_vitals: TurnVitals
    access: Access
    provider: IdentityProvider | None
    feed: Feed
    vitals_log: VitalsLog
    spending: Spending
    runs: Runs
    cordons: Cordons
    webhooks: Webhooks
    custody: CustodyDesk | None
    operations: Operations
    supervisor: Supervisor
    store_place: str

    async def enrol(
        self, said: Introduction, agent_id: AgentId, *, key: str | None, idempotency: Idempotency | None = None
    ) -> Enrolled:
        """Register an agent where all rooms know it: the kernel gives it an inbox, the fleet its key."""
        if said.agent_id is not None:  # a name that somebody chose may be refused, and then gets no inbox either
            await self.fleet.registry.admit(said, key)
        await self.kernel.register((said.project, agent_id), idempotency=idempotency)
        return await self.fleet.register(replace(said, agent_id=agent_id), key)


@asynccontextmanager
async def assemble(
    settings: Settings, *, clock: Clock | None = None, stand_ins: StandIns | None = None
) -> AsyncGenerator[System, None]:
    """A Homeostat that runs until the block ends. What began last ends first. `clock` is that of its machine."""
    stand_ins = stand_ins or StandIns()
    async with AsyncExitStack() as stack:
        opened = await open_stores(settings, stack, clock or SystemClock())
        clock, ids = opened.clock, Ids(clock=opened.clock)
        bus = await _open_bus(settings, stack)
        kernel = _kernel(settings, opened, bus=bus, clock=clock, ids=ids)
        fleet = _fleet(settings, opened, bus=bus, clock=clock, ids=ids)
        fleet.phase_of = lambda agent_id: immune.phase_of((ProjectId(settings.project), agent_id))
        stack.push_async_callback(fleet.close)
        supervisor = Supervisor(clock=clock)
        stack.push_async_callback(supervisor.stop)
        await _start(kernel, fleet, opened, supervisor)
        gateway = await open_gateway(
            settings, stack, supervisor, opened, bus=bus, clock=clock, near=Near(fleet, kernel), stand_ins=stand_ins
        )
        cordons = Cordons(kernel=kernel, store=opened.access, clock=clock)
        rooms = Rooms(kernel=kernel, gates=cordons, fleet=fleet, gateway=gateway, memory=opened.memory)
        immune, turn_vitals, custody = await open_immunity(
            settings, opened.immunity, stack, supervisor, rooms, bus=bus, clock=clock, ids=ids, stand_ins=stand_ins
        )
        runs = await open_runs(settings, supervisor, opened, rooms, bus=bus, clock=clock, ids=ids)
        workers = WorkerSessions(kernel, turns := LocalTurns(kernel))
        supervisor.add("worker sessions", workers.run)
        stack.push_async_callback(workers.leave)
        tools = ToolDesks(kernel=kernel, keeper=opened.tools, bus=bus, clock=clock)
        await tools.listen()
        feed, vitals_log = await _open_views(fleet, opened, supervisor, bus=bus, clock=clock, ids=ids)
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
            gateway=gateway,
            immune=immune,
            turn_vitals=turn_vitals,
            cordons=cordons,
            webhooks=await open_webhooks(settings, stack, supervisor, opened.access, bus=bus, clock=clock, ids=ids),
            provider=_provider(settings, stack, ids),
            access=Access(store=opened.access, clock=clock, ids=ids, required=settings.auth is Auth.KEYS),
            feed=feed,
            vitals_log=vitals_log,
            spending=Spending(gateway.outlays, clock=clock),
            runs=runs,
            custody=custody,
            operations=await open_operations(
                stack, supervisor, opened.access, alone=settings.store_url is None, clock=clock, ids=ids
            ),
            supervisor=supervisor,
            store_place=opened.place,
        )


def _provider(settings: Settings, stack: AsyncExitStack, ids: Ids) -> IdentityProvider | None:
    if settings.oidc_issuer is None:
        return None
    from homeostat.adapters.providers.oidc import OidcProvider  # noqa: PLC0415 — an extra is loaded where it is used

    provider = OidcProvider(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        claim=settings.oidc_claim,
        roles=settings.oidc_roles,
        ids=ids,
    )
    stack.push_async_callback(provider.close)
    return provider


async def _open_views(
    fleet: Fleet, opened: Stores, supervisor: Supervisor, *, bus: Bus, clock: Clock, ids: Ids
) -> tuple[Feed, VitalsLog]:
    """What those who look are shown besides what is stored."""
    if sdk_present():
        tracing = Tracing(clock=clock, worked=opened.ledger.worked)
        await tracing.listen(bus)
        supervisor.add("tracing", tracing.run)
    feed = Feed(bus=bus, clock=clock, ids=ids)
    await feed.listen()
    fleet.broadcaster.told = feed.hear
    supervisor.add("event feed", feed.run)
    vitals_log = VitalsLog(clock=clock)
    await vitals_log.listen(bus)
    return feed, vitals_log


async def open_runs(
    settings: Settings, supervisor: Supervisor, opened: Stores, rooms: Rooms, *, bus: Bus, clock: Clock, ids: Ids
) -> Runs:
    """Runs, with what a red button began finished before the first is driven."""
    runs = Runs(
        store=opened.runs,
        kernel=rooms.kernel,
        bank=rooms.gateway,
        agents=Workforce(rooms.fleet, opened.turns),
        bus=bus,
        clock=clock,
        ids=ids,
        ledgers=open_ledgers(settings, opened.ledger, clock),
        notes=partial(notes_of, opened.ledger, opened.turns, left=rooms.kernel.deliverables.take_left),
        lease_seconds=settings.lease_seconds,
        ledger_retention_seconds=settings.ledger_retention_seconds,
        planner_seconds=settings.planner_seconds,
    )
    rooms.gateway.office.broke = runs.broke
    for name, function in load_planners(settings.planners):
        runs.add_planner(name, function)
    await runs.open()
    for title, run in runs.loops:
        supervisor.add(title, run)
    return runs


async def _start(kernel: Kernel, fleet: Fleet, opened: Stores, supervisor: Supervisor) -> None:
    """Have turns given out, but none of a run that is held, agents heard, and the time kept."""
    keep_time(supervisor, opened)
    for run_id in await opened.runs.held():
        kernel.hold_run(run_id)
    for title, run in kernel.loops:
        supervisor.add(title, run)
    await kernel.listen()
    await fleet.open()
    for title, run in fleet.loops:
        supervisor.add(title, run)


def _kernel(settings: Settings, opened: Stores, *, bus: Bus, clock: Clock, ids: Ids) -> Kernel:
    return Kernel(
        store=opened.turns,
        bus=bus,
        clock=clock,
        ids=ids,
        lease_seconds=settings.lease_seconds,
        retention_seconds=settings.retention_seconds,
    )


def _fleet(settings: Settings, opened: Stores, *, bus: Bus, clock: Clock, ids: Ids) -> Fleet:
    return Fleet(
        store=opened.registry,
        keeper=_status_keeper(settings, opened.registry),
        bus=bus,
        clock=clock,
        ids=ids,
        alone=settings.bus_url is None,
    )


@dataclass(slots=True, kw_only=True)
class GatewaySystem:
    """A gateway alone: it knows agents by the register that others write."""

    settings: Settings
    clock: Clock
    gateway: Gateway
    supervisor: Supervisor
    store_place: str


@asynccontextmanager
async def assemble_gateway(settings: Settings, *, clock: Clock | None = None) -> AsyncGenerator[GatewaySystem, None]:
    """A gateway that runs until the block ends, beside the servers that share its store."""
    async with AsyncExitStack() as stack:
        opened = await open_stores(settings, stack, clock or SystemClock())
        clock = opened.clock
        bus = await _open_bus(settings, stack)
        supervisor = Supervisor(clock=clock)
        stack.push_async_callback(supervisor.stop)
        keep_time(supervisor, opened)
        gateway = await open_gateway(settings, stack, supervisor, opened, bus=bus, clock=clock)
        yield GatewaySystem(
            settings=settings, clock=clock, gateway=gateway, supervisor=supervisor, store_place=opened.place
        )


@dataclass(frozen=True, slots=True)
class Near:
    """The rooms in a gateway's own process, which know some things sooner than the store tells them."""

    fleet: Fleet
    kernel: Kernel


async def open_gateway(
    settings: Settings,
    stack: AsyncExitStack,
    supervisor: Supervisor,
    opened: Stores,
    *,
    bus: Bus,
    clock: Clock,
    near: "Near | None" = None,
    stand_ins: StandIns | None = None,
) -> Gateway:
    """A gateway whose policies are in force before its first request."""
    gateway = Gateway(
        store=opened.gateway,
        bus=bus,
        keyring=RegisterKeyring(opened.registry, registered=None if near is None else near.fleet.registry.get),
        prices=ListedPrices(overrides=read_prices(settings.prices), clock=clock),
        outlets=open_outlets(
            settings.upstreams,
            answer_seconds=settings.upstream_seconds,
            record_dir=settings.record_dir,
            simulated=None if stand_ins is None else stand_ins.simulated,
        ),
        clock=clock,
        manners=Manners(
            unknown_model=settings.unknown_model,
            believes_runs=settings.believe_runs,
            policy_outage_seconds=settings.policy_outage_seconds,
        ),
        project=ProjectId(settings.project),
        development=settings.development,
        clear_context=context_clearer(opened.memory, clock),
        listener=Listener(),
        assignments=KernelAssignments(
            opened.turns, kernel=near.kernel if near is not None and settings.alone else None
        ),
        retention_seconds=settings.call_retention_seconds,
        lease_seconds=settings.lease_seconds,
    )
    gateway.office.runs = opened.runs
    await gateway.open()
    stack.push_async_callback(gateway.close)
    stack.push_async_callback(supervisor.stop)  # the gateway's loops end before it writes what is left
    for title, run in gateway.loops:
        supervisor.add(title, run)
    return gateway


def _status_keeper(settings: Settings, registry: RegistryStore) -> StatusKeeper:
    if settings.status_url is None:
        return LocalStatuses(store=registry, expiry_seconds=settings.agent_expiry_seconds, shared=not settings.alone)
    from homeostat.adapters.statuses.redis import RedisStatuses  # noqa: PLC0415 — a driver is loaded where it is used

    return RedisStatuses(url=settings.status_url, expiry_seconds=settings.agent_expiry_seconds)


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
