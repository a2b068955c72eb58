"""A fleet on embedded engines and a clock that is turned by hand, for tests of whatever talks to one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.adapters.statuses.redis import RedisStatuses
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.fleet import SqliteFleet
from homeostat.core.ids import Ids
from homeostat.core.ports.bus import Bus
from homeostat.fleet.fleet import Fleet
from homeostat.testing.clock import ManualClock


@dataclass(frozen=True, slots=True)
class FleetWorld:
    """One fleet and everything it stands on."""

    fleet: Fleet
    clock: ManualClock
    engine: SqliteEngine
    store: SqliteFleet
    bus: Bus

    @asynccontextmanager
    async def another(self, *, status_url: str | None = None) -> AsyncGenerator[Fleet]:
        """A second process on the same register and bus."""
        async with _fleet(self.store, self.clock, self.bus, status_url) as fleet:
            yield fleet


@asynccontextmanager
async def fleet_world(
    *, status_url: str | None = None, bus: Bus | None = None, alone: bool = False
) -> AsyncGenerator[FleetWorld]:
    """A fleet on an empty store; its loops are not started, tests call their ticks."""
    clock = ManualClock()
    engine = SqliteEngine(None)
    await engine.open()
    store = SqliteFleet(engine)
    bus = bus or LocalBus()
    try:
        async with _fleet(store, clock, bus, status_url, alone=alone) as fleet:
            yield FleetWorld(fleet, clock, engine, store, bus)
    finally:
        await engine.close()


@asynccontextmanager
async def _fleet(
    store: SqliteFleet, clock: ManualClock, bus: Bus, status_url: str | None, *, alone: bool = False
) -> AsyncGenerator[Fleet]:
    keeper = LocalStatuses(store=store, shared=not alone) if status_url is None else RedisStatuses(url=status_url)
    fleet = Fleet(store=store, keeper=keeper, bus=bus, clock=clock, ids=Ids(clock=clock), alone=alone)
    await fleet.open()
    try:
        yield fleet
    finally:
        await fleet.close()
