"""Registration: an agent that is known may be sent messages."""

from typing import Final

from homeostat.core.errors import IdempotencyKeyReused
from homeostat.core.ids import AgentId, digest_of
from homeostat.core.wire.answers import Registered
from homeostat.core.wire.bodies import Registration
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("fleet")

PUSH_INTERVAL_SECONDS: Final = 30.0


@routes.taking(
    "POST",
    "/v1/agents/register",
    Registration,
    gives=Registered,
    errors=(IdempotencyKeyReused,),
    examples={"an agent": {"agent_type": "researcher", "tags": ["team:search"], "agent_id": "researcher-1"}},
)
async def register(call: Call, body: Registration) -> Registered:
    """Make an agent known; with its `agent_id` this may be said as often as one likes."""
    idempotency = call.idempotency
    if body.agent_id is not None:
        agent_id = AgentId(body.agent_id)
    elif idempotency is not None:
        agent_id = AgentId(f"{body.agent_type[:16]}-{digest_of(idempotency.key)[:24]}")
    else:
        agent_id = call.system.ids.agent(body.agent_type)
    await call.system.kernel.register((call.project, agent_id), idempotency=idempotency)
    return Registered(agent_id=agent_id, push_interval_seconds=PUSH_INTERVAL_SECONDS)
