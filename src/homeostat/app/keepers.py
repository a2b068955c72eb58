"""Opens the store that settings name: every room's keeper on one engine, and the clock that all who share it go by."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.app import stores
from homeostat.app.holding import ImmuneKeepers
from homeostat.app.settings import Settings
from homeostat.app.supervisor import Supervisor
from homeostat.app.timekeeper import Timekeeper
from homeostat.core.clock import Clock, StoreClock, SystemClock
from homeostat.core.ports.access import AccessKeeper
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import EnforcementStore, ImmuneStore
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.ports.tools import ToolKeeper


@dataclass(frozen=True, slots=True)
class Stores:
    """Every room's keeper on one engine, where that is in words, and its time."""

    turns: TurnStore
    registry: RegistryStore
    memory: MemoryKeeper
    tools: ToolKeeper
    gateway: GatewayStore
    immune: ImmuneStore
    access: AccessKeeper
    runs: RunStore
    enforcement: EnforcementStore
    ledger: LedgerStore
    place: str
    clock: Clock
    timekeeper: Timekeeper | None

    @property
    def immunity(self) -> ImmuneKeepers:
        return ImmuneKeepers(self.immune, self.enforcement)


async def open_stores(settings: Settings, stack: AsyncExitStack, clock: Clock) -> Stores:
    """The store that the settings name, open and migrated. Whoever has a file open is on its machine."""
    url = None if settings.ephemeral else settings.store_url or stores.embedded_url(settings.data_dir)
    engine = await stores.open_engine(url)
    stack.push_async_callback(engine.close)
    timekeeper: Timekeeper | None = None
    if not isinstance(engine, SqliteEngine) and isinstance(clock, SystemClock):  # one that tests turn is no machine's
        timekeeper = Timekeeper(StoreClock(clock), engine.time_ms)
        await timekeeper.open()
    return Stores(
        stores.turn_store(engine),
        stores.registry_store(engine),
        stores.memory_keeper(engine),
        stores.tool_keeper(engine),
        stores.gateway_store(engine),
        stores.immune_store(engine),
        stores.access_store(engine),
        stores.run_store(engine),
        stores.enforcement_store(engine),
        stores.ledger_store(engine),
        stores.place(url),
        clock if timekeeper is None else timekeeper.clock,
        timekeeper,
    )


def keep_time(supervisor: Supervisor, opened: Stores) -> None:
    """Look at the store's clock for as long as the process runs."""
    if opened.timekeeper is not None:
        supervisor.add("timekeeper", opened.timekeeper.run)
