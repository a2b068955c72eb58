"""In whose name something is done: an agent's key speaks for that agent, everybody else was asked at the door."""

from homeostat.core.errors import Forbidden
from homeostat.core.ids import AgentId, RunId, mark_in, mark_of
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.turn import Turn
from homeostat.fleet.registry import Member
from homeostat.server.call import Call


async def calling_agent(call: Call) -> Member:
    """The agent whose key came along; nobody else may do this."""
    return await call.system.fleet.identify(call.bearer)


async def speaker(call: Call, named: str | None) -> AgentId | None:
    """In whose name a message is sent: an agent's key speaks for that agent and for nobody else."""
    if call.principal.kind is not PrincipalKind.AGENT:
        return None if named is None else AgentId(named)
    if named not in (None, call.principal.agent_id):
        raise Forbidden(verb="send messages of", object=named)
    return call.principal.agent_id


async def require_operator(call: Call, *, verb: str, what: str) -> None:
    """Agents do not run the fleet: a key of theirs is refused here, too."""
    if call.principal.kind is PrincipalKind.AGENT:
        raise Forbidden(verb=verb, object=what)


async def require_operator_or(call: Call, agent_id: AgentId, *, verb: str) -> None:
    """An agent may do this to itself, an operator to any."""
    if call.principal.kind is PrincipalKind.AGENT and call.principal.agent_id != agent_id:
        raise Forbidden(verb=verb, object=agent_id)


def require_own_run(call: Call, run_id: RunId, parent: Turn | None) -> None:
    """An agent brings a run no work but what its own turn asks for: it would spend what the run may spend."""
    if call.principal.kind is PrincipalKind.AGENT and (parent is None or parent.run_id != run_id):
        raise Forbidden(verb="send messages for", object=f"run {run_id}")


def mark(call: Call) -> str:
    """The mark of workers that are minted for the caller; none for one whose key reaches everywhere."""
    principal = call.principal
    return "" if principal.project is None else mark_of(principal.project, principal.agent_id)


def require_own_worker(call: Call, worker_id: str) -> None:
    """A caller with bounds is no worker but one that was minted for it, whether or not anybody knows that worker.

    Nothing has to be remembered for it: a mark follows from who somebody is, and nobody comes by another's.
    """
    own = mark(call)
    if own and own != mark_in(worker_id):
        raise Forbidden(verb="work as", object=worker_id[:NAME_CHARS_MAX])
