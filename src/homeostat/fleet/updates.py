"""What changed about an agent, in the form every reader gets; encoded once, and only if somebody reads."""

from typing import Protocol

import msgspec

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import Beat, Registration
from homeostat.core.wire.fleet import AgentRow, HeartbeatUpdate, PresenceUpdate, RegistrationUpdate, UpdateEvent

_encoder = msgspec.json.Encoder()


class About(Protocol):
    """Whom something is about."""

    @property
    def project(self) -> ProjectId: ...

    @property
    def agent_type(self) -> str: ...

    @property
    def tags(self) -> tuple[str, ...]: ...


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A heartbeat was taken."""

    beat: Beat
    project: ProjectId

    @property
    def agent_type(self) -> str:
        return self.beat.status.agent_type

    @property
    def tags(self) -> tuple[str, ...]:
        return self.beat.status.tags

    def write(self, seq: int) -> HeartbeatUpdate:
        status = self.beat.status
        return HeartbeatUpdate(
            seq=seq,
            agent_id=status.agent_id,
            status=status.status,
            reported_status=status.status,
            last_seen_at=rfc3339(self.beat.received_ms),
            timestamp=status.timestamp,
            started_at=status.started_at,
            uptime_seconds=status.uptime_seconds,
            last_action=status.last_action,
            last_action_at=status.last_action_at,
            items_processed=status.items_processed,
            queue_depth=status.queue_depth,
            processing_time_avg_ms=status.processing_time_avg_ms,
            error_count=status.error_count,
            memory_mb=status.memory_mb,
            push_interval_seconds=self.beat.interval_ms / 1000,
        )


class Fell(msgspec.Struct, frozen=True, gc=False):
    """An agent fell silent, or left."""

    event: UpdateEvent
    agent_id: AgentId
    project: ProjectId
    agent_type: str
    tags: tuple[str, ...]
    presence: Liveness
    since_ms: Millis

    def write(self, seq: int) -> PresenceUpdate:
        return PresenceUpdate(
            seq=seq,
            event=self.event,
            agent_id=self.agent_id,
            presence=self.presence,
            presence_since=rfc3339(self.since_ms),
            status=self.presence.value,
        )


class Known(msgspec.Struct, frozen=True, gc=False):
    """The words by which an agent was found before."""

    project: ProjectId
    agent_type: str
    tags: tuple[str, ...]


class Joined(msgspec.Struct, frozen=True, gc=False):
    """An agent registered, for the first time or again, perhaps by other words: who followed the old ones hears it."""

    agent: AgentRow
    project: ProjectId
    was: Known | None = None

    @property
    def agent_type(self) -> str:
        return self.agent.agent_type

    @property
    def tags(self) -> tuple[str, ...]:
        return self.agent.tags

    def write(self, seq: int) -> RegistrationUpdate:
        return RegistrationUpdate(seq=seq, agent_id=self.agent.agent_id, agent=self.agent)


Change = Heard | Fell | Joined


class Update(msgspec.Struct, gc=False):
    """One change with its number. There is one per heartbeat, so it asks for nothing before somebody reads."""

    seq: int
    change: Change
    text: msgspec.Raw | None = None

    @property
    def encoded(self) -> msgspec.Raw:
        if self.text is None:
            self.text = msgspec.Raw(_encoder.encode(self.change.write(self.seq)))
        return self.text


def fell(event: UpdateEvent, entry: Registration, presence: Liveness, since_ms: Millis) -> Fell:
    return Fell(event, entry.agent_id, entry.project, entry.agent_type, entry.tags, presence, since_ms)
