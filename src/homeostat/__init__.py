"""Homeostat keeps a fleet of AI agents alive, bounded and healthy."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "AgentLifecycleProtocol",
    "AgentState",
    "CallFailed",
    "CannotTreat",
    "Client",
    "Completion",
    "ExecutionContext",
    "FatalError",
    "HomeostatError",
    "LifecycleConfig",
    "LifecycleMetrics",
    "ManagedAgent",
    "OrchestratorProtocol",
    "Profile",
    "ReActAgent",
    "RecoverableError",
    "StartupError",
    "StateOwnership",
    "StateViolationError",
    "StepFailed",
    "SyncClient",
    "Tool",
    "ToolService",
    "Turn",
    "Worker",
    "agent_lifecycle",
    "current_turn",
    "remote_tool",
    "requires_state",
    "submit_result",
    "tool",
]

# Where each public name lives. It is imported when it is first asked for, so that importing the package costs next to
# nothing and an agent's process never loads a server it does not run. Type checkers read `__all__` and the imports
# below TYPE_CHECKING instead; a test keeps the three in step.
_HOMES: Final[dict[str, str]] = {
    "AgentLifecycleProtocol": "homeostat.agent.protocol",
    "AgentState": "homeostat.core.machines.agent",
    "CallFailed": "homeostat.agent.errors",
    "CannotTreat": "homeostat.agent.errors",
    "Client": "homeostat.client.client",
    "Completion": "homeostat.agent.models",
    "ExecutionContext": "homeostat.agent.protocol",
    "FatalError": "homeostat.agent.errors",
    "HomeostatError": "homeostat.core.errors",
    "LifecycleConfig": "homeostat.agent.config",
    "LifecycleMetrics": "homeostat.agent.metrics",
    "ManagedAgent": "homeostat.agent.managed",
    "OrchestratorProtocol": "homeostat.agent.protocol",
    "Profile": "homeostat.agent.react",
    "ReActAgent": "homeostat.agent.react",
    "RecoverableError": "homeostat.agent.errors",
    "StartupError": "homeostat.agent.errors",
    "StateOwnership": "homeostat.agent.ownership",
    "StateViolationError": "homeostat.agent.errors",
    "StepFailed": "homeostat.agent.errors",
    "SyncClient": "homeostat.client.sync",
    "Tool": "homeostat.agent.tools",
    "ToolService": "homeostat.agent.tools",
    "Turn": "homeostat.agent.turn",
    "Worker": "homeostat.agent.worker",
    "agent_lifecycle": "homeostat.agent.states",
    "current_turn": "homeostat.agent.turn",
    "remote_tool": "homeostat.agent.tools",
    "requires_state": "homeostat.agent.states",
    "submit_result": "homeostat.agent.turn",
    "tool": "homeostat.agent.tools",
}

if TYPE_CHECKING:
    from homeostat.agent.config import LifecycleConfig
    from homeostat.agent.errors import (
        CallFailed,
        CannotTreat,
        FatalError,
        RecoverableError,
        StartupError,
        StateViolationError,
        StepFailed,
    )
    from homeostat.agent.managed import ManagedAgent
    from homeostat.agent.metrics import LifecycleMetrics
    from homeostat.agent.models import Completion
    from homeostat.agent.ownership import StateOwnership
    from homeostat.agent.protocol import AgentLifecycleProtocol, ExecutionContext, OrchestratorProtocol
    from homeostat.agent.react import Profile, ReActAgent
    from homeostat.agent.states import agent_lifecycle, requires_state
    from homeostat.agent.tools import Tool, ToolService, remote_tool, tool
    from homeostat.agent.turn import Turn, current_turn, submit_result
    from homeostat.agent.worker import Worker
    from homeostat.client.client import Client
    from homeostat.client.sync import SyncClient
    from homeostat.core.errors import HomeostatError
    from homeostat.core.machines.agent import AgentState

if not TYPE_CHECKING:  # a type checker would take every misspelt name for one of these

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
