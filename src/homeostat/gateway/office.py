"""What every call needs to be handled: the gateway's rules, books and clocks in one place."""

import asyncio
from dataclasses import dataclass, field

from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.limits import CALL_BODY_BYTES_MAX, CLIENT_STALL_SECONDS, PATIENCE_SECONDS, PING_SECONDS
from homeostat.core.ports.gateway import PriceList
from homeostat.core.records.call import Outcome
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.clerk import Clerk
from homeostat.gateway.doorman import Doorman
from homeostat.gateway.errands import Errands
from homeostat.gateway.metering import UnknownModel
from homeostat.gateway.policies import PolicyBook
from homeostat.gateway.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What can be set about how calls are handled."""

    unknown_model: UnknownModel = UnknownModel.TOKENS
    believes_runs: bool = False
    body_bytes_max: int = CALL_BODY_BYTES_MAX
    ping_seconds: float = PING_SECONDS
    patience_seconds: float = PATIENCE_SECONDS
    client_stall_seconds: float = CLIENT_STALL_SECONDS


class InFlight:
    """How many calls of each agent are open here, counted from the gate to the last byte."""

    __slots__ = ("_counts", "_entering")

    def __init__(self) -> None:
        self._counts: dict[AgentKey, int] = {}
        self._entering: dict[int, int] = {}

    def enter(self, agent: AgentKey, version: int) -> None:
        """A call passes the gate as policies of a version hold it open."""
        counts, entering = self._counts, self._entering
        counts[agent] = counts.get(agent, 0) + 1
        entering[version] = entering.get(version, 0) + 1

    def entered(self, version: int) -> None:
        """It is in the books from now on, or was turned away."""
        entering = self._entering
        if left := entering[version] - 1:
            entering[version] = left
        else:
            del entering[version]

    def settled_version(self, version: int) -> int:
        """The newest policies under which every call of this gateway is in the books."""
        return min(version, *self._entering) if self._entering else version

    def leave(self, agent: AgentKey) -> None:
        counts = self._counts
        left = counts[agent] - 1
        if left:
            counts[agent] = left
        else:
            del counts[agent]

    def count(self, agent: AgentKey) -> int:
        return self._counts.get(agent, 0)

    @property
    def total(self) -> int:
        return sum(self._counts.values())


class Warden:
    """Looks after open calls at a steady beat: cheaper than a timer for each of them, and almost as exact."""

    def __init__(self, *, clock: Clock, seconds: float, clerk: Clerk) -> None:
        self._clock = clock
        self._seconds = seconds
        self._clerk = clerk

    async def run(self) -> None:
        while True:
            await self._clerk.any_open.wait()
            await asyncio.sleep(self._seconds)
            self.tick()

    def tick(self) -> None:
        now = self._clock.monotonic()
        for call in tuple(self._clerk.open):
            call.tick(now)


@dataclass(slots=True, kw_only=True)
class Office:
    """The collaborators of a call."""

    clock: Clock
    ids: Ids
    routes: Routes
    doorman: Doorman
    book: PolicyBook
    clerk: Clerk
    prices: PriceList
    errands: Errands
    manners: Manners = field(default_factory=Manners)
    in_flight: InFlight = field(default_factory=InFlight)
    counters: dict[tuple[Outcome, str], int] = field(default_factory=dict[tuple[Outcome, str], int])

    def count(self, outcome: Outcome, code: str) -> None:
        key = (outcome, code)
        self.counters[key] = self.counters.get(key, 0) + 1
