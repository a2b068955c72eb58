"""Joins the immune system with the rooms it watches and acts on."""

from contextlib import AsyncExitStack

from homeostat.app.holding import Holding, ImmuneKeepers, Rooms, StandIns
from homeostat.app.supervisor import Supervisor
from homeostat.app.turn_vitals import TurnVitals
from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.bus import Bus
from homeostat.core.records.turn import AgentKey
from homeostat.immune.immune import Immune
from homeostat.immune.ward import Member


async def open_immune(
    keepers: ImmuneKeepers,
    stack: AsyncExitStack,
    supervisor: Supervisor,
    rooms: Rooms,
    holding: Holding,
    *,
    bus: Bus,
    clock: Clock,
    ids: Ids,
    stand_ins: StandIns,
) -> tuple[Immune, TurnVitals]:
    """An immune system whose decisions are in force before the first request."""
    fleet = rooms.fleet

    def roster(key: AgentKey) -> Member | None:
        member = fleet.registry.get(key[1])
        if member is None or member.entry.project != key[0]:
            return None
        return Member(member.entry.agent_type, member.entry.tags, member.entry.hostname)

    immune = Immune(
        store=keepers.immune,
        bus=bus,
        enforcement=holding.enforcement,
        remedies=holding.remedies,
        roster=roster,
        catch_up=fleet.registry.refresh,
        fleet_size=fleet.registry.size,
        clock=clock,
        ids=ids,
        doctrine=stand_ins.doctrine,
        engines=holding.engines,
    )
    await immune.open()
    stack.push_async_callback(immune.close)
    stack.push_async_callback(supervisor.stop)  # its loop ends before it writes what is left
    for title, run in immune.loops:
        supervisor.add(title, run)
    turns = TurnVitals(immune=immune, listener=immune.listener, clock=clock, standstills=rooms.gateway.standstills)
    await turns.listen(bus)
    rooms.kernel.on_result = turns.on_result
    supervisor.add("tool results", turns.run)
    return immune, turns
