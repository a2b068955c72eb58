"""What every call needs to be handled: the gateway's rules, books and clocks in one place."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from homeostat.core.clock import Clock
from homeostat.core.ids import Ids, RunId
from homeostat.core.limits import CALL_BODY_BYTES_MAX, CLIENT_STALL_SECONDS, PATIENCE_SECONDS, PING_SECONDS
from homeostat.core.ports.gateway import PriceList
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.clerk import Clerk
from homeostat.gateway.doorman import Doorman
from homeostat.gateway.metering import UnknownModel
from homeostat.gateway.policies import PolicyBook
from homeostat.gateway.routes import Routes


class RunOf(Protocol):
    """Tells which run an agent works for, should its request not say so."""

    def __call__(self, agent: AgentKey) -> RunId | None: ...


def no_run(agent: AgentKey) -> RunId | None:
    """Nobody knows of any run."""
    del agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What can be set about how calls are handled."""

    unknown_model: UnknownModel = UnknownModel.TOKENS
    body_bytes_max: int = CALL_BODY_BYTES_MAX
    ping_seconds: float = PING_SECONDS
    patience_seconds: float = PATIENCE_SECONDS
    client_stall_seconds: float = CLIENT_STALL_SECONDS


class InFlight:
    """How many calls of each agent are open here, counted from the gate to the last byte."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[AgentKey] = Counter()

    def enter(self, agent: AgentKey) -> None:
        self._counts[agent] += 1

    def leave(self, agent: AgentKey) -> None:
        left = self._counts[agent] - 1
        assert left >= 0, "whoever leaves has entered"
        if left:
            self._counts[agent] = left
        else:
            del self._counts[agent]

    def count(self, agent: AgentKey) -> int:
        return self._counts.get(agent, 0)

    @property
    def total(self) -> int:
        return self._counts.total()


class Watched(Protocol):
    """A call that may take long."""

    def tick(self, now: float) -> None:
        """Look whether something is due."""
        ...


class Warden:
    """Looks after open calls at a steady beat: cheaper than a timer for each of them, and almost as exact."""

    def __init__(self, *, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._open: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, call: Watched) -> None:
        self._open.add(call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def leave(self, call: Watched) -> None:
        self._open.discard(call)

    def _tick(self) -> None:
        self._timer = None
        if not self._open:
            return
        now = self._clock.monotonic()
        for call in tuple(self._open):
            call.tick(now)
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
    warden: Warden
    manners: Manners = field(default_factory=Manners)
    run_of: RunOf = no_run
    in_flight: InFlight = field(default_factory=InFlight)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def count(self, what: str, detail: str = "") -> None:
        self.counters[what, detail] += 1
