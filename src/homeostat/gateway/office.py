"""What every call needs to be handled: the gateway's rules, books and clocks in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.gateway_errors import BudgetExceeded
from homeostat.core.ids import Ids, ProjectId, RunId
from homeostat.core.limits import (
    CALL_BODY_BYTES_MAX,
    CLIENT_STALL_SECONDS,
    PATIENCE_SECONDS,
    PING_SECONDS,
    POLICY_OUTAGE_SECONDS,
)
from homeostat.core.machines.run import RunStatus
from homeostat.core.ports.gateway import PriceList, RunGates
from homeostat.core.records.budget import BudgetKind, BudgetLimit
from homeostat.core.records.call import Outcome
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.turn import AgentKey
from homeostat.core.run_errors import RunClosed
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
    policy_outage_seconds: float = POLICY_OUTAGE_SECONDS


class InFlight:
    """How many calls of each agent are open here, counted from the gate to the last byte."""

    __slots__ = ("_counts", "_entering")

    def __init__(self) -> None:
        self._counts: dict[AgentKey, int] = {}
        self._entering: dict[int, int] = {}

    def enter(self, agent: AgentKey) -> None:
        """A call passes the gate."""
        counts = self._counts
        counts[agent] = counts.get(agent, 0) + 1

    def entering(self, version: int) -> None:
        """It takes its time to come into the books, let in by policies of a version."""
        entering = self._entering
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

    def count_of(self, project: ProjectId) -> int:
        """Those of a project's agents, all together."""
        return sum(count for agent, count in self._counts.items() if agent[0] == project)

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
        for call in tuple(self._clerk.airspace.calls):
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
    runs: RunGates | None = None
    broke: Callable[[RunId, Millis, str, BudgetLimit], None] | None = (
        None  # told at once of a run whose call was refused for lack of money
    )
    manners: Manners = field(default_factory=Manners)
    in_flight: InFlight = field(default_factory=InFlight)
    counters: dict[tuple[Outcome, str], int] = field(default_factory=dict[tuple[Outcome, str], int])

    async def admit(self, *run_ids: RunId | None) -> None:
        """See that a run may still spend. The store is asked for every call, so a kill holds from its commit on.

        An agent that goes on after its turn was stopped works for nobody; the run it says it works for is asked about.
        """
        for run_id in set(run_ids):
            if self.runs is None or run_id is None:
                continue
            if await self.runs.ended(run_id) in (RunStatus.KILLED, RunStatus.FAILED):
                raise RunClosed(run_id=run_id)

    def tell(self, error: HomeostatError, agent: AgentKey) -> None:
        """Say that a run has nothing left to spend: whoever drives it should know, and so should whoever heard no
        warning, because the call that was refused is what would have brought it there.
        """
        if isinstance(error, BudgetExceeded) and error.facts.get("kind") == BudgetKind.RUN:
            run_id = RunId(str(error.facts["holder"]))
            now, why, limit = self.clock.now_ms(), error.why, BudgetLimit(str(error.facts["limit"]))
            self.clerk.warn((agent[0], BudgetKind.RUN, run_id), limit)
            if self.broke is not None:
                self.broke(run_id, now, why, limit)
            body = to_json({"run_id": run_id, "limit": limit, "agent_id": agent[1], "why": why, "at_ms": now})
            event_id = f"{run_id}:refused:{self.ids.scope()}"
            self.clerk.announce(Event(event_id, agent[0], Channel.EVT, "run", run_id, "budget_refused", body))

    def count(self, outcome: Outcome, code: str) -> None:
        key = (outcome, code)
        self.counters[key] = self.counters.get(key, 0) + 1
