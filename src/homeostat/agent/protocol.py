"""The contracts of the agent room: what an agent promises its host, and an orchestrator its agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.metrics import LifecycleMetrics
from homeostat.agent.ownership import StateOwnership
from homeostat.core.machines.agent import AgentState


@runtime_checkable
class AgentLifecycleProtocol(Protocol):
    """What every agent offers. `ManagedAgent` keeps it; other classes are checked by the compliance kit."""

    async def startup(self, config: LifecycleConfig | None = None) -> None:
        """Become READY, or roll back and raise `StartupError`. Safe to call again, and from two places at once."""
        ...

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        """Become TERMINATED within the time given. Never raises; safe to call again, and from two places at once."""
        ...

    def get_state(self) -> AgentState:
        """Where the agent stands in its life."""
        ...

    def get_metrics(self) -> LifecycleMetrics:
        """What its life cost so far."""
        ...

    def owns_state(self, key: str) -> StateOwnership:
        """Who may write a piece of state."""
        ...


@runtime_checkable
class ProcessingAgent(AgentLifecycleProtocol, Protocol):
    """An agent that can be given work."""

    async def process(self, request: Any, /) -> Any:
        """Work on one request."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """What the orchestrator knows of one piece of work. Agents read it; nobody but the orchestrator writes one."""

    trace_id: str
    target: str = ""
    request: Any = None
    routing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDecision:
    """Which agent gets a piece of work, and why."""

    target: str
    reason: str


class OrchestratorLifecycle(Protocol):
    """What happens around each piece of work."""

    async def initialize(self, context: ExecutionContext) -> None:
        """See that whoever may be needed is there, and knows the trace."""
        ...

    async def teardown(self, context: ExecutionContext) -> None:
        """Undo what `initialize` did; runs however the work ended."""
        ...


class OrchestratorProtocol(Protocol):
    """Owns agents: starts what is not ready, routes, processes, tears down."""

    async def register(self, agent: AgentLifecycleProtocol) -> None:
        """Take note of an agent that started; taking note twice is taking note once."""
        ...

    async def deregister(self, agent: AgentLifecycleProtocol) -> None:
        """Let go of an agent that shuts down."""
        ...

    async def get_lifecycle(self) -> OrchestratorLifecycle: ...

    async def make_routing_decision(self, context: ExecutionContext) -> RoutingDecision: ...

    async def orchestrate(self, context: ExecutionContext) -> Any:
        """Carry out one piece of work from beginning to end."""
        ...
