"""Where workers wait: a turn that becomes ready is handed to a parked worker in the commit that made it so."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from homeostat.core.errors import WorkerUnknown
from homeostat.core.ids import WorkerId
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.work import Fence, fence_of

log = logging.getLogger(__name__)

Revoke = Callable[[Fence], None]


@dataclass(slots=True)
class Berth:
    """One worker's place: which agents it hosts, how many turns it would take, and what became ready for it."""

    worker_id: WorkerId
    hosted: set[AgentKey]
    revoke: Revoke
    parked: int = 0
    closed: bool = False
    arrival: asyncio.Future[None] | None = None
    granted: list[Grant] = field(default_factory=list[Grant])
    ready: dict[AgentKey, None] = field(default_factory=dict[AgentKey, None])
    strangers: dict[Fence, float] = field(default_factory=dict[Fence, float])

    def unheard_of(self, fences: list[Fence], now: float) -> list[tuple[Fence, float]]:
        """Turns the worker holds without knowing it, each with the seconds since that was first noticed."""
        self.strangers = {fence: self.strangers.get(fence, now) for fence in fences}
        return [(fence, now - since) for fence, since in self.strangers.items()]

    def park(self, limit: int) -> asyncio.Future[None]:
        """Wait for up to so many turns; the future is done when one arrived, or may have."""
        self.parked = limit
        self.arrival = asyncio.get_running_loop().create_future()
        return self.arrival

    def unpark(self) -> None:
        """Wait no longer. Places that are reserved at this moment are not filled again if their commit fails."""
        self.parked = 0
        self.arrival = None

    def notify(self) -> None:
        if self.arrival is not None and not self.arrival.done():
            self.arrival.set_result(None)


class Dock:
    """Matches ready turns with parked workers of this process."""

    def __init__(self) -> None:
        self.hand_back: Callable[[Grant], None] | None = None
        self._berths: dict[WorkerId, Berth] = {}
        self._hosts: dict[AgentKey, deque[Berth]] = {}

    def __len__(self) -> int:
        return len(self._berths)

    @property
    def hosted(self) -> Iterable[AgentKey]:
        return self._hosts.keys()

    def open(self, worker_id: WorkerId, hosted: Iterable[AgentKey], revoke: Revoke) -> Berth:
        berth = Berth(worker_id, set(), revoke)
        self._berths[worker_id] = berth
        self.host(worker_id, hosted)
        return berth

    def host(self, worker_id: WorkerId, agents: Iterable[AgentKey]) -> None:
        """Let a worker take turns of more agents."""
        berth = self.berth(worker_id)
        for key in agents:
            if key not in berth.hosted:
                berth.hosted.add(key)
                self._hosts.setdefault(key, deque()).append(berth)

    def berth(self, worker_id: WorkerId) -> Berth:
        try:
            return self._berths[worker_id]
        except KeyError:
            raise WorkerUnknown(worker_id=worker_id) from None

    def close(self, worker_id: WorkerId) -> Berth | None:
        berth = self._berths.pop(worker_id, None)
        if berth is not None:
            berth.closed = True
            for key in berth.hosted:
                hosts = self._hosts[key]
                hosts.remove(berth)
                if not hosts:
                    del self._hosts[key]
            berth.notify()
        return berth

    def hosts(self, key: AgentKey) -> bool:
        return key in self._hosts

    def has(self, worker_id: WorkerId | None) -> bool:
        """Whether a worker waits for its turns in this process."""
        return worker_id in self._berths

    def take(self, key: AgentKey) -> Berth | None:
        """Reserve one parked place for a turn of this agent; give it back with `untake` if the save fails."""
        hosts = self._hosts.get(key)
        if hosts is None:
            return None
        for _ in range(len(hosts)):
            berth = hosts[0]
            hosts.rotate(-1)
            if berth.parked > 0:
                berth.parked -= 1
                return berth
        return None

    def untake(self, berth: Berth) -> None:
        """Give a reserved place back, if its worker still waits in it."""
        if berth.arrival is not None:
            berth.parked += 1

    def grant(self, berth: Berth, grant: Grant) -> None:
        """A turn was claimed for a worker, durably. If that left meanwhile, the turn goes back."""
        if berth.closed and self.hand_back is not None:
            self.hand_back(grant)
            return
        berth.granted.append(grant)
        berth.notify()

    def collect(self, berth: Berth, claim: asyncio.Future[Grant | None]) -> None:
        """Take in what a claim came to; a lost race is nothing."""
        if not claim.cancelled() and claim.exception() is None and (grant := claim.result()) is not None:
            self.grant(berth, grant)

    def ready(self, key: AgentKey) -> None:
        """A turn waits and nobody here was parked: the next claim finds it."""
        for berth in self._hosts.get(key, ()):
            berth.ready[key] = None
            berth.notify()

    def revoke(self, fence: Fence) -> None:
        """Tell the worker that holds a turn to stop at once, if it is one of ours."""
        berth = self._berths.get(fence.worker_id)
        if berth is None:
            return
        # The turn may have come back to the same worker under a new epoch, in the very commit that took it away.
        berth.granted = [grant for grant in berth.granted if fence_of(grant) != fence]
        try:
            berth.revoke(fence)
        except Exception:
            log.exception("a worker could not be told to stop")
