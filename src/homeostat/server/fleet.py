"""The fleet over HTTP: registration, heartbeats, intervals, and who is there."""

from typing import Final
from urllib.parse import urlencode

import msgspec

from homeostat.access.authority import Object, authorize
from homeostat.core.clock import Millis, rfc3339
from homeostat.core.errors import (
    AgentExists,
    AgentExpired,
    AgentGone,
    AgentUnknown,
    Forbidden,
    IdempotencyKeyReused,
    IntervalInvalid,
    MalformedPayload,
    StatusUnavailable,
    Unauthenticated,
)
from homeostat.core.ids import AgentId, digest_of
from homeostat.core.limits import FLEET_BODY_BYTES_MAX
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.fleet import AgentStatus, IntervalScope, ReportedStatus, Sample
from homeostat.core.wire.answers import Registered
from homeostat.core.wire.bodies import Registration
from homeostat.core.wire.fleet import (
    AgentDetail,
    AgentRow,
    AgentsQuery,
    Deregistered,
    HeartbeatReceipt,
    HistoryPage,
    HistoryQuery,
    IntervalBody,
    IntervalShape,
    SampleShape,
)
from homeostat.fleet.broadcast import Interest
from homeostat.fleet.registry import Introduction, checked
from homeostat.fleet.rows import REGISTERED
from homeostat.server import identity, names, render
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.headlines import headed, with_headlines
from homeostat.server.releases import note_release
from homeostat.server.sifting import asked

routes = Routes("fleet")

MICROS: Final = 1e6
STATUS_WORDS: Final = frozenset({*Liveness, *ReportedStatus, REGISTERED}) - {Liveness.GONE}

_encode = msgspec.json.Encoder().encode


# --- coming and going ------------------------------------------------------------------------------------------


@routes.taking(
    "POST",
    "/v1/agents/register",
    Registration,
    gives=Registered,
    errors=(AgentExists, Forbidden, Unauthenticated, IdempotencyKeyReused),
    examples={
        "an agent": {
            "agent_type": "inference",
            "tags": ["gpu"],
            "hostname": "worker-1",
            "pid": 12345,
            "version": "1.4.0",
        },
        "with an id of its own": {"agent_type": "researcher", "tags": ["team:search"], "agent_id": "researcher-1"},
    },
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def register(call: Call, body: Registration) -> Registered:
    """Make an agent known, and give it its key.

    With `agent_id` and the key it was given, an agent that comes back is who it was: same id, same tags, same phase.
    """
    idempotency = call.idempotency
    said = checked(
        Introduction(
            agent_type=body.agent_type,
            tags=body.tags,
            hostname=body.hostname,
            pid=body.pid,
            version=body.version,
            agent_id=None if body.agent_id is None else AgentId(body.agent_id),
            project=call.project,
            request_digest=None if idempotency is None else digest_of(f"{idempotency.key}\n{idempotency.fingerprint}"),
        )
    )
    agent_id = said.agent_id
    if agent_id is None and idempotency is not None:
        minted = digest_of(f"{call.project}\n{idempotency.key}")
        agent_id = AgentId(f"{said.agent_type[:16]}-{minted[:24]}")
    agent_id = agent_id or call.system.ids.agent(said.agent_type)
    enrolled = await call.system.enrol(said, agent_id, key=await _proof(call, body, agent_id), idempotency=idempotency)
    await note_release(call, enrolled)
    interval = call.system.fleet.registry.interval(enrolled.member)
    return Registered(
        agent_id=enrolled.member.entry.agent_id,
        push_interval_seconds=interval.seconds,
        api_key=enrolled.api_key,
    )


async def _proof(call: Call, body: Registration, agent_id: AgentId) -> str | None:
    """The key by which an agent that comes back proves who it is.

    Where everybody has to log in, an operator's key enters new agents; an agent's own only that agent.
    """
    principal = call.principal
    if principal.role is not None:
        if not authorize(principal, "send_message", Object(call.project)):
            raise Forbidden(verb="register", object="agents")
        return body.api_key or (None if principal.kind is PrincipalKind.KEY else call.bearer)
    key = body.api_key or call.bearer
    held = None if key is None else await call.system.fleet.registry.holder(key)
    if held is None or held.agent_id != agent_id or held.project != call.project:
        raise Unauthenticated
    return key


@routes.plain(
    "POST",
    "/v1/agents/{agent_id}/deregister",
    gives=Deregistered,
    errors=(AgentUnknown, Forbidden, Unauthenticated, AgentGone),
)
async def deregister(call: Call) -> Deregistered:
    """Take an agent off the register. Its key opens nothing from then on, until it registers again."""
    project, agent_id = names.agent_key(call)
    await identity.require_operator_or(call, agent_id, verb="deregister")
    left = await call.system.fleet.deregister(agent_id, project)
    return Deregistered(agent_id=agent_id, deregistered=left is not None)


# --- heartbeats ------------------------------------------------------------------------------------------------


@routes.taking(
    "POST",
    "/v1/agents/status",
    AgentStatus,
    gives=HeartbeatReceipt,
    errors=(Unauthenticated, Forbidden, AgentGone, AgentExpired, StatusUnavailable),
    examples={
        "a heartbeat": {
            "agent_id": "abc-123",
            "agent_type": "inference",
            "tags": ["gpu", "primary"],
            "timestamp": "2026-01-28T12:00:00Z",
            "started_at": "2026-01-28T11:00:00Z",
            "uptime_seconds": 3600.0,
            "status": "running",
            "last_action": "Processed observation obs-456",
            "last_action_at": "2026-01-28T11:59:55Z",
            "items_processed": 142,
            "queue_depth": 3,
            "processing_time_avg_ms": 250.5,
            "error_count": 2,
            "memory_mb": 156.3,
            "push_interval_seconds": 5.0,
        }
    },
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def push_status(call: Call, status: AgentStatus) -> Answer:
    """Take a heartbeat. The answer says how soon to send the next one.

    When an agent was last heard is the server's time. The agent's own times are kept as reported and decide nothing.
    """
    member = await identity.calling_agent(call)
    receipt = await call.system.fleet.beat(member, status)
    return Answer(
        200,
        b'{"received":true,"push_interval_seconds":%b,"server_time":"%b"}'
        % (repr(receipt.interval.seconds).encode(), rfc3339(receipt.received_ms).encode()),
    )


# --- who is there ----------------------------------------------------------------------------------------------


@routes.taking("GET", "/v1/agents", AgentsQuery, gives=list[AgentRow], errors=(Unauthenticated, StatusUnavailable))
async def list_agents(call: Call, query: AgentsQuery) -> Answer:
    """Who is registered, in order of ids. Where there is more, the Link header has the next page."""
    if query.status is not None and query.status not in STATUS_WORDS:
        raise MalformedPayload(field="status", problem=f"it is one of {', '.join(sorted(STATUS_WORDS))}")
    spent: dict[AgentId, float] | None = None
    if call.principal.kind is not PrincipalKind.AGENT:
        _, sums = await call.system.spending.today(call.project)
        spent = {agent_id: outlay.cost_micros / MICROS for agent_id, outlay in sums.items()}
    after = None if query.cursor is None else AgentId(query.cursor)
    page = await call.system.fleet.agents(
        Interest(query.agent_type, query.tag, call.project),
        status=query.status,
        wanted=asked(call, "agents", query.q),
        after=after,
        limit=query.limit,
        spent=spent,
    )
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if page.following is not None:
        following = urlencode({**call.query, "cursor": page.following})
        headers = ((b"link", f'</v1/agents?{following}>; rel="next"'.encode("ascii")),)
    return Answer(200, _encode(await with_headlines(call, page.agents, after=after)), headers=headers)


@routes.plain("GET", "/v1/agents/{agent_id}", gives=AgentDetail, errors=(AgentUnknown, StatusUnavailable))
async def read_agent(call: Call) -> AgentDetail:
    """An agent: whether it is heard, how healthy it is, what it says of itself, and the turn it works on."""
    row = await call.system.fleet.agent(await _agent_id(call))
    view = await call.system.kernel.store.head(call.project, AgentId(row.agent_id))
    if call.principal.kind is not PrincipalKind.AGENT:
        [row] = await headed(call, [row], {} if view is None else {row.agent_id: view.head})
        _, sums = await call.system.spending.today(call.project)
        outlay = sums.get(AgentId(row.agent_id))
        row = msgspec.structs.replace(row, cost_usd_today=0.0 if outlay is None else outlay.cost_micros / MICROS)
    return AgentDetail(**msgspec.structs.asdict(row), head=None if view is None else render.head(view))


@routes.taking(
    "GET",
    "/v1/agents/{agent_id}/history",
    HistoryQuery,
    gives=HistoryPage,
    errors=(AgentUnknown, StatusUnavailable),
)
async def read_history(call: Call, query: HistoryQuery) -> HistoryPage:
    """An agent's last heartbeats, for graphs."""
    since = Millis(0 if query.since is None else int(query.since.timestamp() * 1000))
    samples = await call.system.fleet.history(await _agent_id(call), since=since, limit=query.limit)
    return HistoryPage(agent_id=call.parameters["agent_id"], items=tuple(map(_sample, samples)))


def _sample(sample: Sample) -> SampleShape:
    return SampleShape(
        timestamp=rfc3339(sample.received_ms),
        status=sample.status,
        items_processed=sample.items_processed,
        queue_depth=sample.queue_depth,
        processing_time_avg_ms=sample.processing_time_avg_ms,
        error_count=sample.error_count,
        memory_mb=sample.memory_mb,
    )


# --- intervals -------------------------------------------------------------------------------------------------


@routes.plain("GET", "/v1/agents/{agent_id}/config", gives=IntervalShape, errors=(AgentUnknown,))
async def read_interval(call: Call) -> IntervalShape:
    """How often an agent pushes, and which setting says so: its own, its tags' lowest, its type's, or the default."""
    return await _resolved(call)


@routes.taking(
    "PUT",
    "/v1/agents/{agent_id}/config",
    IntervalBody,
    gives=IntervalShape,
    errors=(AgentUnknown, IntervalInvalid, Forbidden, Unauthenticated),
    examples={"every two seconds": {"push_interval_seconds": 2.0}},
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def set_agent_interval(call: Call, body: IntervalBody) -> IntervalShape:
    """Set how often one agent pushes. It hears of it in the answer to its next heartbeat."""
    await _set(call, IntervalScope.AGENT, await _agent_id(call), body.push_interval_seconds)
    return await _resolved(call)


@routes.plain(
    "DELETE",
    "/v1/agents/{agent_id}/config",
    status=204,
    errors=(AgentUnknown, Forbidden, Unauthenticated),
)
async def unset_agent_interval(call: Call) -> Answer:
    """Take back an agent's own interval."""
    await _set(call, IntervalScope.AGENT, await _agent_id(call), None)
    return NOTHING


@routes.taking(
    "PUT",
    "/v1/agents/config/type/{agent_type}",
    IntervalBody,
    gives=IntervalShape,
    errors=(IntervalInvalid, Forbidden, Unauthenticated),
    examples={"every ten seconds": {"push_interval_seconds": 10.0}},
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def set_type_interval(call: Call, body: IntervalBody) -> IntervalShape:
    """Set how often agents of a type push."""
    return await _set_many(call, IntervalScope.TYPE, call.parameters["agent_type"], body)


@routes.plain("DELETE", "/v1/agents/config/type/{agent_type}", status=204, errors=(Forbidden, Unauthenticated))
async def unset_type_interval(call: Call) -> Answer:
    """Take back a type's interval."""
    await _set(call, IntervalScope.TYPE, call.parameters["agent_type"], None)
    return NOTHING


@routes.taking(
    "PUT",
    "/v1/agents/config/tag/{tag}",
    IntervalBody,
    gives=IntervalShape,
    errors=(IntervalInvalid, Forbidden, Unauthenticated),
    examples={"every five seconds": {"push_interval_seconds": 5.0}},
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def set_tag_interval(call: Call, body: IntervalBody) -> IntervalShape:
    """Set how often agents with a tag push; of several tags the lowest interval counts."""
    return await _set_many(call, IntervalScope.TAG, call.parameters["tag"], body)


@routes.plain("DELETE", "/v1/agents/config/tag/{tag}", status=204, errors=(Forbidden, Unauthenticated))
async def unset_tag_interval(call: Call) -> Answer:
    """Take back a tag's interval."""
    await _set(call, IntervalScope.TAG, call.parameters["tag"], None)
    return NOTHING


@routes.taking(
    "PUT",
    "/v1/agents/config/default",
    IntervalBody,
    gives=IntervalShape,
    errors=(IntervalInvalid, Forbidden, Unauthenticated),
    examples={"every half minute": {"push_interval_seconds": 30.0}},
    body_bytes_max=FLEET_BODY_BYTES_MAX,
)
async def set_default_interval(call: Call, body: IntervalBody) -> IntervalShape:
    """Set how often agents push for whom nothing else is set."""
    return await _set_many(call, IntervalScope.DEFAULT, "", body)


@routes.plain("DELETE", "/v1/agents/config/default", status=204, errors=(Forbidden, Unauthenticated))
async def unset_default_interval(call: Call) -> Answer:
    """Go back to the built-in interval of 30 s."""
    await _set(call, IntervalScope.DEFAULT, "", None)
    return NOTHING


async def _set(call: Call, scope: IntervalScope, name: str, seconds: float | None) -> None:
    await identity.require_operator(call, verb="set the intervals of", what="agents")
    await call.system.fleet.set_interval(scope, name, seconds)


async def _set_many(call: Call, scope: IntervalScope, name: str, body: IntervalBody) -> IntervalShape:
    await _set(call, scope, name, body.push_interval_seconds)
    source = f"{scope}:{name}" if name else scope.value
    return IntervalShape(push_interval_seconds=body.push_interval_seconds, source=source)


async def _resolved(call: Call) -> IntervalShape:
    interval = await call.system.fleet.interval(await _agent_id(call))
    return IntervalShape(push_interval_seconds=interval.seconds, source=interval.source)


async def _agent_id(call: Call) -> AgentId:
    """The agent that the path names; one of another project is not there."""
    project, agent_id = names.agent_key(call)
    await call.system.fleet.require(agent_id, project)
    return agent_id
