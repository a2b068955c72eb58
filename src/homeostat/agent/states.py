"""Guards around an agent: methods that need a state, and a block that ends with a shutdown."""

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import StateRequired
from homeostat.agent.protocol import AgentLifecycleProtocol
from homeostat.core.machines.agent import AgentState

Method = TypeVar("Method", bound=Callable[..., Any])
Agent = TypeVar("Agent", bound=AgentLifecycleProtocol)


class _HasState(Protocol):
    def get_state(self) -> AgentState: ...


def requires_state(*states: AgentState) -> Callable[[Method], Method]:
    """Refuse calls to a method while the agent is in any other state.

    On `process` of a `ManagedAgent` it also sets what the request begins from; without it that is READY.
    """

    def guard(method: Method) -> Method:
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def waiting(self: _HasState, *args: Any, **named: Any) -> Any:
                check_state(self, method.__name__, states)
                return await cast("Callable[..., Awaitable[Any]]", method)(self, *args, **named)

            guarded: Callable[..., Any] = waiting
        else:

            @functools.wraps(method)
            def plain(self: _HasState, *args: Any, **named: Any) -> Any:
                check_state(self, method.__name__, states)
                return method(self, *args, **named)

            guarded = plain
        vars(guarded)["required_states"] = states
        return cast(Method, guarded)

    return guard


def check_state(agent: _HasState, method: str, states: tuple[AgentState, ...]) -> None:
    state = agent.get_state()
    if state not in states:
        needed = " or ".join(wanted.value for wanted in states)
        raise StateRequired(method=method, needed=needed, state=state.value)


@asynccontextmanager
async def agent_lifecycle(agent: Agent, config: LifecycleConfig | None = None) -> AsyncGenerator[Agent]:
    """Start an agent, lend it out, and shut it down however the block ends."""
    try:
        await agent.startup(config)
        yield agent
    finally:
        await agent.shutdown()
