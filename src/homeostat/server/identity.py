"""Who is calling: an agent by its key, or an operator, who on loopback needs none."""

from homeostat.core.errors import Forbidden
from homeostat.core.ids import AgentId
from homeostat.fleet.registry import Member
from homeostat.server.call import Call


async def calling_agent(call: Call) -> Member:
    """The agent whose key came along; nobody else may do this."""
    return await call.system.fleet.identify(call.bearer)


async def require_valid(call: Call, path: str) -> None:
    """A key that comes along has to be somebody's, whatever is asked for: nobody is served under a false name."""
    if path.startswith("/v1/"):
        await call.system.fleet.identify(call.bearer)


async def speaker(call: Call, named: str | None) -> AgentId | None:
    """In whose name a message is sent: an agent's key speaks for that agent and for nobody else."""
    if (key := call.bearer) is None:
        return None if named is None else AgentId(named)
    member = await call.system.fleet.identify(key)
    if named is not None and named != member.entry.agent_id:
        raise Forbidden(verb="send messages of", object=named)
    return member.entry.agent_id


async def require_operator(call: Call, *, verb: str, what: str) -> None:
    """Agents do not run the fleet: a key of theirs is refused here."""
    if (key := call.bearer) is not None:
        await call.system.fleet.identify(key)
        raise Forbidden(verb=verb, object=what)


async def require_operator_or(call: Call, agent_id: AgentId, *, verb: str) -> None:
    """An agent may do this to itself, an operator to any."""
    if (key := call.bearer) is not None:
        member = await call.system.fleet.identify(key)
        if member.entry.agent_id != agent_id:
            raise Forbidden(verb=verb, object=agent_id)
