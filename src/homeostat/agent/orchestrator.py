"""Whoever owns the agents of one process: starts what is not ready, gives it work, replaces what has ended."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.events import LifecycleEmitter
from homeostat.agent.invocation import Invoker
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.protocol import (
    AgentLifecycleProtocol,
    ExecutionContext,
    OrchestratorLifecycle,
    ProcessingAgent,
    RoutingDecision,
)
from homeostat.agent.recording import code_of, recording_of
from homeostat.core.errors import AgentUnknown
from homeostat.core.ids import DEFAULT_PROJECT, ProjectId
from homeostat.core.machines.agent import AgentState
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.tools import ToolDesk

Factory = Callable[[], ProcessingAgent]

_ENDED = frozenset({AgentState.SHUTTING_DOWN, AgentState.TERMINATED})


class Surroundings:
    """What happens around each piece of work: the agent learns its trace, and its memory is fresh and then kept."""

    def __init__(self, orchestrator: "Orchestrator") -> None:
        self._orchestrator = orchestrator

    async def initialize(self, context: ExecutionContext) -> None:
        agent = self._orchestrator.agent(context.target)
        if isinstance(agent, ManagedAgent):
            agent.bind(context=context)
            agent.memory.cleared = False
            await agent.memory.begin(context.routing.get("turn_id"))
            if agent.memory.cleared or agent.treated_in_vain:
                agent = await self._orchestrator.renew(context.target)
                agent.bind(context=context)
                await agent.memory.begin(context.routing.get("turn_id"))
        if getattr(context.request, "run_id", None) is not None:
            context.request.journal.code = code_of(agent)
            if isinstance(agent, ManagedAgent):
                context.request.journal.memory = agent.memory.read

    async def teardown(self, context: ExecutionContext) -> None:
        agent = self._orchestrator.known(context.target)
        if getattr(context.request, "run_id", None) is not None:
            context.request.recording = recording_of(agent, context.request.journal)
        if isinstance(agent, ManagedAgent):
            if getattr(context.request, "over", None) is not None:
                agent.memory.discard()  # left in the middle, though its author's code may not have noticed
            await agent.memory.flush()
            agent.memory.end()


class Orchestrator:
    """Keeps `OrchestratorProtocol`. An agent is made when it is first needed, and anew after it terminated."""

    def __init__(
        self,
        *,
        project: ProjectId = DEFAULT_PROJECT,
        memory: MemoryKeeper | None = None,
        tools: ToolDesk | None = None,
        emitter: LifecycleEmitter | None = None,
        config: LifecycleConfig | None = None,
    ) -> None:
        self._project = project
        self._memory = memory
        self._tools = tools
        self._emitter = emitter
        self._config = config
        self._factories: dict[str, Factory] = {}
        self._agents: dict[str, ProcessingAgent] = {}
        self._spare: dict[Factory, list[ManagedAgent]] = {}
        self._invoker = Invoker()
        self._lifecycle = Surroundings(self)

    def host(self, agent_id: str, factory: Factory) -> None:
        """Be ready to make this agent."""
        self._factories[agent_id] = factory

    @property
    def hosted(self) -> Collection[str]:
        return self._factories.keys()

    # --- the protocol --------------------------------------------------------------------------------------

    async def register(self, agent: AgentLifecycleProtocol) -> None:
        if isinstance(agent, ProcessingAgent):
            self._agents[getattr(agent, "agent_id", type(agent).__name__)] = agent

    async def deregister(self, agent: AgentLifecycleProtocol) -> None:
        for agent_id, known in list(self._agents.items()):
            if known is agent:
                del self._agents[agent_id]

    async def get_lifecycle(self) -> OrchestratorLifecycle:
        return self._lifecycle

    async def make_routing_decision(self, context: ExecutionContext) -> RoutingDecision:
        """Work names its agent: a message is addressed to one."""
        if context.target not in self._factories and context.target not in self._agents:
            raise AgentUnknown(agent_id=context.target, project=self._project)
        return RoutingDecision(target=context.target, reason="addressed")

    async def orchestrate(self, context: ExecutionContext) -> Any:
        """Route, start what is not ready, process, tear down."""
        lifecycle = await self.get_lifecycle()
        decision = await self.make_routing_decision(context)
        await lifecycle.initialize(context)
        try:
            agent = await self.ready(decision.target)
            return await self._invoker.call(agent.process, context.request)
        except Exception:
            raise
        except BaseException:
            # Cancelled, or suspended until results are in: the work did not end, so neither did what it remembered.
            if isinstance(agent := self._agents.get(decision.target), ManagedAgent):
                agent.memory.discard()
            raise
        finally:
            await lifecycle.teardown(context)
            self._spare_one(decision.target)

    # --- agents --------------------------------------------------------------------------------------------

    def known(self, agent_id: str) -> ProcessingAgent | None:
        """The agent of that name, if there is one right now."""
        return self._agents.get(agent_id)

    def agent(self, agent_id: str) -> ProcessingAgent:
        """The agent of that name; a terminated one is replaced, since it stays terminated."""
        agent = self._agents.get(agent_id)
        if agent is None or agent.get_state() in _ENDED:
            spare = self._spare.get(self._factories[agent_id])
            agent = spare.pop() if spare else self._factories[agent_id]()
            if isinstance(agent, ManagedAgent):
                agent.bind(
                    agent_id=agent_id,
                    project=self._project,
                    memory=self._memory,
                    tools=self._tools,
                    emitter=self._emitter,
                    orchestrator=self,
                )
            self._agents[agent_id] = agent
        return agent

    async def renew(self, agent_id: str) -> ManagedAgent:
        """End an agent that is to have forgotten everything, and make another of its name."""
        if (ended := self._agents.pop(agent_id, None)) is not None:
            await ended.shutdown()
        agent = self.agent(agent_id)
        assert isinstance(agent, ManagedAgent), "what makes an agent makes one of the same kind"
        return agent

    def _spare_one(self, agent_id: str) -> None:
        """Keep a stateless agent for whoever is next, so that agents which wait cost nothing."""
        agent, factory = self._agents.get(agent_id), self._factories.get(agent_id)
        if factory is None or not isinstance(agent, ManagedAgent) or not agent.stateless:
            return  # whoever registered by himself is not ours to give away
        if agent.get_state() is AgentState.READY:
            del self._agents[agent_id]
            self._spare.setdefault(factory, []).append(agent)

    async def ready(self, agent_id: str, *, trace_id: str | None = None) -> ProcessingAgent:
        """The agent of that name, started, and not before it is resumed if it was paused.

        Who needs it says in which trace, so that a startup is told as part of the work that asked for it.
        """
        agent = self.agent(agent_id)
        if isinstance(agent, ManagedAgent):
            await agent.until_unpaused()
            agent = self.agent(agent_id)
        if isinstance(agent, ManagedAgent) and trace_id is not None:
            agent.bind(context=ExecutionContext(trace_id=trace_id, target=agent_id))
        if agent.get_state() is not AgentState.READY:
            await agent.startup(self._config)
        return agent

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        """Shut every agent down, side by side."""
        spare = [agent for agents in self._spare.values() for agent in agents]
        self._spare.clear()
        await asyncio.gather(*(agent.shutdown(timeout_seconds) for agent in [*self._agents.values(), *spare]))
