"""What an agent tells of its life: one event per transition, with the trace it happened in."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from homeostat.core.clock import Millis
from homeostat.core.limits import EMIT_SECONDS
from homeostat.core.machines.agent import AgentEvent, AgentState

log = logging.getLogger(__name__)

NAMES: Final = {
    AgentEvent.STARTUP: "agent.startup",
    AgentEvent.STARTED: "agent.startup",
    AgentEvent.PROCESS: "agent.process",
    AgentEvent.PROCESSED: "agent.process",
    AgentEvent.PAUSE: "agent.pause",
    AgentEvent.RESUME: "agent.resume",
    AgentEvent.SHUTDOWN: "agent.shutdown",
    AgentEvent.CLEANED_UP: "agent.shutdown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """One transition."""

    name: str
    agent_id: str
    trace_id: str
    state: AgentState
    previous: AgentState
    at_ms: Millis


class LifecycleEmitter(Protocol):
    """Whoever wants to hear of transitions."""

    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        """Take one event. Raising or dawdling harms nobody but the listener."""
        ...


class LogEmitter:
    """Writes transitions to the log: life and death at INFO, each request at DEBUG."""

    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        level = logging.DEBUG if name == "agent.process" else logging.INFO
        log.log(level, "%s: %s is %s (trace %s)", name, facts.get("agent_id", "agent"), state, trace_id)


class Announcer:
    """Hands transitions to an emitter in the order they happened, and survives whatever the emitter does."""

    def __init__(self, emitter: LifecycleEmitter) -> None:
        self.emitter = emitter
        self._waiting: deque[LifecycleEvent] = deque()
        self._turn = asyncio.Lock()

    def note(self, event: LifecycleEvent) -> None:
        self._waiting.append(event)

    async def tell(self) -> None:
        """Emit what was noted so far, also what somebody else has begun to emit.

        Whoever tells may be interrupted; what he was about to say is then said by the next one.
        """
        async with self._turn:
            while self._waiting:
                await self._emit(self._waiting[0])
                self._waiting.popleft()

    async def _emit(self, event: LifecycleEvent) -> None:
        try:
            async with asyncio.timeout(EMIT_SECONDS):
                await self.emitter.emit(
                    event.name,
                    trace_id=event.trace_id,
                    state=event.state.value,
                    previous=event.previous.value,
                    agent_id=event.agent_id,
                    at_ms=event.at_ms,
                )
        except Exception as problem:  # noqa: BLE001 - telemetry fails open
            log.warning("%s of %s was not heard: %r", event.name, event.agent_id, problem)
