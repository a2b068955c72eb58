"""Chooses the ways in which agents are held and treated here."""

import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from homeostat.adapters.enforcers.cluster import Cluster
from homeostat.adapters.enforcers.container import ContainerEnforcer, DockerEngine
from homeostat.adapters.enforcers.gateway import GatewayEnforcer
from homeostat.adapters.enforcers.kernel import KernelEnforcer
from homeostat.adapters.enforcers.kubernetes import KubernetesEnforcer
from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.adapters.remedies.chained import ChainedRemedies
from homeostat.adapters.remedies.container import ContainerRemedies
from homeostat.adapters.remedies.control import ControlClient, Signer
from homeostat.adapters.remedies.gateway import GatewayRemedies
from homeostat.adapters.remedies.process import ProcessRemedies
from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.immune import EnforcementStore, Enforcer, Engine, Gates, ImmuneStore, Remedies
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.enforcement import Mode
from homeostat.core.records.turn import AgentKey
from homeostat.fleet.fleet import Fleet
from homeostat.gateway.gateway import Gateway
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.enforcement import Enforcement
from homeostat.kernel.kernel import Kernel

CONTAINER_TAG: Final = "runtime:container"  # an agent with this tag is to be held as one, whether it is found or not
KUBERNETES_TAG: Final = "runtime:kubernetes"


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
    """Whom the immune system watches, and through whom it acts."""

    kernel: Kernel
    gates: Gates
    fleet: Fleet
    gateway: Gateway
    memory: MemoryKeeper


@dataclass(frozen=True, slots=True)
class ImmuneKeepers:
    """Where the immune system keeps what it knows, and what it wants."""

    immune: ImmuneStore
    enforcement: EnforcementStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Which ways to hold agents were set up."""

    mode: Mode = Mode.ALL
    docker_socket: Path | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How agents are held and treated."""

    enforcement: Enforcement
    processes: ProcessEnforcer
    remedies: Remedies
    control_key: str  # by which agents know our orders
    engines: tuple[Engine, ...] = ()


async def open_holding(
    ways: Ways,
    keepers: ImmuneKeepers,
    stack: AsyncExitStack,
    rooms: Rooms,
    *,
    clock: Clock,
    ids: Ids,
    stand_ins: StandIns,
) -> Holding:
    """Every strategy that can be had, with what it knew before this process began."""
    kernel, gateway = rooms.kernel, rooms.gateway
    processes = ProcessEnforcer(store=keepers.enforcement, clock=clock)
    await processes.open()
    signer = Signer(await keepers.enforcement.signing_key(ids.signing_seed()))
    enforcers: list[Enforcer] = [
        GatewayEnforcer(policies=gateway, clock=clock),
        KernelEnforcer(gates=rooms.gates, heads=kernel.store),
        processes,
    ]
    engine = None if ways.docker_socket is None else DockerEngine(str(ways.docker_socket))
    if engine is not None:
        stack.push_async_callback(engine.close)
        enforcers.append(ContainerEnforcer(engine, expects=_said_to_be(CONTAINER_TAG, rooms.fleet)))
    if ways.cluster is not None:
        stack.push_async_callback(ways.cluster.close)
        enforcers.append(KubernetesEnforcer(ways.cluster, expects=_said_to_be(KUBERNETES_TAG, rooms.fleet)))
    enforcement = Enforcement(
        store=keepers.enforcement,
        enforcers=[*enforcers, *stand_ins.enforcers],
        spending=gateway,
        clock=clock,
        mode=ways.mode,
        host=socket.gethostname(),
    )

    async def tell(key: AgentKey, what: str, said: dict[str, object]) -> None:
        await enforcement.tell(key, what, said)

    remedies = ChainedRemedies(
        [
            *(() if stand_ins.remedies is None else (stand_ins.remedies,)),
            ProcessRemedies(
                processes=processes,
                control=ControlClient(store=keepers.enforcement, signer=signer, clock=clock, ids=ids),
            ),
            ContainerRemedies(engine=engine, cluster=ways.cluster, clock=clock),
            GatewayRemedies(policies=gateway, memory=rooms.memory, clock=clock),
        ],
        tell=tell,
    )
    return Holding(
        enforcement=enforcement,
        processes=processes,
        remedies=remedies,
        control_key=signer.public,
        engines=tuple(one for one in (engine, ways.cluster) if one is not None),
    )


def _said_to_be(runtime: str, fleet: Fleet) -> Callable[[AgentKey], bool]:
    """Whether an agent registered with the tag of a runtime."""

    def expects(key: AgentKey) -> bool:
        member = fleet.registry.get(key[1])
        return member is not None and member.entry.project == key[0] and runtime in member.entry.tags

    return expects
