"""Opens the immune system with the ways in which it holds agents, as the settings name them."""

from contextlib import AsyncExitStack

from homeostat.app.custody import CustodyDesk, open_custody
from homeostat.app.holding import ImmuneKeepers, Rooms, StandIns, Ways, open_holding
from homeostat.app.immunity import open_immune
from homeostat.app.settings import Settings
from homeostat.app.supervisor import Supervisor
from homeostat.app.turn_vitals import TurnVitals
from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.bus import Bus
from homeostat.immune.immune import Immune


async def open_immunity(
    settings: Settings,
    keepers: ImmuneKeepers,
    stack: AsyncExitStack,
    supervisor: Supervisor,
    rooms: Rooms,
    *,
    bus: Bus,
    clock: Clock,
    ids: Ids,
    stand_ins: StandIns,
) -> tuple[Immune, TurnVitals, CustodyDesk | None]:
    """Whoever was held before this process began is held before anything is served."""
    holding = await open_holding(ways_of(settings), keepers, stack, rooms, clock=clock, stand_ins=stand_ins)
    immune, turn_vitals = await open_immune(
        keepers, stack, supervisor, rooms, holding, bus=bus, clock=clock, ids=ids, stand_ins=stand_ins
    )
    return immune, turn_vitals, await open_custody(settings, holding, stack, rooms.fleet, immune)


def ways_of(settings: Settings) -> Ways:
    """The ways to hold agents that the settings name."""
    return Ways(mode=settings.enforcement)
