"""The agent object inside a process: from construction to termination."""

from enum import StrEnum

from homeostat.core.machines.table import Machine, Row


class AgentState(StrEnum):
    """Where an agent object stands in its life."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    BUSY = "busy"
    PAUSED = "paused"
    SHUTTING_DOWN = "shutting_down"
    TERMINATED = "terminated"


class AgentEvent(StrEnum):
    """What can happen to an agent object."""

    STARTUP = "startup"
    STARTED = "started"
    PROCESS = "process"
    PROCESSED = "processed"
    PAUSE = "pause"
    RESUME = "resume"
    SHUTDOWN = "shutdown"
    CLEANED_UP = "cleaned_up"


S, E = AgentState, AgentEvent

AGENT = Machine(
    "agent object",
    initial=S.UNINITIALIZED,
    final=[S.TERMINATED],
    rows=[
        Row(S.UNINITIALIZED, E.STARTUP, S.INITIALIZING, "startup() allocates resources"),
        Row(S.UNINITIALIZED, E.SHUTDOWN, S.SHUTTING_DOWN, "shutdown() is allowed before any startup"),
        Row(S.INITIALIZING, E.STARTED, S.READY, "startup succeeded"),
        Row(S.INITIALIZING, E.SHUTDOWN, S.SHUTTING_DOWN, "startup failed and rolls back, or shutdown() won the race"),
        Row(S.READY, E.PROCESS, S.BUSY, "a request starts"),
        Row(S.READY, E.PAUSE, S.PAUSED, "pause() suspends the agent between requests"),
        Row(S.READY, E.SHUTDOWN, S.SHUTTING_DOWN, "shutdown() starts the clean-up"),
        Row(S.BUSY, E.PROCESSED, S.READY, "the request ended, or failed in a way the agent survives"),
        Row(S.BUSY, E.SHUTDOWN, S.SHUTTING_DOWN, "shutdown() was called, or the request failed fatally"),
        Row(S.PAUSED, E.RESUME, S.READY, "resume() takes requests again"),
        Row(S.PAUSED, E.SHUTDOWN, S.SHUTTING_DOWN, "shutdown() starts the clean-up"),
        Row(S.SHUTTING_DOWN, E.CLEANED_UP, S.TERMINATED, "all resources are free, or the time for it is over"),
    ],
)
