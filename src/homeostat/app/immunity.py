"""Joins the immune system with the rooms it watches and acts on."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from homeostat.adapters.enforcers.composite import CompositeEnforcer
from homeostat.adapters.enforcers.gateway import GatewayEnforcer
from homeostat.adapters.enforcers.kernel import KernelEnforcer
from homeostat.adapters.remedies.chained import ChainedRemedies
from homeostat.adapters.remedies.gateway import GatewayRemedies
from homeostat.app.supervisor import Supervisor
from homeostat.app.turn_vitals import TurnVitals
from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.immune import Enforcer, Gates, ImmuneStore, Remedies
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.turn import AgentKey
from homeostat.fleet.fleet import Fleet
from homeostat.gateway.gateway import Gateway
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.immune import Immune
from homeostat.immune.orchestrator import Member
from homeostat.kernel.kernel import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """What takes the place of the world where agents are simulated: numbers to act by, treatments, and a model.

    Enforcers hold agents besides the kernel and the gateway. Remedies are tried before those of the gateway: whoever
    runs agents of its own knows how to treat them.
    """

    doctrine: Doctrine | None = None
    enforcers: tuple[Enforcer, ...] = ()
    remedies: Remedies | None = None
    simulated: Upstream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Whom it watches, and through whom it acts."""

    kernel: Kernel
    gates: Gates
    fleet: Fleet
    gateway: Gateway
    memory: MemoryKeeper


async def open_immune(
    store: ImmuneStore,
    stack: AsyncExitStack,
    supervisor: Supervisor,
    rooms: Rooms,
    *,
    bus: Bus,
    clock: Clock,
    ids: Ids,
    stand_ins: StandIns,
) -> tuple[Immune, TurnVitals]:
    """An immune system whose decisions are in force before the first request."""
    kernel, fleet, gateway = rooms.kernel, rooms.fleet, rooms.gateway

    def roster(key: AgentKey) -> Member | None:
        member = fleet.registry.get(key[1])
        if member is None or member.entry.project != key[0]:
            return None
        return Member(member.entry.agent_type, member.entry.tags)

    own = GatewayRemedies(policies=gateway, memory=rooms.memory, clock=clock)
    immune = Immune(
        store=store,
        bus=bus,
        enforcer=CompositeEnforcer(
            [
                KernelEnforcer(gates=rooms.gates, heads=kernel.store),
                GatewayEnforcer(policies=gateway, clock=clock),
                *stand_ins.enforcers,
            ]
        ),
        remedies=own if stand_ins.remedies is None else ChainedRemedies([stand_ins.remedies, own]),
        roster=roster,
        fleet_size=lambda: len(fleet.registry),
        clock=clock,
        ids=ids,
        doctrine=stand_ins.doctrine,
    )
    await immune.open()
    stack.push_async_callback(immune.close)
    stack.push_async_callback(supervisor.stop)  # its loop ends before it writes what is left
    for title, run in immune.loops:
        supervisor.add(title, run)
    turns = TurnVitals(immune=immune, listener=immune.listener, clock=clock)
    await turns.listen(bus)
    kernel.on_result = turns.on_result
    supervisor.add("tool results", turns.run)
    return immune, turns
