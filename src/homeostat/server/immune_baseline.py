"""What is normal for an agent, over HTTP: shown, learned anew, or adapted fast."""

from homeostat.core.errors import AgentUnknown, Forbidden, IllegalTransition, Unauthenticated
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire import immune as w
from homeostat.server import identity
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.immune import agent_key, normal_shapes

routes = Routes("immune system")

TOOLS_SHOWN_MAX = 100


@routes.plain("GET", "/v1/agents/{agent_id}/baseline", gives=w.BaselineShape, errors=(AgentUnknown,))
async def read_baseline(call: Call) -> w.BaselineShape:
    """What is normal for an agent: every vital of its calls and of its turns, and the tools it uses."""
    return await _baseline(call, agent_key(call))


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/baseline/reset",
    w.ReasonBody,
    gives=w.BaselineShape,
    errors=(AgentUnknown, IllegalTransition, Forbidden, Unauthenticated),
    examples={"a new job": {"reason": "it has another task now", "actor": "ann"}},
)
async def reset_baseline(call: Call, body: w.ReasonBody) -> w.BaselineShape:
    """Learn anew what is normal for an agent. Until that is known it is not judged."""
    await identity.require_operator(call, verb="reset", what="baselines")
    key = agent_key(call)
    actor = call.actor(body.actor)
    await call.system.immune.normal.reset(key, reason=body.reason or "an operator said so", actor=actor)
    return await _baseline(call, key)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/baseline/accelerate",
    w.ReasonBody,
    gives=w.BaselineShape,
    errors=(AgentUnknown, Forbidden, Unauthenticated),
)
async def accelerate_baseline(call: Call, body: w.ReasonBody) -> w.BaselineShape:
    """Let what is normal for an agent follow its next 50 samples fast, as after a change that was meant."""
    del body
    await identity.require_operator(call, verb="accelerate", what="baselines")
    key = agent_key(call)
    await call.system.immune.normal.accelerate(key)
    return await _baseline(call, key)


async def _baseline(call: Call, key: AgentKey) -> w.BaselineShape:
    immune = call.system.immune
    streams = [
        w.PortraitShape(
            stream=one.stream,
            samples=one.samples,
            accelerated=one.accelerated,
            vitals=normal_shapes(one.normals),
            tools=sorted(one.habits.tools)[:TOOLS_SHOWN_MAX],
            runs=one.habits.runs,
        )
        for one in await immune.normal.portraits(key)
    ]
    return w.BaselineShape(agent_id=key[1], phase=immune.phase_of(key), streams=streams)
