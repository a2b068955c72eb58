"""Rows and records of the fleet: the one place that knows in which order its columns stand."""

from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec

from homeostat.core.ids import ProjectId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import (
    AgentStatus,
    Departure,
    IntervalScope,
    IntervalSetting,
    Registration,
    Standing,
)

Row = Sequence[Any]

_json = msgspec.json.Encoder()
_tags = lru_cache(maxsize=4096)(msgspec.json.Decoder(tuple[str, ...]).decode)  # agents share few sets of tags
_status = msgspec.json.Decoder(AgentStatus)


def read_registration(row: Row) -> Registration:
    agent_id, project, agent_type, tags, hostname, pid, key_digest, registered_at_ms, gone_at_ms, why, *rest = row
    request_digest, revision, version = rest
    return Registration(
        agent_id=agent_id,
        project=ProjectId(intern(project)),  # many agents, few such words
        agent_type=intern(agent_type),
        tags=_tags(tags),
        hostname=hostname and intern(hostname),
        pid=pid,
        key_digest=key_digest,
        registered_at_ms=registered_at_ms,
        gone_at_ms=gone_at_ms,
        gone_why=None if why is None else Departure(why),
        request_digest=request_digest,
        revision=revision,
        version=version and intern(version),
    )


def write_registration(entry: Registration) -> tuple[object, ...]:
    return (
        entry.agent_id,
        entry.project,
        entry.agent_type,
        _json.encode(entry.tags).decode(),
        entry.hostname,
        entry.pid,
        entry.key_digest,
        entry.registered_at_ms,
        entry.gone_at_ms,
        None if entry.gone_why is None else entry.gone_why.value,
        entry.request_digest,
        entry.revision,
        entry.version,
    )


def read_interval(row: Row) -> IntervalSetting:
    return IntervalSetting(IntervalScope(row[0]), *row[1:])


def write_interval(setting: IntervalSetting) -> tuple[object, ...]:
    return (setting.scope.value, setting.name, setting.seconds, setting.revision)


def read_standing(row: Row) -> Standing:
    agent_id, presence, since_ms, received_ms, counted_ms, interval_ms, status = row
    said = None if status is None else _status.decode(status)
    return Standing(agent_id, Liveness(presence), since_ms, received_ms, counted_ms, interval_ms, said)


def write_standing(standing: Standing) -> tuple[object, ...]:
    return (
        standing.agent_id,
        standing.presence.value,
        standing.since_ms,
        standing.received_ms,
        standing.counted_ms,
        standing.interval_ms,
        None if standing.status is None else _json.encode(standing.status).decode(),
    )
