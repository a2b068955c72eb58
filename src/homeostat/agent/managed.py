"""The agent an author inherits from: its whole life is kept to the contract, only the work is left to write."""

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, ClassVar, Self, overload

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import CannotTreat, StateViolationError
from homeostat.agent.events import NAMES, Announcer, LifecycleEmitter, LifecycleEvent, LogEmitter
from homeostat.agent.invocation import holds_nothing, immediate
from homeostat.agent.lifecycle import Lifecycle
from homeostat.agent.memory import AgentMemory, VolatileMemory
from homeostat.agent.metrics import LifecycleMetrics
from homeostat.agent.ownership import EphemeralState, StateOwnership, owner_of
from homeostat.agent.protocol import ExecutionContext, OrchestratorProtocol
from homeostat.agent.states import requires_state
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId
from homeostat.core.limits import LIFECYCLE_GRACE_SECONDS
from homeostat.core.machines.agent import AgentEvent, AgentState
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.tools import ToolDesk
from homeostat.core.records.immune import RemedyAction

log = logging.getLogger(__name__)

_MISSING: Any = object()
LASTING = frozenset({RemedyAction.ROLLBACK_PROMPT, RemedyAction.REDUCE_AUTONOMY, RemedyAction.REVOKE_TOOLS})
"""Remedies that live in the agent itself; what was forgotten is forgotten wherever it is kept."""


class ManagedAgent:
    """An agent that keeps `AgentLifecycleProtocol`.

    Write `_do_startup`, `_do_shutdown` and `process` (or `_do_process`), as coroutines or as plain functions, which run
    in a thread. What is entered into `self.resources` at startup is closed after a failed attempt and at shutdown.
    """

    memory_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys that this class keeps in memory, besides those that every agent does."""
    orchestrator_keys: ClassVar[frozenset[str]] = frozenset()
    stateless: ClassVar[bool] = False
    """Whether a host may use one object for several agents in turn, since it keeps nothing between two requests."""

    agent_id: str
    orchestrator: OrchestratorProtocol | None
    tool_desk: ToolDesk | None
    memory: AgentMemory
    resources: AsyncExitStack

    _clock: Clock
    _config: LifecycleConfig
    _life: Lifecycle
    _announcer: Announcer
    _agent_state: EphemeralState
    _context: ExecutionContext | None
    _keeper: MemoryKeeper
    _treated: Json | None  # the remedies that left this very object as it is

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        # Everything is set up here, so that a subclass may forget to call `super().__init__()`.
        self = super().__new__(cls)
        self._clock = SystemClock()
        self._config = LifecycleConfig()
        self._life = Lifecycle(
            start=self._begin,
            undo=self._undo,
            stop=self._end,
            light=self._is_light,
            note=self._note,
            tell=self._tell,
            clock=self._clock,
        )
        self._announcer = Announcer(LogEmitter())
        self._agent_state = EphemeralState(self._admit)
        self._context = None
        self.orchestrator = None
        self.tool_desk = None
        self._treated = None
        self.resources = AsyncExitStack()
        self.bind(agent_id=cls.__name__, memory=VolatileMemory())
        return self

    def __init__(self, config: LifecycleConfig | None = None, *, agent_id: str | None = None) -> None:
        if config is not None:
            self._config = config
        if agent_id is not None:
            self.bind(agent_id=agent_id)

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        written = cls.__dict__.get("process")
        if callable(written):
            cls.process = _as_request(written)

    def bind(
        self,
        *,
        agent_id: str | None = None,
        project: str = DEFAULT_PROJECT,
        memory: MemoryKeeper | None = None,
        emitter: LifecycleEmitter | None = None,
        orchestrator: OrchestratorProtocol | None = None,
        tools: ToolDesk | None = None,
        context: ExecutionContext | None = None,
    ) -> None:
        """What a host gives an agent before it starts: its name, its memory's keeper, listeners, and the trace."""
        if agent_id is not None:
            self.agent_id = agent_id
        if memory is not None:
            self._keeper = memory
        if emitter is not None:
            self._announcer.emitter = emitter
        if orchestrator is not None:
            self.orchestrator = orchestrator
        if tools is not None:
            self.tool_desk = tools
        if context is not None:
            self._context = context
        if agent_id is not None or memory is not None:
            key = (ProjectId(project), AgentId(self.agent_id))
            self.memory = AgentMemory(agent=key, keeper=self._keeper, owns=self.owns_state, clock=self._clock)

    # --- what a subclass writes ----------------------------------------------------------------------------

    @holds_nothing
    @immediate
    def _do_startup(self, config: LifecycleConfig) -> Awaitable[None] | None:
        """Allocate resources; memory is loaded by now."""

    @holds_nothing
    @immediate
    def _do_shutdown(self, timeout_seconds: float) -> Awaitable[None] | None:
        """Release what `_do_startup` allocated; also called after a startup that failed half way."""

    @immediate
    def _do_process(self, request: Any, /) -> Any:
        """Work on one request."""
        del request
        raise NotImplementedError(f"{type(self).__name__} has neither process() nor _do_process()")

    # --- remedies: an author may write these, as coroutines or plain functions, and raise `CannotTreat` -------

    async def _do_reset_memory(self) -> str:
        """Forget everything; returns in words what was done."""
        count = await self.memory.forget_all()
        self._agent_state.clear()
        return f"{count} remembered values were forgotten"

    async def _do_rollback_prompt(self) -> str:
        """Go back to the prompt before."""
        raise CannotTreat("it keeps no earlier prompt")

    async def _do_reduce_autonomy(self) -> str:
        """Do less on one's own."""
        raise CannotTreat("it has no measure of its autonomy")

    async def _do_revoke_tools(self) -> str:
        """Work without tools."""
        raise CannotTreat("it has no tools that could be revoked")

    async def treat(self, action: RemedyAction) -> str:
        """Apply a remedy by the hook of its name; raises `CannotTreat` where it means nothing to this agent."""
        hook = getattr(self, f"_do_{action.value}", None)
        if hook is None:
            raise CannotTreat(f"nobody can {action.value} from inside")
        note = str(await self._life.invoker.call(hook))
        if action in LASTING:
            await self.memory.note_treatment(action.value)
            self._treated = self.memory.treatment
        return note

    @property
    def treated_in_vain(self) -> bool:
        """Whether this object is as remedies left it that were lifted since: another one takes its place."""
        return self._treated is not None and self._treated != self.memory.treatment

    async def _treat_again(self) -> None:
        """Be as the last one who worked here was left: a remedy does not end with the process it was given in."""
        self._treated = self.memory.treatment
        for name in await self.memory.treatments():
            try:
                note = await self._life.invoker.call(getattr(self, f"_do_{name}"))
            except CannotTreat as problem:
                log.warning("%s of %s does not hold any more: %s", name, self.agent_id, problem)
            else:
                log.info("%s of %s holds: %s", name, self.agent_id, note)

    # --- the protocol --------------------------------------------------------------------------------------

    async def startup(self, config: LifecycleConfig | None = None) -> None:
        """Become READY, or roll back and raise `StartupError`."""
        await self._life.startup(config or self._config)

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        """Become TERMINATED within the time given; never raises."""
        seconds = self._life.config.timeout_seconds
        if timeout_seconds is not None and not math.isnan(timeout_seconds):
            seconds = max(0.0, timeout_seconds)
        await self._life.shutdown(seconds)

    @requires_state(AgentState.READY)
    async def process(self, request: Any, /) -> Any:
        """Work on one request: BUSY while it runs, READY again after it."""
        return await self._life.invoker.call(self._do_process, request)

    async def pause(self) -> None:
        """Take no requests for a while."""
        self._life.move(AgentEvent.PAUSE)
        await self._tell()

    async def resume(self) -> None:
        """Take requests again."""
        self._life.move(AgentEvent.RESUME)
        await self._tell()

    async def until_unpaused(self) -> None:
        """Wait for `resume()`, if the agent is paused."""
        await self._life.unpaused.wait()

    @overload
    def get_state(self) -> AgentState: ...
    @overload
    def get_state(self, key: str, default: Any = None) -> Any: ...
    def get_state(self, key: str | None = None, default: Any = None) -> Any:
        """Where the agent stands in its life; with a key, the value of that piece of state, whoever owns it."""
        if key is None:
            return self._life.state
        match self.owns_state(key):
            case StateOwnership.AGENT:
                return self._agent_state.get(key, default)
            case StateOwnership.MEMORY:
                return self.memory.get(key, default)
            case StateOwnership.ORCHESTRATOR:
                return getattr(self.context, key, self.context.routing.get(key, default))

    def set_state(self, key: str, value: Any) -> None:
        """Set a piece of the agent's own state, which ends with the agent."""
        self._agent_state[key] = value

    def owns_state(self, key: str) -> StateOwnership:
        """Who may write a key. Declare more with `memory_keys` and `orchestrator_keys`, or override this."""
        return owner_of(key, memory=self.memory_keys, orchestrator=self.orchestrator_keys)

    def get_metrics(self) -> LifecycleMetrics:
        return self._life.metrics()

    @property
    def context(self) -> ExecutionContext:
        """What the orchestrator says about the work at hand; without one, a trace of the agent's own."""
        if self._context is None:
            self._context = ExecutionContext(trace_id=Ids().trace())
        return self._context

    @property
    def emitter(self) -> LifecycleEmitter:
        """Where this agent's lifecycle events go; an author may send others there."""
        return self._announcer.emitter

    @property
    def _state(self) -> AgentState:
        return self._life.state

    @_state.setter
    def _state(self, target: AgentState) -> None:
        self._life.assign(target)

    @property
    def _memory_dirty(self) -> bool:
        return self.memory.dirty

    async def __aenter__(self) -> Self:
        try:
            await self.startup()
        except BaseException:
            await self.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    # --- what starting and stopping consist of -------------------------------------------------------------

    async def _begin(self, config: LifecycleConfig) -> None:
        await self.memory.refresh()
        await self._life.invoker.call(self._do_startup, config)
        if self.memory.treatment is not None and self._treated is None:
            await self._treat_again()
        if self.orchestrator is not None:
            await self.orchestrator.register(self)

    def _is_light(self) -> bool:
        """Whether nothing waits to be cleaned up by the task that started it."""
        return all(getattr(hook, "holds_nothing", False) for hook in (self._do_startup, self._do_shutdown))

    async def _undo(self) -> None:
        stack, self.resources = self.resources, AsyncExitStack()
        await stack.aclose()

    async def _end(self, seconds: float, left: float) -> None:
        """Save memory, let the author clean up, then close what is left; no part keeps another from its turn."""
        grace = LIFECYCLE_GRACE_SECONDS / 3
        until = self._clock.monotonic() + left
        await self._part("memory", self.memory.flush, seconds=left / 2)
        left = max(0.0, until - self._clock.monotonic())
        await self._part("_do_shutdown", self._life.invoker.call, self._do_shutdown, seconds, seconds=left)
        if self.memory.dirty:
            await self._part("memory", self.memory.flush, seconds=grace)
        if self.orchestrator is not None:
            await self._part("deregister", self.orchestrator.deregister, self, seconds=grace)
        await self._part("resources", self._undo, seconds=grace)
        self._agent_state.clear()

    async def _part(self, name: str, work: Callable[..., Any], *args: Any, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work(*args)
        except Exception:
            self._life.problem()
            log.exception("%s: %s failed while shutting down", self.agent_id, name)

    # --- small parts ---------------------------------------------------------------------------------------

    def _admit(self, key: str) -> None:
        if (owner := self.owns_state(key)) is not StateOwnership.AGENT:
            raise StateViolationError(key, owner, StateOwnership.AGENT)

    def _note(self, event: AgentEvent, previous: AgentState, state: AgentState) -> None:
        self._announcer.note(
            LifecycleEvent(
                name=NAMES[event],
                agent_id=self.agent_id,
                trace_id=self.context.trace_id,
                state=state,
                previous=previous,
                at_ms=self._clock.now_ms(),
            )
        )
        if state is AgentState.TERMINATED:
            self._agent_state.clear()

    async def _tell(self) -> None:
        await self._announcer.tell()


def _as_request(written: Callable[..., Any]) -> Callable[..., Any]:
    """Make any `process` a request of the lifecycle, whether or not its author thought of it."""
    states: tuple[AgentState, ...] = getattr(written, "required_states", (AgentState.READY,))
    body: Callable[..., Any] = vars(written)["__wrapped__"] if hasattr(written, "required_states") else written

    @functools.wraps(body)
    async def process(self: ManagedAgent, *args: Any, **named: Any) -> Any:
        life = self._life  # pyright: ignore[reportPrivateUsage] - its own
        return await life.request(states, functools.partial(life.invoker.call, body, self, *args, **named))

    return process


ManagedAgent.process = _as_request(ManagedAgent.process)
