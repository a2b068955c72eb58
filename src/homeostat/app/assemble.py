"""Puts a Homeostat together: the only place that chooses adapters."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.app.local_turns import LocalTurns
from homeostat.app.sessions import WorkerSessions
from homeostat.app.settings import Settings
from homeostat.app.supervisor import Supervisor
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Ids
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.kernel.kernel import Kernel

STORE_FILE = "homeostat.db"


@dataclass(slots=True, kw_only=True)
class System:
    """A running Homeostat: its rooms, and who looks after their loops."""

    settings: Settings
    clock: Clock
    ids: Ids
    bus: Bus
    kernel: Kernel
    turns: LocalTurns
    workers: WorkerSessions
    supervisor: Supervisor
    store_place: str


@asynccontextmanager
async def assemble(settings: Settings, *, clock: Clock | None = None) -> AsyncGenerator[System, None]:
    """A Homeostat that runs until the block ends. What began last ends first."""
    clock = clock or SystemClock()
    ids = Ids(clock=clock)
    async with AsyncExitStack() as stack:
        store, place = await _open_store(settings, stack)
        bus = await _open_bus(settings, stack)
        kernel = Kernel(
            store=store,
            bus=bus,
            clock=clock,
            ids=ids,
            lease_seconds=settings.lease_seconds,
            retention_seconds=settings.retention_seconds,
        )
        supervisor = Supervisor(clock=clock)
        stack.push_async_callback(supervisor.stop)
        for title, run in kernel.loops:
            supervisor.add(title, run)
        await kernel.listen()
        turns = LocalTurns(kernel)
        workers = WorkerSessions(kernel, turns)
        supervisor.add("worker sessions", workers.run)
        stack.push_async_callback(workers.leave)
        yield System(
            settings=settings,
            clock=clock,
            ids=ids,
            bus=bus,
            kernel=kernel,
            turns=turns,
            workers=workers,
            supervisor=supervisor,
            store_place=place,
        )


async def _open_store(settings: Settings, stack: AsyncExitStack) -> tuple[TurnStore, str]:
    """The store that the settings name, open and migrated, and where it is in words."""
    if settings.store_url is not None and not settings.store_url.startswith("sqlite"):
        return await _open_postgres(settings.store_url, stack)
    path = _sqlite_path(settings)
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = SqliteEngine(path)
    stack.push_async_callback(engine.close)
    await engine.open()
    return SqliteTurns(engine), "memory, forgotten at the end" if path is None else str(path)


def _sqlite_path(settings: Settings) -> Path | None:
    if settings.store_url is not None:
        return Path(urlsplit(settings.store_url).path)
    return None if settings.ephemeral else settings.data_dir / STORE_FILE


async def _open_postgres(url: str, stack: AsyncExitStack) -> tuple[TurnStore, str]:
    # The driver is loaded only where it is used.
    stores: Any = import_module("homeostat.app.stores")
    engine = stores.open_engine(url)
    stack.push_async_callback(engine.close)
    await engine.open()
    return stores.turn_store(engine), without_credentials(url)


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


def without_credentials(url: str) -> str:
    """A URL that may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
