"""An operator's gate before an agent: no new turns, or none until those under way have ended."""

from homeostat.core.clock import rfc3339
from homeostat.core.errors import AgentUnknown, Forbidden, Unauthenticated
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire import orders as w
from homeostat.server import names
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("orders")

ERRORS = (AgentUnknown, Forbidden, Unauthenticated)
EXAMPLES = {"a new release": {"reason": "a new release", "actor": "ann"}}


@routes.plain("GET", "/v1/agents/{agent_id}/cordon", gives=w.CordonShape, errors=ERRORS)
async def read_cordon(call: Call) -> w.CordonShape:
    """Whether an agent gets new turns, and what it still has in hand."""
    return await _state(call, names.agent_key(call))


@routes.taking(
    "POST", "/v1/agents/{agent_id}/cordon", w.OrderBody, gives=w.CordonShape, errors=ERRORS, examples=EXAMPLES
)
async def cordon_agent(call: Call, body: w.OrderBody) -> w.CordonShape:
    """Give an agent no new turns. The one under way goes on, messages wait, and it holds until it is lifted."""
    return await _cordon(call, body)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/drain",
    w.OrderBody,
    gives=w.CordonShape,
    status=202,
    errors=ERRORS,
    examples=EXAMPLES,
)
async def drain_agent(call: Call, body: w.OrderBody) -> w.CordonShape:
    """Cordon an agent, and let what it has in hand end: `GET …/cordon` says when it is `drained`."""
    return await _cordon(call, body)


@routes.taking(
    "POST", "/v1/agents/{agent_id}/uncordon", w.OrderBody, gives=w.CordonShape, errors=ERRORS, examples=EXAMPLES
)
async def uncordon_agent(call: Call, body: w.OrderBody) -> w.CordonShape:  # noqa: ARG001 — the log has its reason
    """Give an agent turns again. What the immune system holds stays held."""
    key = names.agent_key(call)
    await call.system.cordons.uncordon(key)
    return await _state(call, key)


async def _cordon(call: Call, body: w.OrderBody) -> w.CordonShape:
    key = names.agent_key(call)
    await call.system.cordons.cordon(key, reason=body.reason, actor=call.actor(body.actor))
    return await _state(call, key)


async def _state(call: Call, key: AgentKey) -> w.CordonShape:
    system = call.system
    view = await system.kernel.store.head(*key)
    if view is None:
        raise AgentUnknown(agent_id=key[1], project=key[0])
    cordon = await system.cordons.get(key)
    calls = await system.gateway.in_flight(key)
    head = view.head
    return w.CordonShape(
        agent_id=key[1],
        cordoned=cordon is not None,
        reason=None if cordon is None else cordon.reason,
        actor=None if cordon is None else cordon.actor,
        since=None if cordon is None else rfc3339(cordon.at_ms),
        gate=head.gate,
        gate_reason=head.gate_reason,
        active_turn_id=head.turn_id,
        queued=head.queued,
        open_calls=calls,
        drained=cordon is not None and head.turn_id is None and calls == 0,
    )
