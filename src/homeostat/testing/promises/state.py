"""Who may write which state, and what of it outlives the agent."""

from collections.abc import Callable
from typing import Any

from homeostat.agent.errors import StateViolationError
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.memory import VolatileMemory
from homeostat.agent.ownership import StateOwnership
from homeostat.testing.probe import NotApplicable, Probe, PromiseBroken, Subject, promise


async def an_agent_writes_its_own_state(subject: Subject) -> None:
    probe = subject.agent()
    owner = probe.agent.owns_state("_temp")
    promise(f"'_temp' is the agent's own; it belongs to {owner}", held=owner == StateOwnership.AGENT)
    setter_of(probe)("_temp", 123)


async def memory_is_not_set_directly(subject: Subject) -> None:
    await belongs(subject, "user_history", StateOwnership.MEMORY)


async def the_trace_is_not_set_directly(subject: Subject) -> None:
    await belongs(subject, "trace_id", StateOwnership.ORCHESTRATOR)


async def own_state_ends_with_the_agent(subject: Subject) -> None:
    probe = subject.agent()
    setter = setter_of(probe)
    state: object = getattr(probe.agent, "_agent_state", None)
    if not isinstance(state, dict):
        raise NotApplicable("it has no _agent_state")
    await probe.agent.startup()
    setter("request_count", 123)
    await probe.agent.shutdown()
    left: object = getattr(probe.agent, "_agent_state", None)
    promise(f"ephemeral state is gone after shutdown(); it holds {left}", held=left == {})


async def memory_outlives_the_agent(subject: Subject) -> None:
    keeper = VolatileMemory()
    for expected in (None, ["hello"]):
        agent = subject.agent().agent
        if not isinstance(agent, ManagedAgent):
            raise NotApplicable("it has no memory a keeper could be given to")
        agent.bind(agent_id="one-and-the-same", memory=keeper)
        await agent.startup()
        found: Any = await agent.memory.load("history")
        promise(f"memory is loaded at startup; it is {found} instead of {expected}", held=found == expected)
        agent.memory.update("history", ["hello"])
        await agent.shutdown()


def setter_of(probe: Probe) -> Callable[[str, Any], None]:
    setter: Callable[[str, Any], None] | None = getattr(probe.agent, "set_state", None)
    if setter is None:
        raise NotApplicable("it has no set_state()")
    return setter


async def belongs(subject: Subject, key: str, owner: StateOwnership) -> None:
    probe = subject.agent()
    found = probe.agent.owns_state(key)
    promise(f"{key!r} belongs to {owner.value}; the agent says {found}", held=found == owner)
    try:
        setter_of(probe)(key, [])
    except StateViolationError:
        return
    raise PromiseBroken(f"set_state({key!r}, …) raises StateViolationError")
