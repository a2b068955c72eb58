"""How what the fleet knows of an agent is put together for those who look."""

from homeostat.core.clock import rfc3339
from homeostat.core.machines.liveness import Liveness
from homeostat.core.machines.phase import Phase
from homeostat.core.records.fleet import PushInterval, Registration, Standing
from homeostat.core.wire.fleet import AgentRow

REGISTERED = "registered"
"""The status of an agent that has not sent a heartbeat yet."""


def status_of(standing: Standing) -> str:
    """What an agent says of itself; what it said last is not shown as true once it has fallen silent."""
    if standing.presence is not Liveness.ALIVE:
        return standing.presence.value
    return REGISTERED if standing.status is None else standing.status.status.value


def row_of(entry: Registration, standing: Standing | None, interval: PushInterval, phase: Phase) -> AgentRow:
    """Registration, standing, interval and phase as one row; the register's word on type and tags is the last."""
    standing = standing or unheard(entry, interval)
    said = standing.status
    return AgentRow(
        agent_id=entry.agent_id,
        agent_type=entry.agent_type,
        tags=entry.tags,
        hostname=entry.hostname,
        pid=entry.pid,
        version=entry.version,
        registered_at=rfc3339(entry.registered_at_ms),
        presence=standing.presence,
        presence_since=rfc3339(standing.since_ms),
        phase=phase,
        status=status_of(standing),
        reported_status=said and said.status,
        last_seen_at=rfc3339(standing.received_ms),
        timestamp=said and said.timestamp,
        started_at=said and said.started_at,
        uptime_seconds=said and said.uptime_seconds,
        last_action=said and said.last_action,
        last_action_at=said and said.last_action_at,
        items_processed=said and said.items_processed,
        queue_depth=said and said.queue_depth,
        processing_time_avg_ms=said and said.processing_time_avg_ms,
        error_count=said and said.error_count,
        memory_mb=said and said.memory_mb,
        push_interval_seconds=interval.seconds,
        push_interval_source=interval.source,
    )


def unheard(entry: Registration, interval: PushInterval) -> Standing:
    """An agent whose standing is not known here, as after its keeper lost everything."""
    at = entry.registered_at_ms
    return Standing(entry.agent_id, Liveness.ALIVE, at, at, at, interval.ms)
