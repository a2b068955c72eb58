"""What an agent knows of itself: counts, timings, what it did last, and how much memory that takes."""

from collections.abc import Callable, Generator, Sized
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from homeostat.core.clock import Clock, utc
from homeostat.core.ids import AgentId
from homeostat.core.limits import LAST_ACTION_CHARS_MAX
from homeostat.core.records.fleet import AgentStatus, ReportedStatus

MEGABYTE = 1 << 20


@runtime_checkable
class HasSize(Protocol):
    """A queue, as the standard library's are."""

    def qsize(self) -> int: ...


Queue = HasSize | Sized | Callable[[], int]


class Pulse:
    """Counts what an agent does. It is idle unless something is in work, and in error until the next success."""

    def __init__(self, *, clock: Clock, queue: Queue | None = None) -> None:
        self._clock = clock
        self._queue = queue
        self._started_ms = clock.now_ms()
        self._started_at = clock.monotonic()
        self._work_seconds = 0.0
        self._timed = 0
        self._failing = False
        self.in_work = 0
        self.items_processed = 0
        self.error_count = 0
        self.last_action = "started"
        self._last_action_ms = self._started_ms
        self.stopping = False

    def act(self, what: str) -> None:
        """Say what is done now."""
        self.last_action = what[:LAST_ACTION_CHARS_MAX]
        self._last_action_ms = self._clock.now_ms()

    @contextmanager
    def working(self, what: str | None = None) -> Generator[None]:
        """Around one item: it is timed and counted, and an exception that leaves the block is an error."""
        if what is not None:
            self.act(what)
        self.in_work += 1
        began = self._clock.monotonic()
        failed = True
        try:
            yield
            failed = False
        finally:
            self.in_work -= 1
            self.processed(seconds=self._clock.monotonic() - began, failed=failed)

    def processed(self, *, seconds: float | None = None, failed: bool = False) -> None:
        """Count an item that has ended."""
        self.items_processed += 1
        self.error_count += failed
        self._failing = failed
        if seconds is not None:
            self._work_seconds += seconds
            self._timed += 1

    @property
    def status(self) -> ReportedStatus:
        if self.stopping:
            return ReportedStatus.STOPPING
        if self.in_work:
            return ReportedStatus.RUNNING
        return ReportedStatus.ERROR if self._failing else ReportedStatus.IDLE

    @property
    def queue_depth(self) -> int:
        queue = self._queue
        if queue is None:
            return 0
        if isinstance(queue, HasSize):
            return queue.qsize()
        return max(0, queue()) if callable(queue) else len(queue)

    def read(
        self, agent_id: AgentId, agent_type: str, tags: tuple[str, ...], *, interval_seconds: float
    ) -> AgentStatus:
        """The pulse as one heartbeat."""
        return AgentStatus(
            agent_id=agent_id,
            agent_type=agent_type,
            tags=tags,
            timestamp=utc(self._clock.now_ms()),
            started_at=utc(self._started_ms),
            uptime_seconds=max(0.0, self._clock.monotonic() - self._started_at),
            status=self.status,
            last_action=self.last_action,
            last_action_at=utc(self._last_action_ms),
            items_processed=self.items_processed,
            queue_depth=self.queue_depth,
            processing_time_avg_ms=self._work_seconds * 1000 / self._timed if self._timed else 0.0,
            error_count=self.error_count,
            memory_mb=memory_mb(),
            push_interval_seconds=interval_seconds,
        )


def memory_mb() -> float:
    """What this process holds in memory."""
    import psutil  # noqa: PLC0415 - only a process that beats needs it

    return round(psutil.Process().memory_info().rss / MEGABYTE, 1)
