"""Opens the immune system with the ways in which it holds agents, as the settings name them."""

import os
from contextlib import AsyncExitStack

from homeostat.adapters.enforcers.cluster import ACCOUNT, Cluster
from homeostat.app.custody import CustodyDesk, open_custody
from homeostat.app.holding import ImmuneKeepers, Rooms, StandIns, Ways, open_holding
from homeostat.app.immunity import open_immune
from homeostat.app.settings import IN_CLUSTER, Settings
from homeostat.app.supervisor import Supervisor
from homeostat.app.turn_vitals import TurnVitals
from homeostat.core.clock import Clock
from homeostat.core.errors import SettingInvalid
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
    holding = await open_holding(ways_of(settings), keepers, stack, rooms, clock=clock, ids=ids, stand_ins=stand_ins)
    immune, turn_vitals = await open_immune(
        keepers, stack, supervisor, rooms, holding, bus=bus, clock=clock, ids=ids, stand_ins=stand_ins
    )
    return immune, turn_vitals, await open_custody(settings, holding, stack, rooms.fleet, immune)


def ways_of(settings: Settings) -> Ways:
    """The ways to hold agents that the settings name."""
    return Ways(mode=settings.enforcement, docker_socket=settings.docker_socket, cluster=_cluster(settings))


def _cluster(settings: Settings) -> Cluster | None:
    url = settings.kubernetes_url
    if url is None:
        return None
    if url == IN_CLUSTER:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if host is None:
            raise SettingInvalid(setting="kubernetes_url", problem="this process does not run in a cluster")
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Cluster(
        url,
        namespace=settings.kubernetes_namespace,
        token_file=settings.kubernetes_token_file or ACCOUNT / "token",
        ca_file=settings.kubernetes_ca_file or ACCOUNT / "ca.crt",
    )
