"""The fleet as one object: what the server and the other rooms call."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from homeostat.core.clock import Clock, Millis, SystemClock
from homeostat.core.errors import AgentUnknown, Unavailable
from homeostat.core.filter import EVERYTHING, Filter
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId
from homeostat.core.limits import (
    PAGE_MAX,
    REGISTRY_POLL_SECONDS,
    SNAPSHOT_AGENTS_MAX,
    STALE_INTERVALS,
    STANDINGS_SAVED_SECONDS,
)
from homeostat.core.machines.liveness import Liveness
from homeostat.core.machines.phase import Phase
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.fleet import RegistryStore, StatusKeeper
from homeostat.core.records.fleet import (
    Admission,
    AgentStatus,
    Census,
    Departure,
    IntervalScope,
    PushInterval,
    Registration,
    Sample,
)
from homeostat.core.wire.fleet import AgentRow, UpdateEvent
from homeostat.fleet.announcements import Announcer
from homeostat.fleet.broadcast import Broadcaster, Interest, Reader
from homeostat.fleet.heartbeats import Heartbeats, Receipt
from homeostat.fleet.liveness import Sweeper
from homeostat.fleet.push_rate import PushRates
from homeostat.fleet.registry import Enrolled, Introduction, Member, Registry, checked_word
from homeostat.fleet.rows import row_of
from homeostat.fleet.updates import Change, Fell, Heard, Joined, Known, fell

log = logging.getLogger(__name__)

Loop = tuple[str, Callable[[], Awaitable[None]]]
PhaseOf = Callable[[AgentId], Phase]


@dataclass(frozen=True, slots=True)
class AgentsPage:
    """A part of the fleet, and where the next one begins."""

    agents: list[AgentRow]
    following: AgentId | None


class Fleet:
    """Registration, heartbeats, intervals, liveness and the live feed on one register and one status keeper.

    `loops` are its background work; whoever assembles it owns their tasks. `alone` says that no other process shares
    the register, so that nothing needs to be told to any.
    """

    def __init__(
        self,
        *,
        store: RegistryStore,
        keeper: StatusKeeper,
        bus: Bus,
        clock: Clock | None = None,
        ids: Ids | None = None,
        alone: bool = False,
        phase_of: PhaseOf = lambda _: Phase.INITIALIZING,
    ) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(clock=self._clock)
        self._keeper = keeper
        self.phase_of: PhaseOf = phase_of
        self._saved_at = self._clock.monotonic()
        origin = self._ids.scope()
        self.rates = PushRates(store=store)
        self.registry = Registry(store=store, rates=self.rates, clock=self._clock, ids=self._ids)
        self._announcer = None if alone else Announcer(bus=bus, ids=self._ids, origin=origin, hear=self._hear)
        self.broadcaster = Broadcaster(
            clock=self._clock,
            stream=origin,
            rows=self._pages,
            relay=None if self._announcer is None else self._announcer.tell,
        )
        self.sweeper = Sweeper(
            registry=self.registry,
            keeper=keeper,
            broadcaster=self.broadcaster,
            clock=self._clock,
            listen=self._listen,
        )
        self.heartbeats = Heartbeats(
            registry=self.registry,
            keeper=keeper,
            broadcaster=self.broadcaster,
            sweeper=self.sweeper,
            clock=self._clock,
        )
        self.loops: tuple[Loop, ...] = (
            ("fleet broadcaster", self.broadcaster.run),
            ("fleet relay", self.broadcaster.run_relay),
            ("fleet sweep", self.sweeper.run),
            ("fleet registrar", self.run_registrar),
        )

    async def open(self) -> None:
        """Read the register, then begin to listen. A status keeper that is away is listened to once it is back."""
        await self._catch_up()
        if self._announcer is not None:
            await self._announcer.listen()
        try:
            await self._listen()
        except Unavailable as error:
            log.warning("statuses are not available yet: %s", error)

    async def close(self) -> None:
        try:
            await self._keeper.close()
        except Unavailable as error:
            log.warning("the last statuses were not written down: %s", error)

    # --- agents --------------------------------------------------------------------------------------------

    async def register(self, introduction: Introduction, key: str | None = None) -> Enrolled:
        """Enter an agent; it counts as heard from now on."""
        enrolled = await self.registry.register(introduction, key)
        member = enrolled.member
        now = self._clock.now_ms()
        try:
            await self._keeper.admit(now, Admission(member.entry, self.registry.interval(member).ms))
            known = enrolled.was and Known(enrolled.was.project, enrolled.was.agent_type, enrolled.was.tags)
            self.broadcaster.publish(Joined((await self._rows([member]))[0], member.entry.project, known))
        except Unavailable as error:  # its first heartbeat makes up for it
            log.warning("%s is registered, but has no status yet: %s", member.entry.agent_id, error)
        self.sweeper.expect(now + STALE_INTERVALS * member.interval_ms)
        return enrolled

    async def deregister(self, agent_id: AgentId, project: ProjectId | None = None) -> Registration | None:
        """Let an agent go; None if it had left before."""
        left = await self.registry.leave(agent_id, Departure.DEREGISTERED, project)
        try:
            await self._keeper.drop([agent_id])
        except Unavailable as error:  # the sweep finds it
            log.warning("%s has left, but its status is still there: %s", agent_id, error)
        if left is not None and left.gone_at_ms is not None:
            self.broadcaster.publish(fell(UpdateEvent.DEREGISTERED, left, Liveness.GONE, left.gone_at_ms))
        return left

    async def identify(self, secret: str | None) -> Member:
        return await self.registry.identify(secret)

    async def beat(self, member: Member, status: AgentStatus) -> Receipt:
        return await self.heartbeats.take(member, status)

    async def agent(self, agent_id: AgentId, project: ProjectId | None = None) -> AgentRow:
        """An agent as it stands; one of another project is not there, in the same words as one that never was."""
        return (await self._rows([await self._member(agent_id, project)]))[0]

    async def require(self, agent_id: AgentId, project: ProjectId) -> None:
        """Raises `AgentUnknown` unless a project has this agent."""
        await self._member(agent_id, project)

    async def has_left(self, agent_id: AgentId, project: ProjectId) -> bool:
        """Whether a project had this agent and has it no longer."""
        return self.registry.get(agent_id) is None and await self.registry.departed(agent_id, project)

    async def agents(
        self,
        interest: Interest,
        *,
        status: str | None = None,
        wanted: Filter = EVERYTHING,
        after: AgentId | None = None,
        limit: int = PAGE_MAX,
        spent: Mapping[AgentId, float] | None = None,
    ) -> AgentsPage:
        """A page of the fleet in order of ids. `status` is a presence, or what agents say of themselves.

        `spent` is what they spent today, where it is to be shown.
        """
        found: list[AgentRow] = []
        candidates = self._candidates(interest, after)
        while batch := list(islice(candidates, SNAPSHOT_AGENTS_MAX)):
            for bare in await self._rows(batch):
                row = bare
                if spent is not None:
                    row = replace(bare, cost_usd_today=spent.get(AgentId(bare.agent_id), 0.0))
                if (status is None or status in (row.status, row.presence)) and wanted.covers(row):
                    if len(found) == limit:
                        return AgentsPage(found, AgentId(found[-1].agent_id))
                    found.append(row)
        return AgentsPage(found, None)

    async def history(self, agent_id: AgentId, *, since: Millis, limit: int) -> list[Sample]:
        await self._member(agent_id)
        return await self._keeper.history(agent_id, since=since, limit=limit)

    async def census(self) -> Census:
        return await self._keeper.census()

    async def census_of(self, project: ProjectId) -> Census:
        """How many agents of a project are how."""
        fallen = await self._keeper.fallen()
        own = (member.entry.agent_id for member in self.registry.members() if member.entry.project == project)
        found = Counter(fallen.get(agent_id, Liveness.ALIVE) for agent_id in own)
        return Census(found[Liveness.ALIVE], found[Liveness.STALE], found[Liveness.DEAD])

    # --- intervals -----------------------------------------------------------------------------------------

    async def interval(self, agent_id: AgentId) -> PushInterval:
        return self.registry.interval(await self._member(agent_id))

    async def set_interval(self, scope: IntervalScope, name: str, seconds: float | None) -> None:
        """Set an interval or take it back. Agents hear of it in the answer to their next heartbeat."""
        if scope is IntervalScope.AGENT:
            await self._member(AgentId(name))
        elif scope is not IntervalScope.DEFAULT:
            checked_word(name, field=scope.value)
        written = await self.rates.set(scope, name, seconds)
        try:
            await self._keeper.show_interval(written)
        except Unavailable as error:  # it is shown when statuses return
            log.warning("the setting for %s %s is not shown yet: %s", scope, name, error)
        if self._announcer is not None:
            await self._announcer.tell([], settings=True)

    # --- the live feed -------------------------------------------------------------------------------------

    def subscribe(self, interest: Interest, *, stream: str | None = None, after: int | None = None) -> Reader:
        return self.broadcaster.subscribe(interest, stream=stream, after=after)

    # --- keeping up ----------------------------------------------------------------------------------------

    async def run_registrar(self) -> None:
        while True:
            await asyncio.sleep(REGISTRY_POLL_SECONDS)
            try:
                await self.tick_registrar()
            except Unavailable as error:
                log.warning("the register could not be read: %s", error)

    async def tick_registrar(self) -> None:
        """See what others changed, write down how agents stand, and forget who left long ago."""
        await self._catch_up()
        if self._clock.monotonic() - self._saved_at >= STANDINGS_SAVED_SECONDS:
            self._saved_at = self._clock.monotonic()
            await self._keeper.save()
            await self.registry.forget()

    async def _catch_up(self) -> None:
        for setting in await self.rates.refresh():
            log.debug("the interval of %s %s is %s", setting.scope, setting.name, setting.seconds)
        await self.registry.refresh()

    async def _listen(self) -> None:
        await self._catch_up()
        known = [Admission(m.entry, self.registry.interval(m).ms) for m in self.registry.members()]
        dropped = await self._keeper.listen(self._clock.now_ms(), known, self.rates.all())
        if dropped:
            log.info("%d agents were held that are not registered", len(dropped))

    async def _hear(self, changes: list[Change], register_changed: bool) -> None:  # noqa: FBT001 - one caller
        """Take in what another process heard."""
        if register_changed:
            try:
                await self._catch_up()
            except Unavailable as error:  # the registrar looks again soon; what was heard is not lost for that
                log.warning("the register could not be read: %s", error)
        news = [change for change in changes if not self._overtaken(change)]
        beats = [change.beat for change in news if isinstance(change, Heard)]
        await self._keeper.learn([beat for beat in beats if self.registry.get(beat.status.agent_id) is not None])
        for change in news:
            if not isinstance(change, Fell) or await self._agreed(change):
                self.broadcaster.publish(change, relay=False)

    async def _agreed(self, fell: Fell) -> bool:
        """Whether a verdict of another process is news here, where it may have been passed too."""
        member = self.registry.get(fell.agent_id)
        if member is None or fell.presence is Liveness.GONE:
            return True
        interval = self.registry.interval(member)
        return await self._keeper.agree(fell.agent_id, fell.presence, fell.since_ms, interval.ms)

    def _overtaken(self, change: Change) -> bool:
        """Whether a heartbeat was under way for so long that a later one of the same agent is known by now."""
        if not isinstance(change, Heard):
            return False
        member = self.registry.get(change.beat.status.agent_id)
        if member is None:
            return False
        if change.beat.received_ms <= member.heard_ms:
            return True
        member.heard_ms = change.beat.received_ms
        return False

    # --- inside --------------------------------------------------------------------------------------------

    async def _member(self, agent_id: AgentId, project: ProjectId | None = None) -> Member:
        """Only an agent that is registered can be asked about; one that left is not there any more."""
        member = self.registry.get(agent_id)
        if member is None:
            await self._catch_up()
            member = self.registry.get(agent_id)
        if member is None or project not in (None, member.entry.project):
            raise AgentUnknown(agent_id=agent_id, project=project or DEFAULT_PROJECT)
        return member

    def _candidates(self, interest: Interest, after: AgentId | None = None) -> Iterator[Member]:
        for member in self.registry.members(after):
            if interest.covers(member.entry):
                yield member

    async def _rows(self, members: list[Member]) -> list[AgentRow]:
        standings = await self._keeper.standings([member.entry.agent_id for member in members])
        return [
            row_of(m.entry, standings.get(m.entry.agent_id), self.registry.interval(m), self.phase_of(m.entry.agent_id))
            for m in members
        ]

    async def _pages(self, interest: Interest) -> AsyncIterator[list[AgentRow]]:
        candidates = self._candidates(interest)
        while batch := list(islice(candidates, SNAPSHOT_AGENTS_MAX)):
            yield await self._rows(batch)
            await asyncio.sleep(0)  # a large snapshot must not hold up heartbeats
