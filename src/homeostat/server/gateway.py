"""The gateway's rules and call log over HTTP; the calls themselves never come this way."""

from dataclasses import replace

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.gateway_errors import PolicyUnknown
from homeostat.core.ids import AgentId, RunId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.call import Call as ModelCall
from homeostat.core.records.call import CallFilter, CallId
from homeostat.core.records.policy import Policy, PolicyFilter, PolicyId
from homeostat.core.wire import gateway as w
from homeostat.gateway.errors import CallUnknown
from homeostat.gateway.rehearsal import Rehearsal
from homeostat.server import identity
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.render import instant
from homeostat.server.sifting import asked, sifted

routes = Routes("gateway")

REHEARSED_CALLS_MAX = 10_000
MICROS = 1_000_000


@routes.plain("GET", "/v1/gateway", gives=w.GatewayShape)
async def read_gateway(call: Call) -> w.GatewayShape:
    """The gateway of this process: its upstreams, and how many calls are open here."""
    gateway = call.system.gateway
    return w.GatewayShape(
        upstreams=[
            w.UpstreamShape(
                name=one.name,
                family=one.family,
                place=one.place,
                base_path=f"/{one.name}/v1" if one.family == "openai" else f"/{one.name}",
                simulated=one.simulated,
            )
            for one in call.system.settings.upstreams
        ],
        policies_version=gateway.book.version,
        in_flight=gateway.office.in_flight.total,
    )


# --- policies ------------------------------------------------------------------------------------------------


@routes.taking("GET", "/v1/policies", w.PoliciesQuery, gives=w.PoliciesPage)
async def list_policies(call: Call, query: w.PoliciesQuery) -> w.PoliciesPage:
    """The policies in force."""
    book = call.system.gateway.book
    await book.refresh()
    project = call.project
    held = book.all(project) if query.agent_id is None else book.of_agent((project, AgentId(query.agent_id)))
    wanted = PolicyFilter(project=project, origin=query.origin, action=query.action)
    sought = asked(call, "policies", query.q)
    found = [_policy(policy) for policy in held if policy.fits(wanted)]
    return w.PoliciesPage(version=book.version, policies=[one for one in found if sought.covers(one)])


@routes.plain("GET", "/v1/policies/{policy_id}", gives=w.PolicyShape, errors=(PolicyUnknown,))
async def read_policy(call: Call) -> w.PolicyShape:
    """One policy."""
    book = call.system.gateway.book
    await book.refresh()
    policy_id = _policy_id(call)
    found = book.get(call.project, policy_id)
    if found is None:
        raise PolicyUnknown(policy_id=policy_id)
    return _policy(found)


@routes.taking(
    "PUT",
    "/v1/policies",
    w.PolicyBody,
    gives=w.PolicyShape,
    errors=(InvalidRequest, Forbidden, Unauthenticated),
    examples={
        "block an agent": {"action": "block", "agent_id": "researcher-1", "reason": "it repeats itself"},
        "slow everybody down": {"action": "rate_limit", "requests_per_minute": 60},
    },
)
async def put_policy(call: Call, body: w.PolicyBody) -> w.PolicyShape | w.RehearsalShape:
    """Set a policy. With `?dry_run=true` nothing is set, and the answer is what it would have done to the logged past.

    In force when this returns, and within a tenth of a second in every other gateway.
    """
    return await _put(call, body, PolicyId(body.policy_id or f"pol_{call.system.ids.scope()}"))


@routes.taking(
    "PUT",
    "/v1/policies/{policy_id}",
    w.PolicyBody,
    gives=w.PolicyShape,
    errors=(InvalidRequest, PolicyUnknown, Forbidden, Unauthenticated),
    examples={
        "no shell": {"action": "tool_filter", "agent_id": "researcher-1", "deny": ["shell*"]},
        "for an hour": {"action": "token_cap", "max_tokens": 512, "expires_in_seconds": 3600},
    },
)
async def put_named_policy(call: Call, body: w.PolicyBody) -> w.PolicyShape | w.RehearsalShape:
    """Set a policy in place of the one of that name. `?dry_run=true` only tells what it would have done."""
    policy_id = _policy_id(call)
    if body.policy_id not in (None, policy_id):
        raise InvalidRequest(problem=f"the path says {policy_id!r} and the body {body.policy_id!r}")
    return await _put(call, body, policy_id)


@routes.plain("DELETE", "/v1/policies/{policy_id}", status=204, errors=(PolicyUnknown, Forbidden, Unauthenticated))
async def drop_policy(call: Call) -> Answer:
    """Remove a policy."""
    await identity.require_operator(call, verb="remove", what="policies")
    policy_id = _policy_id(call)
    if not await call.system.gateway.drop_policy(call.project, policy_id):
        raise PolicyUnknown(policy_id=policy_id)
    return NOTHING


@routes.taking(
    "DELETE",
    "/v1/policies",
    w.PoliciesFilter,
    gives=w.PoliciesDropped,
    errors=(InvalidRequest, Forbidden, Unauthenticated),
)
async def drop_policies(call: Call, query: w.PoliciesFilter) -> w.PoliciesDropped:
    """Remove every policy that fits: of an agent, of an origin, of an action. `?dry_run=true` only tells which."""
    await identity.require_operator(call, verb="remove", what="policies")
    wanted = PolicyFilter(
        project=call.project,
        agent_id=None if query.agent_id is None else AgentId(query.agent_id),
        origin=query.origin,
        action=query.action,
    )
    if wanted == PolicyFilter(project=call.project):
        raise InvalidRequest(problem="name agent_id, origin or action: all policies are not removed at once")
    gateway = call.system.gateway
    if not query.dry_run:
        return w.PoliciesDropped(dropped=list(await gateway.drop_policies(wanted)))
    await gateway.book.refresh()
    found = [policy.policy_id for policy in gateway.book.all(call.project) if policy.fits(wanted)]
    return w.PoliciesDropped(dropped=list(found), dry_run=True)


async def _put(call: Call, body: w.PolicyBody, policy_id: PolicyId) -> w.PolicyShape | w.RehearsalShape:
    await identity.require_operator(call, verb="set", what="policies")
    now = call.system.clock.now_ms()
    policy = Policy(
        policy_id=policy_id,
        project=call.project,
        agent_id=None if body.agent_id is None else AgentId(body.agent_id),
        action=body.action,
        origin=body.origin,
        reason=body.reason,
        created_at_ms=now,
        expires_at_ms=None if body.expires_in_seconds is None else Millis(now + int(body.expires_in_seconds * 1000)),
        requests_per_minute=body.requests_per_minute,
        tokens_per_minute=body.tokens_per_minute,
        max_tokens=body.max_tokens,
        allow=body.allow,
        deny=body.deny,
        refuse=body.refuse,
    )
    gateway = call.system.gateway
    if call.query.get("dry_run", "").lower() in {"1", "true", "yes"}:
        return _rehearsal(policy, await gateway.rehearse(policy, since_ms=0, limit=REHEARSED_CALLS_MAX))
    return _policy(await gateway.put_policy(policy))


def _policy_id(call: Call) -> PolicyId:
    policy_id = PolicyId(call.parameters["policy_id"])
    if len(policy_id) > NAME_CHARS_MAX or not policy_id.isprintable():
        raise PolicyUnknown(policy_id=policy_id[:NAME_CHARS_MAX])
    return policy_id


def _policy(policy: Policy) -> w.PolicyShape:
    return w.PolicyShape(
        policy_id=policy.policy_id,
        action=policy.action,
        agent_id=policy.agent_id,
        origin=policy.origin,
        reason=policy.reason,
        created_at=rfc3339(policy.created_at_ms),
        expires_at=instant(policy.expires_at_ms),
        requests_per_minute=policy.requests_per_minute,
        tokens_per_minute=policy.tokens_per_minute,
        max_tokens=policy.max_tokens,
        allow=policy.allow,
        deny=policy.deny,
        refuse=policy.refuse,
    )


def _rehearsal(policy: Policy, done: Rehearsal) -> w.RehearsalShape:
    return w.RehearsalShape(
        policy=_policy(policy),
        seen=done.seen,
        refused=done.refused,
        trimmed=done.trimmed,
        since=instant(done.since_ms),
        agents=done.agents,
        examples=list(done.examples),
    )


# --- calls ---------------------------------------------------------------------------------------------------


@routes.taking("GET", "/v1/calls", w.CallsQuery, gives=w.CallsPage, errors=(Forbidden, Unauthenticated))
async def list_calls(call: Call, query: w.CallsQuery) -> w.CallsPage:
    """The call log, newest first. An agent that shows its key sees its own calls."""
    agent_id = None if query.agent_id is None else AgentId(query.agent_id)
    if (own := call.principal.agent_id) is not None:
        if agent_id not in (None, own):
            raise Forbidden(verb="read the calls of", object=agent_id)
        agent_id = own
    wanted = CallFilter(
        project=call.project,
        agent_id=agent_id,
        run_id=None if query.run_id is None else RunId(query.run_id),
        outcome=query.outcome,
        model=query.model,
        since_ms=None if query.since is None else Millis(max(0, int(query.since.timestamp() * 1000))),
        before=None,
    )

    async def read(before: CallId | None, limit: int) -> list[w.CallShape]:
        return [_call(one) for one in await call.system.gateway.calls(replace(wanted, before=before), limit)]

    found, following = await sifted(
        asked(call, "calls", query.q),
        read,
        lambda one: CallId(one.call_id),
        cursor=None if query.cursor is None else CallId(query.cursor),
        limit=query.limit,
    )
    return w.CallsPage(calls=found, next_cursor=following)


@routes.plain("GET", "/v1/calls/{call_id}", gives=w.CallShape, errors=(CallUnknown,))
async def read_call(call: Call) -> w.CallShape:
    """One model call."""
    call_id = CallId(call.parameters["call_id"][:NAME_CHARS_MAX])
    # Ids have one length: the first one below anything longer is the one that is meant, or another.
    wanted = CallFilter(project=call.project, before=CallId(f"{call_id}0"))
    found = await call.system.gateway.calls(wanted, 1) if call_id.isprintable() and call_id.isascii() else []
    if not found or found[0].call_id != call_id:
        raise CallUnknown(call_id=call_id)
    return _call(found[0])


@routes.taking("GET", "/v1/calls/open", w.OpenCallsQuery, gives=w.OpenCalls)
async def read_open_calls(call: Call, query: w.OpenCallsQuery) -> w.OpenCalls:
    """How many calls of an agent are open right now, in all gateways together."""
    gateway = call.system.gateway
    agent = (call.project, AgentId(query.agent_id))
    count = await gateway.in_flight(agent)
    drained = count == 0 and await gateway.drained(agent, await gateway.store.version())
    return w.OpenCalls(agent_id=query.agent_id, in_flight=count, drained=drained)


def _call(call: ModelCall) -> w.CallShape:
    usage = call.usage
    return w.CallShape(
        call_id=call.call_id,
        agent_id=call.agent_id,
        run_id=call.run_id,
        trace_id=call.trace_id,
        upstream=call.upstream,
        api=call.api,
        path=call.path,
        model=call.model,
        streamed=call.streamed,
        outcome=call.outcome,
        status=call.status,
        code=call.code,
        policy_id=call.policy_id,
        started_at=rfc3339(call.started_at_ms),
        latency_ms=call.latency_ms,
        first_token_ms=call.first_token_ms,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cached=usage.tokens_cached,
        tokens_reasoning=usage.tokens_reasoning,
        metered=call.metered,
        cost_usd=None if call.cost_micros is None else call.cost_micros / MICROS,
        priced=call.priced,
        retries=call.retries,
        prompt_hash=call.prompt_hash,
        tools_offered=call.tools_offered,
        tool_calls=[w.ToolUseShape(name=use.name, arguments_hash=use.arguments) for use in call.tool_calls],
        repeats=call.repeats,
    )
