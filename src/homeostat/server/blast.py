"""What an order would reach, told before it is given."""

from collections.abc import Mapping
from typing import Final

import msgspec

from homeostat.core.errors import AgentUnknown, TurnUnknown
from homeostat.core.ids import AgentId
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire import orders as w
from homeostat.server import names
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Endpoint

EFFECTS: Final[Mapping[str, tuple[str, str]]] = {
    "quarantine_agent": (
        "The turn under way ends soon or goes back to the queue; model calls are refused; messages wait.",
        "homeostat release",
    ),
    "kill_agent": (
        "The turn under way goes back to the queue, the agent's process is ended; messages wait in the inbox.",
        "homeostat release, once the agent runs again",
    ),
    "deregister": (
        "The agent's key opens nothing any more; its queue stays.",
        "Register it again with its id and its key.",
    ),
    "cordon_agent": ("No new turns; the one under way goes on, messages wait in the inbox.", "homeostat uncordon"),
    "drain_agent": ("No new turns; the one under way ends, messages wait in the inbox.", "homeostat uncordon"),
    "stop_turn": ("The turn ends at once, with a deliverable that says so.", "It cannot be undone; send it again."),
}
"""The orders that can be rehearsed here, what they do, and what undoes them."""


async def blast(call: Call, endpoint: Endpoint) -> Answer:
    """The agents an order would reach, and what they have in hand."""
    effect, undo = EFFECTS[endpoint.name]
    reached = await _reach(call, await _agent(call))
    shape = w.BlastShape(dry_run=True, verb=endpoint.name, effect=effect, undo=undo, agents=[reached])
    return Answer(endpoint.status, msgspec.json.encode(shape))


async def _agent(call: Call) -> AgentKey:
    if "agent_id" in call.parameters:
        return names.agent_key(call)
    turn_id = names.turn_id(call.parameters["turn_id"])
    view = await call.system.kernel.store.turn(call.project, turn_id)
    if view is None:
        raise TurnUnknown(turn_id=turn_id)
    return view.turn.key


async def _reach(call: Call, key: AgentKey) -> w.ReachShape:
    system = call.system
    view = await system.kernel.store.head(*key)
    if view is None:
        raise AgentUnknown(agent_id=key[1], project=key[0])
    return w.ReachShape(
        agent_id=AgentId(key[1]),
        phase=system.immune.phase_of(key),
        gate=view.head.gate,
        active_turn_id=view.head.turn_id,
        queued=view.head.queued,
        open_calls=await system.gateway.in_flight(key),
    )
