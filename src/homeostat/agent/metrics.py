"""What an agent's lifecycle cost so far, in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleMetrics:
    """A snapshot. Durations are None until there was something to measure; uptime runs from READY to TERMINATED."""

    startup_duration_seconds: float | None = None
    shutdown_duration_seconds: float | None = None
    requests: int = 0
    errors: int = 0
    retries: int = 0
    uptime_seconds: float = 0.0
