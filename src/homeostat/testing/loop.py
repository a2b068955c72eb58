"""An event loop with virtual time and a seeded order: the same seed gives the same run, and nothing ever sleeps."""

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from homeostat.core.ids import Chance

T = TypeVar("T")

ROUNDS_PER_INSTANT_MAX = 5_000

_domain: "ContextVar[Domain | None]" = ContextVar("domain", default=None)


class Standstill(Exception):
    """Nothing is ready to run and nothing is scheduled: whoever waits would wait for ever."""


class Spinning(Exception):
    """Callbacks keep each other ready without end while no time passes: a busy loop."""


class Domain:
    """Callbacks that stop and vanish together, the way those of an operating system's process do."""

    __slots__ = ("alive", "backlog", "context", "name", "stalled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stalled = False
        self.backlog: list[Callback] = []
        self.context = copy_context()
        self.context.run(_domain.set, self)


class Callback(asyncio.TimerHandle):
    """One thing to run, which knows whose it is. It shares asyncio's interface and none of its bookkeeping."""

    __slots__ = ("arguments", "context", "domain", "dropped", "due", "work")

    def __init__(
        self, due: float, work: Callable[..., object], arguments: tuple[Any, ...], context: Context | None
    ) -> None:
        self.due = due
        self.work = work
        self.arguments = arguments
        self.context = copy_context() if context is None else context  # an empty context is falsy
        self.domain = self.context.get(_domain)
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.due

    def get_context(self) -> Context:
        return self.context

    def __repr__(self) -> str:
        return f"<{self.work!r} at {self.due:.3f}>"


class SeededLoop(asyncio.BaseEventLoop):
    """Runs what is ready in an order drawn from the seed; when nothing is, time jumps to the next timer."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self._chance = chance
        self._now = 0.0
        self._line: list[Callback] = []
        self._timers: list[tuple[float, int, Callback]] = []
        self._count = 0
        self._rounds = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self.on_error: Callable[[Exception], object] | None = None

    # --- what asyncio asks of a loop -----------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = Callback(self._now, callback, args, context)
        self._line.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = Callback(when, callback, args, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Futures nobody asked and tasks of vanished domains are part of the game."""

    def _failed(self, error: Exception) -> None:
        if self.on_error is None:
            raise error
        self.on_error(error)

    # --- running -------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        if not self._line:
            self._pass_time()
        self._rounds += 1
        if self._rounds > ROUNDS_PER_INSTANT_MAX:
            raise Spinning(f"at {self._now:.3f} s: {self._line[:5]}")
        batch, self._line = self._line, []
        if len(batch) > 1:
            self._chance.shuffle(batch)
        for handle in batch:
            domain = handle.domain
            if handle.dropped or (domain is not None and not domain.alive):
                continue
            if domain is not None and domain.stalled:
                domain.backlog.append(handle)
                continue
            try:
                handle.context.run(handle.work, *handle.arguments)
            except Exception as error:  # noqa: BLE001 — whoever runs the loop decides what it means
                self._failed(error)

    def _pass_time(self) -> None:
        timers = self._timers
        while timers and timers[0][2].dropped:
            heapq.heappop(timers)
        if not timers:
            raise Standstill
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._rounds = 0
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if not handle.dropped:
                self._line.append(handle)

    # --- domains -------------------------------------------------------------------------------------------

    def start(self, domain: Domain, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as part of a domain."""
        return self.create_task(coro, context=domain.context)

    def stall(self, domain: Domain) -> None:
        """Stop a domain where it stands; the world goes on around it."""
        domain.stalled = True

    def resume(self, domain: Domain) -> None:
        """Let a stopped domain find out what it missed."""
        domain.stalled = False
        self._line += domain.backlog
        domain.backlog = []

    @staticmethod
    def kill(domain: Domain) -> None:
        """Nothing of a domain ever runs again: no except, no finally."""
        domain.alive = False
        domain.backlog = []

    def close(self) -> None:
        """End the run; whatever is unfinished is dropped on the spot."""
        if not self.is_closed():
            self.on_error = None
            for task in self._tasks:
                if not task.done():
                    with suppress(RuntimeError):  # it waits in a finally; there is nothing left to wait for
                        task.get_coro().close()
            self._tasks.clear()
            self._line.clear()
            self._timers.clear()
        super().close()
