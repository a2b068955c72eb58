"""From what an author wrote to an agent that can be hosted, or to words that say what is missing."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from homeostat.agent.functions import FunctionAgent
from homeostat.agent.loading import TargetInvalid
from homeostat.agent.orchestrator import Factory
from homeostat.agent.protocol import ProcessingAgent
from homeostat.agent.react import Profile, ReActAgent
from homeostat.core.errors import HomeostatError
from homeostat.core.records.tool import ToolSpec

NEEDED = ("startup", "shutdown", "get_state", "get_metrics", "owns_state", "process")


def factory_of(target: str, written: Any) -> Factory:
    """What makes the agent: a class that keeps the protocol, a profile, or a function that is called with the turn."""
    if isinstance(written, Profile):
        return lambda: ReActAgent(written)
    if inspect.isclass(written):
        return _of_class(target, cast("type[Any]", written))
    if isinstance(written, ProcessingAgent):
        raise TargetInvalid(
            target=target,
            problem="it is an agent, and an agent that has terminated cannot be started again",
            fix=f"Name its class instead: {type(written).__module__}:{type(written).__qualname__}.",
        )
    if callable(written):
        return _of_function(target, cast("Callable[..., Any]", written))
    raise TargetInvalid(
        target=target,
        problem=f"it is of type {type(written).__name__}, which is no agent",
        fix="Name a class that inherits from homeostat.ManagedAgent, a Profile, or a function that takes the turn.",
    )


def _of_class(target: str, kind: type[Any]) -> Factory:
    missing = [name for name in NEEDED if not callable(getattr(kind, name, None))]
    if missing:
        raise TargetInvalid(
            target=target,
            problem=f"{kind.__name__} does not keep the agent protocol: it has no {', '.join(missing)}",
            fix="Inherit from homeostat.ManagedAgent, which has all of it but process().",
        )
    try:
        kind()
    except HomeostatError as problem:
        raise TargetInvalid(target=target, problem=str(problem), fix=problem.hint or "See its profile.") from problem
    except Exception as problem:
        raise TargetInvalid(
            target=target,
            problem=f"{kind.__name__}() raised {type(problem).__name__}: {problem}",
            fix="An agent is made without arguments; what it needs it gets in _do_startup().",
        ) from problem
    return kind


def _of_function(target: str, function: Callable[..., Any]) -> Factory:
    try:
        inspect.signature(function).bind(object())
    except TypeError as problem:
        raise TargetInvalid(
            target=target,
            problem=f"it cannot be called with the turn alone: {problem}",
            fix="Give it one parameter: async def agent(turn): …",
        ) from problem
    except ValueError:
        pass  # a callable that does not tell what it takes
    return lambda: FunctionAgent(function)


def check_tools(target: str, factory: Factory, known: Mapping[str, ToolSpec]) -> None:
    """See that every tool an agent's profile names is known."""
    agent = factory()
    if not isinstance(agent, ReActAgent):
        return
    try:
        agent.check()
        agent.equip(known)
    except HomeostatError as problem:
        raise TargetInvalid(target=target, problem=str(problem).removesuffix("."), fix=problem.hint) from problem


def default_agent_id(target: str) -> str:
    """What an agent is called unless it is given a name: the name of what was written."""
    return target.rpartition(":")[2].rpartition(".")[2]
