"""Taking heartbeats: the one path that runs thousands of times a second."""

from msgspec import Struct
from msgspec.structs import replace

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import AgentUnknown, Forbidden
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import LAST_ACTION_CHARS_MAX, STALE_INTERVALS
from homeostat.core.ports.fleet import QuickKeeper, StatusKeeper
from homeostat.core.records.fleet import Admission, AgentStatus, Beat, PushInterval
from homeostat.fleet.broadcast import Broadcaster
from homeostat.fleet.liveness import Sweeper
from homeostat.fleet.registry import Member, Registry
from homeostat.fleet.updates import Heard


class Receipt(Struct, frozen=True, gc=False):
    """What a heartbeat is answered with."""

    interval: PushInterval
    received_ms: Millis


class Heartbeats:
    """Gives each heartbeat its time, its interval and its place; the agent's own clock decides nothing."""

    def __init__(
        self,
        *,
        registry: Registry,
        keeper: StatusKeeper,
        broadcaster: Broadcaster,
        sweeper: Sweeper,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._sweeper = sweeper
        self._keeper = keeper
        self._beat_at_once = keeper.beat_at_once if isinstance(keeper, QuickKeeper) else None
        self._broadcaster = broadcaster
        self._clock = clock
        self.taken = 0

    async def take(self, member: Member, status: AgentStatus) -> Receipt:
        """Take a heartbeat from the agent whose key came with it."""
        if status.agent_id != member.entry.agent_id:
            raise Forbidden(verb="report for", object=status.agent_id)
        interval, beat = self._read(member, status)
        if not await self._keeper.beat(beat):
            await self._readmit(beat)
        return self._taken(member, interval, beat)

    def take_at_once(self, member: Member, status: AgentStatus) -> Receipt | None:
        """As `take`, of the agent that the status is of; None where it has to be waited for, and nothing was taken."""
        if self._beat_at_once is None:
            return None
        interval, beat = self._read(member, status)
        return self._taken(member, interval, beat) if self._beat_at_once(beat) else None

    def _read(self, member: Member, status: AgentStatus) -> tuple[PushInterval, Beat]:
        interval = self._registry.interval(member)  # silence is measured by the one that is given from now on
        return interval, Beat(_fitting(member, status), self._clock.now_ms(), member.interval_ms)

    def _taken(self, member: Member, interval: PushInterval, beat: Beat) -> Receipt:
        now = beat.received_ms
        self.taken += 1
        member.heard_ms = now
        self._sweeper.expect(now + STALE_INTERVALS * member.interval_ms)
        if self._broadcaster.followed:
            self._broadcaster.publish(Heard(beat, member.entry.project))
        else:
            self._broadcaster.pass_over()
        return Receipt(interval, now)

    async def _readmit(self, beat: Beat) -> None:
        """The keeper does not hold the agent: it lost its memory, or the agent was deregistered elsewhere."""
        member = await self._registry.confirm(beat.status.agent_id)
        await self._keeper.admit(beat.received_ms, Admission(member.entry, beat.interval_ms))
        if not await self._keeper.beat(beat):
            raise AgentUnknown(agent_id=beat.status.agent_id, project=DEFAULT_PROJECT)


def _fitting(member: Member, status: AgentStatus) -> AgentStatus:
    """The register's word on type and tags stands, and a long description is cut."""
    entry = member.entry
    if status.tags != entry.tags or status.agent_type != entry.agent_type:
        status = replace(status, agent_type=entry.agent_type, tags=entry.tags)
    if len(status.last_action) > LAST_ACTION_CHARS_MAX:
        status = replace(status, last_action=status.last_action[: LAST_ACTION_CHARS_MAX - 1] + "…")
    return status
