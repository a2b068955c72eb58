"""The course of one agent's life: who may start it, who waits, who wins, and within which time.

Startup and clean-up run in one task of the agent's own, its home. So whatever is entered at startup is left by the task
that entered it, callers may be cancelled without taking the agent along, and any number of callers share one startup
and one clean-up. An agent that holds nothing needs no home in between. Timers, not callers, see to the bounds: a hook
that ignores its cancellation is left behind.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import FatalError, RequestInterrupted, StartupError
from homeostat.agent.invocation import Invoker
from homeostat.agent.metrics import LifecycleMetrics
from homeostat.agent.states import check_state
from homeostat.core.clock import Clock
from homeostat.core.errors import IllegalTransition
from homeostat.core.limits import LIFECYCLE_GRACE_SECONDS, STARTUP_RETRY_SECONDS, STARTUP_RETRY_SECONDS_MAX
from homeostat.core.machines.agent import AGENT, AgentEvent, AgentState

log = logging.getLogger(__name__)

S, E = AgentState, AgentEvent

LEAVING = frozenset({S.SHUTTING_DOWN, S.TERMINATED})
BY_HAND = frozenset({E.PROCESS, E.PROCESSED, E.PAUSE, E.RESUME})
"""What an author may bring about by assigning a state; the rest is what `startup()` and `shutdown()` are for."""


class Lifecycle:
    """Moves one agent through its table. The agent says what starting, undoing and stopping consist of."""

    def __init__(
        self,
        *,
        start: Callable[[LifecycleConfig], Awaitable[None]],
        undo: Callable[[], Awaitable[None]],
        stop: Callable[[float, float], Awaitable[None]],
        light: Callable[[], bool],
        note: Callable[[AgentEvent, AgentState, AgentState], None],
        tell: Callable[[], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._start_hook = start
        self._undo_hook = undo
        self._stop_hook = stop
        self._light = light
        self._note = note
        self._tell = tell
        self._clock = clock
        self.state = AGENT.initial
        self.config = LifecycleConfig()
        self.invoker = Invoker()
        self._home: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._callers = 0
        self._alarms: list[asyncio.TimerHandle] = []
        self._starting: asyncio.Timeout | None = None
        self._leaving = asyncio.Event()
        self._leave_seconds = 0.0
        self._request: asyncio.Task[Any] | None = None
        self._request_bound: asyncio.Timeout | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.unpaused = asyncio.Event()
        self.unpaused.set()
        self._requests = self._errors = self._retries = 0
        self._began_at: float | None = None
        self._ready_at: float | None = None
        self._leaving_at: float | None = None
        self._ended_at: float | None = None

    # --- the table -----------------------------------------------------------------------------------------

    def move(self, event: AgentEvent) -> None:
        """Take an event through the table; an illegal one raises and changes nothing."""
        previous, self.state = self.state, AGENT.next(self.state, event)
        if self.state is S.PAUSED:
            self.unpaused.clear()
        else:
            self.unpaused.set()
        self._note(event, previous, self.state)

    def assign(self, target: AgentState) -> None:
        """An author wrote `self._state = …`: find the row that leads there."""
        if target is self.state:
            return
        for row in AGENT.rows:
            if row.state is self.state and row.target is target and row.event in BY_HAND:
                self.move(row.event)
                return
        raise IllegalTransition(machine=AGENT.name, state=self.state.value, event=f"assignment of {target}")

    # --- startup -------------------------------------------------------------------------------------------

    async def startup(self, config: LifecycleConfig) -> None:
        """Start, or wait for the startup under way; every caller gets its outcome."""
        if self.state in LEAVING:
            raise self._refusal()
        if asyncio.current_task() is self._home and self._home is not None:
            raise StartupError("startup() was called from within the agent's own hook and would wait for itself.")
        if self.state is S.UNINITIALIZED:
            self.config = config
            self._began_at = self._clock.monotonic()
            self.move(E.STARTUP)
            self._open(self._live())
            self._alarm(config.timeout_seconds + LIFECYCLE_GRACE_SECONDS, self._give_up_starting)
        started = self._futures()[0]
        self._callers += 1
        try:
            await asyncio.shield(started)
        except asyncio.CancelledError:
            if self._callers == 1 and self.state is S.INITIALIZING and not started.done():
                self._failure = asyncio.CancelledError("the only caller of startup() was cancelled")
                await self.shutdown(self.config.timeout_seconds)
            raise
        finally:
            self._callers -= 1
        if self._failure is not None or self.state in LEAVING:
            raise self._refusal()

    def _refusal(self) -> StartupError:
        """Each caller gets an error of its own, all with the same cause."""
        if self._failure is None:
            error = StartupError("The agent was shut down; create a new one, a terminated agent stays terminated.")
        else:
            error = StartupError(f"The agent did not start: {self._failure or type(self._failure).__name__}")
        error.__cause__ = self._failure
        return error

    async def _live(self) -> None:
        """The home task: start, stay, clean up."""
        try:
            failure = await self._start()
            if self._home is not asyncio.current_task():
                return  # it took too long and was given up on
            if self._failure is None:
                self._failure = failure
            if self.state is S.INITIALIZING:
                await self._settle_start()
            if self.state is S.READY and self._light():
                self._home = None
                return
            await self._leaving.wait()
        except asyncio.CancelledError:
            # The loop is closing: what was started is cleaned up all the same.
            if self._home is not asyncio.current_task():
                return
            if self.state not in LEAVING:
                self._leave(self.config.timeout_seconds)
        await self._clean_up()

    async def _settle_start(self) -> None:
        if self._failure is None:
            self.move(E.STARTED)
            self._ready_at = self._clock.monotonic()
            self._silence()
            await self._tell()
            _resolve(self._started)
        elif self.config.cleanup_on_error:
            self._leave(self.config.timeout_seconds)
        else:
            _resolve(self._started)

    async def _start(self) -> BaseException | None:
        """Attempt after attempt, all within the bound. Returns what went wrong in the end."""
        seconds = self.config.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as self._starting:
                await self._tell()
                problem = await self._attempt()
                pause = STARTUP_RETRY_SECONDS
                for _ in range(self.config.attempts - 1):
                    if problem is None or isinstance(problem, FatalError):
                        break
                    self._retries += 1
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, STARTUP_RETRY_SECONDS_MAX)
                    problem = await self._attempt()
                return problem
        except TimeoutError:
            if self.state in LEAVING:
                return StartupError("shutdown() was called while it started")
            return TimeoutError(f"it took longer than {seconds} s")
        finally:
            self._starting = None

    async def _attempt(self) -> Exception | None:
        try:
            await self._start_hook(self.config)
        except Exception as problem:  # noqa: BLE001 - whatever an author's code raises is the cause of a StartupError
            self._errors += 1
            try:
                await self._undo_hook()
            except Exception:
                log.exception("what a failed attempt had opened could not be closed")
            return problem
        return None

    def _give_up_starting(self) -> None:
        """A hook did not let go although its time is over: it is left behind, and the rollback goes ahead."""
        if self._starting is None:
            return
        self._starting = None
        if self.state is S.INITIALIZING:
            self._failure = TimeoutError(f"it took longer than {self.config.timeout_seconds} s and ignored it")
            if not self.config.cleanup_on_error:
                _resolve(self._started)
                self._open(self._stay())
                return
            self._leave(self.config.timeout_seconds)
        log.error("a startup hook ignored its cancellation and was left behind")
        self._open(self._clean_up())

    async def _stay(self) -> None:
        with suppress(asyncio.CancelledError):
            await self._leaving.wait()
        if self.state not in LEAVING:
            self._leave(self.config.timeout_seconds)
        await self._clean_up()

    # --- shutdown ------------------------------------------------------------------------------------------

    async def shutdown(self, seconds: float) -> None:
        """Clean up, or wait for the clean-up under way; the shortest time that any caller gave counts."""
        if self.state is S.TERMINATED and (self._ended is None or self._ended.done()):
            return
        ended = self._futures()[1]
        current = asyncio.current_task()
        if self.state not in LEAVING:
            self._leave(seconds)
        elif self._clock.monotonic() + seconds < (self._leaving_at or 0.0) + self._leave_seconds:
            self._alarm(seconds + LIFECYCLE_GRACE_SECONDS, self._give_up_cleaning)
        if current is self._home:
            return  # called by a hook: its own task goes on to clean up
        if current is self._request:
            self._idle.set()
        await asyncio.shield(ended)

    def _leave(self, seconds: float) -> None:
        """From here on nothing but the clean-up happens."""
        self.move(E.SHUTDOWN)
        self._leave_seconds = seconds
        self._leaving_at = self._clock.monotonic()
        self._leaving.set()
        self._alarm(seconds + 2 * LIFECYCLE_GRACE_SECONDS, self._give_up_cleaning)
        if self._starting is not None:
            _interrupt(self._starting)
            self._alarm(min(seconds / 2, LIFECYCLE_GRACE_SECONDS), self._give_up_starting)
        if self._request_bound is not None and self._request is not asyncio.current_task():
            _interrupt(self._request_bound)
        if self._home is None:
            self._open(self._clean_up())

    async def _clean_up(self) -> None:
        try:
            await self._tell()
            patience = min(self._leave_seconds / 2, LIFECYCLE_GRACE_SECONDS * 4)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._idle.wait()
            await self.invoker.settle(patience)
            left = (self._leaving_at or 0.0) + self._leave_seconds - self._clock.monotonic()
            await self._stop_hook(self._leave_seconds, max(left, 0.0))
        except Exception:
            self._errors += 1
            log.exception("a clean-up failed")
        finally:
            await self._finish()

    async def _finish(self) -> None:
        if self.state is S.TERMINATED:
            return
        self._ended_at = self._clock.monotonic()
        self.move(E.CLEANED_UP)
        try:
            await self._tell()
        finally:
            self._release()

    def _release(self) -> None:
        self._silence()
        _resolve(self._started)
        _resolve(self._ended)

    def _give_up_cleaning(self) -> None:
        """The time for cleaning up is over: the agent is terminated, whatever its hook still does."""
        if self.state is S.SHUTTING_DOWN:
            log.error("a clean-up did not end within its time and was left behind")
            self._errors += 1
            self._ended_at = self._clock.monotonic()
            self.move(E.CLEANED_UP)
        self._release()

    def problem(self) -> None:
        """Something failed that does not stop the clean-up."""
        self._errors += 1

    # --- requests ------------------------------------------------------------------------------------------

    async def request(self, states: tuple[AgentState, ...], work: Callable[[], Awaitable[Any]]) -> Any:
        """Run one request: BUSY while it lasts, READY after it, shut down if it was fatal."""
        current = asyncio.current_task()
        if current is not None and current is self._request:
            return await work()  # a method that calls the one it overrides is still the same request
        check_state(self, "process", states)
        self.move(E.PROCESS)
        self._requests += 1
        self._request = current
        self._idle.clear()
        bound = self._request_bound = asyncio.timeout(None)
        try:
            async with bound:
                await self._tell()
                return await work()
        except FatalError:
            self._errors += 1
            await self.shutdown(self.config.timeout_seconds)
            raise
        except Exception as problem:
            self._errors += 1
            if isinstance(problem, TimeoutError) and bound.expired():
                raise RequestInterrupted from None
            raise
        finally:
            self._request = self._request_bound = None
            self._idle.set()
            if self.state is S.BUSY:
                self.move(E.PROCESSED)
            await self._tell()

    def get_state(self) -> AgentState:
        return self.state

    # --- numbers and small parts ---------------------------------------------------------------------------

    def metrics(self) -> LifecycleMetrics:
        now = self._clock.monotonic()
        until = self._ended_at if self._ended_at is not None else now
        return LifecycleMetrics(
            startup_duration_seconds=_between(self._began_at, self._ready_at),
            shutdown_duration_seconds=_between(self._leaving_at, self._ended_at),
            requests=self._requests,
            errors=self._errors,
            retries=self._retries,
            uptime_seconds=0.0 if self._ready_at is None else until - self._ready_at,
        )

    def _open(self, life: Coroutine[Any, Any, None]) -> None:
        self._futures()
        self._home = asyncio.get_running_loop().create_task(life, name="agent-home")

    def _futures(self) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        loop = asyncio.get_running_loop()
        self._started = self._started or loop.create_future()
        self._ended = self._ended or loop.create_future()
        return self._started, self._ended

    def _alarm(self, seconds: float, ring: Callable[[], None]) -> None:
        self._alarms.append(asyncio.get_running_loop().call_later(seconds, ring))

    def _silence(self) -> None:
        for alarm in self._alarms:
            alarm.cancel()
        self._alarms.clear()


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _interrupt(bound: asyncio.Timeout) -> None:
    """Let a block end now, as if its time were over."""
    with suppress(RuntimeError):  # it is just ending by itself
        bound.reschedule(asyncio.get_running_loop().time())


def _between(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else second - first
