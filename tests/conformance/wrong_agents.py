"""Agents that break one promise each, and a correct one that owes nothing to `ManagedAgent`."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import FatalError, StartupError, StateViolationError
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.metrics import LifecycleMetrics
from homeostat.agent.ownership import StateOwnership, owner_of
from homeostat.core.machines.agent import AgentState as S


class Handmade:
    """A correct agent, written from the contract alone."""

    def __init__(self) -> None:
        self._state = S.UNINITIALIZED
        self._agent_state: dict[str, Any] = {}
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._cause: BaseException | None = None
        self._waiting = 0
        self.requests = self.errors = 0
        self.began = self.ready = self.left = self.ended = 0.0

    async def _do_startup(self, config: LifecycleConfig) -> None: ...

    async def _do_shutdown(self, timeout_seconds: float) -> None: ...

    async def _do_process(self, request: object) -> object:
        return request

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + 1e-6

    async def startup(self, config: LifecycleConfig | None = None) -> None:
        if self._state is S.UNINITIALIZED:
            self._state = S.INITIALIZING
            self.began = self._now()
            self._starting = asyncio.create_task(self._start(config or LifecycleConfig()))
        if self._starting is None:
            raise StartupError("it was shut down")
        self._waiting += 1
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._waiting == 1:
                self._starting.cancel()
            if not self._starting.cancelled() and self._stopping is None:
                await self.shutdown()
                raise
            if self._stopping is None:
                raise
        finally:
            self._waiting -= 1
        if self._state not in (S.READY, S.BUSY, S.PAUSED):
            raise StartupError("it did not start") from self._cause

    async def _start(self, config: LifecycleConfig) -> None:
        attempts = 1 + (config.max_retries if config.retry_on_failure else 0)
        try:
            async with asyncio.timeout(config.timeout_seconds):
                while True:
                    attempts -= 1
                    try:
                        await self._do_startup(config)
                        break
                    except Exception as problem:
                        self._cause = problem
                        if attempts == 0:
                            raise
            if self._stopping is None:
                self._state = S.READY
                self.ready = self._now()
                return
        except Exception as problem:  # noqa: BLE001
            self._cause = problem
        if config.cleanup_on_error and self._stopping is None:
            await self.shutdown()

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if self._stopping is None:
            self.left = self._now()
            self._stopping = asyncio.create_task(self._stop(30.0 if timeout_seconds is None else timeout_seconds))
        await asyncio.shield(self._stopping)

    async def _stop(self, seconds: float) -> None:
        self._state = S.SHUTTING_DOWN
        with suppress(Exception):
            async with asyncio.timeout(seconds):
                await self._do_shutdown(seconds)
        self._agent_state.clear()
        self.ended = self._now()
        self._state = S.TERMINATED

    def allowed(self) -> tuple[S, ...]:
        return (S.READY,)

    async def process(self, request: object) -> object:
        if self._state not in self.allowed():
            raise RuntimeError(f"it is {self._state}")
        self._state = S.BUSY
        self.requests += 1
        try:
            return await self._do_process(request)
        except FatalError:
            self.errors += 1
            await self.on_fatal()
            raise
        except Exception:
            self.errors += 1
            raise
        finally:
            self.after()

    async def on_fatal(self) -> None:
        await self.shutdown()

    def after(self) -> None:
        if self._state is S.BUSY:
            self._state = S.READY

    async def pause(self) -> None:
        if self._state is not S.READY:
            raise RuntimeError(f"it is {self._state}")
        self._state = S.PAUSED

    async def resume(self) -> None:
        if self._state is not S.PAUSED:
            raise RuntimeError(f"it is {self._state}")
        self._state = S.READY

    def get_state(self) -> S:
        return self._state

    def get_metrics(self) -> LifecycleMetrics:
        return LifecycleMetrics(
            startup_duration_seconds=self.ready - self.began if self.ready else None,
            shutdown_duration_seconds=self.ended - self.left if self.ended else None,
            requests=self.requests,
            errors=self.errors,
            uptime_seconds=(self.ended or self._now()) - self.ready if self.ready else 0.0,
        )

    def owns_state(self, key: str) -> StateOwnership:
        return owner_of(key)

    def set_state(self, key: str, value: object) -> None:
        if (owner := self.owns_state(key)) is not StateOwnership.AGENT:
            raise StateViolationError(key, owner)
        self._agent_state[key] = value


# --- startup -----------------------------------------------------------------------------------------------


class BornReady(ManagedAgent):
    def get_state(self, key: str | None = None, default: Any = None) -> Any:
        state = super().get_state()
        return S.READY if state is S.UNINITIALIZED else state


class NeverReady(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None: ...


class StartsAgain(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        if self._state is S.READY:
            await self._life.invoker.call(self._do_startup, config or LifecycleConfig())
        await super().startup(config)


class ReturnsWhileStarting(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        if self._state is not S.INITIALIZING:
            await super().startup(config)


class HidesTheCause(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        try:
            await super().startup(config)
        except StartupError:
            raise StartupError("something went wrong") from None


class LeavesTheRubble(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        await super().startup(replace(config or LifecycleConfig(), cleanup_on_error=False))


class ForgetsFailedStartups(ManagedAgent):
    failed = False

    async def startup(self, config: LifecycleConfig | None = None) -> None:
        try:
            await super().startup(config)
        except StartupError:
            self.failed = True
            raise

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if not (self.failed and self._state is S.INITIALIZING):
            await super().shutdown(timeout_seconds)


class StartsForEver(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        config = config or LifecycleConfig()
        await super().startup(replace(config, timeout_seconds=max(config.timeout_seconds, 3.0)))


class GivesUpOnceItRetried(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        await super().startup(config)
        if self.get_metrics().retries:
            await self.shutdown()


class RetriesOnceMore(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        config = config or LifecycleConfig()
        await super().startup(replace(config, max_retries=config.max_retries + 1))


class RetriesUnasked(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        config = config or LifecycleConfig()
        if not config.retry_on_failure:
            config = replace(config, retry_on_failure=True, max_retries=1)
        await super().startup(config)


class PretendsToStartAgain(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        if self._state is not S.TERMINATED:
            await super().startup(config)


class StartsThoughCancelled(ManagedAgent):
    async def startup(self, config: LifecycleConfig | None = None) -> None:
        await asyncio.shield(asyncio.ensure_future(super().startup(config)))


# --- shutdown ----------------------------------------------------------------------------------------------


class NeverTerminated(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None: ...


class CleansUpTwice(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if self._state is S.TERMINATED:
            await self._life.invoker.call(self._do_shutdown, 1.0)
        await super().shutdown(timeout_seconds)


class ReturnsWhileCleaning(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if self._state is not S.SHUTTING_DOWN:
            await super().shutdown(timeout_seconds)


class LetsStartupWin(ManagedAgent):
    starting: asyncio.Future[None] | None = None

    async def startup(self, config: LifecycleConfig | None = None) -> None:
        if self.starting is None or self.starting.done():
            self.starting = asyncio.ensure_future(super().startup(config))
        await self.starting

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if self.starting is not None and not self.starting.done():
            await asyncio.wait([self.starting])
            return
        await super().shutdown(timeout_seconds)


class CannotEndUnstarted(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        if self._state is S.UNINITIALIZED:
            raise RuntimeError("start it first")
        await super().shutdown(timeout_seconds)


class RaisesFromShutdown(ManagedAgent):
    problem: Exception | None = None

    async def _part(self, name: str, work: Any, *args: Any, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work(*args)
        except TimeoutError:
            return
        except Exception as problem:  # noqa: BLE001
            self.problem = problem

    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        await super().shutdown(timeout_seconds)
        if self.problem is not None:
            raise self.problem


class CleansUpForEver(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        await super().shutdown(max(timeout_seconds or 3.0, 3.0))


class LeavesATaskBehind(ManagedAgent):
    async def _do_startup(self, config: LifecycleConfig) -> None:
        self.task = asyncio.create_task(asyncio.Event().wait())


# --- requests ----------------------------------------------------------------------------------------------


class WorksUnstarted(Handmade):
    def allowed(self) -> tuple[S, ...]:
        return (S.UNINITIALIZED, S.READY)


class LooksIdle(Handmade):
    working = False

    async def process(self, request: object) -> object:
        if self._state is not S.READY or self.working:
            raise RuntimeError("not now")
        self.working = True
        self._state = S.BUSY
        try:
            self._state = S.READY
            self.requests += 1
            return await self._do_process(request)
        except FatalError:
            await self.shutdown()
            raise
        except Exception:
            self.errors += 1
            raise
        finally:
            self.working = False


class WorksTwiceAtOnce(Handmade):
    def allowed(self) -> tuple[S, ...]:
        return (S.READY, S.BUSY)


class StaysBusyAfterAnError(Handmade):
    def after(self) -> None:
        if not self.errors:
            super().after()


class SurvivesFatalErrors(Handmade):
    async def on_fatal(self) -> None: ...


class RisesFromTheDead(Handmade):
    fatal = False

    async def on_fatal(self) -> None:
        self.fatal = True
        await super().on_fatal()

    def after(self) -> None:
        if not self.fatal:
            self._state = S.READY


class WorksWhilePaused(Handmade):
    def allowed(self) -> tuple[S, ...]:
        return (S.READY, S.PAUSED)


class PausesUnstarted(Handmade):
    async def pause(self) -> None:
        if self._state is S.READY:
            self._state = S.PAUSED


# --- state -------------------------------------------------------------------------------------------------


class DisownsItsState(ManagedAgent):
    def owns_state(self, key: str) -> StateOwnership:
        return StateOwnership.MEMORY if key == "_temp" else super().owns_state(key)


class WritesMemory(Handmade):
    def set_state(self, key: str, value: object) -> None:
        if self.owns_state(key) is not StateOwnership.MEMORY:
            super().set_state(key, value)


class WritesTheTrace(Handmade):
    def set_state(self, key: str, value: object) -> None:
        if self.owns_state(key) is not StateOwnership.ORCHESTRATOR:
            super().set_state(key, value)


class KeepsItsState(ManagedAgent):
    async def shutdown(self, timeout_seconds: float | None = None) -> None:
        kept = dict(self._agent_state)
        await super().shutdown(timeout_seconds)
        self._agent_state.update(kept)


class Forgets(ManagedAgent):
    def bind(self, **named: Any) -> None:
        if hasattr(self, "_keeper"):
            named.pop("memory", None)
        super().bind(**named)


class MeasuresNothing(ManagedAgent):
    def get_metrics(self) -> LifecycleMetrics:
        return replace(super().get_metrics(), startup_duration_seconds=None)


class CountsNothing(ManagedAgent):
    def get_metrics(self) -> LifecycleMetrics:
        return replace(super().get_metrics(), errors=0)


class SaysNothing(ManagedAgent):
    def bind(self, **named: Any) -> None:
        named.pop("emitter", None)
        super().bind(**named)


WRONG: dict[str, type] = {
    "an_agent_begins_uninitialized": BornReady,
    "startup_makes_ready": NeverReady,
    "startup_twice_is_startup_once": StartsAgain,
    "startups_side_by_side_share_one": ReturnsWhileStarting,
    "a_failed_startup_names_its_cause": HidesTheCause,
    "a_failed_startup_is_rolled_back": LeavesTheRubble,
    "shutdown_cleans_up_after_a_failed_startup": ForgetsFailedStartups,
    "startup_is_bounded": StartsForEver,
    "startup_retries_when_asked": GivesUpOnceItRetried,
    "startup_gives_up_after_its_retries": RetriesOnceMore,
    "startup_does_not_retry_unasked": RetriesUnasked,
    "a_terminated_agent_refuses_to_start": PretendsToStartAgain,
    "a_cancelled_startup_does_not_end_ready": StartsThoughCancelled,
    "shutdown_makes_terminated": NeverTerminated,
    "shutdown_twice_is_shutdown_once": CleansUpTwice,
    "shutdowns_side_by_side_share_one": ReturnsWhileCleaning,
    "shutdown_during_startup_wins": LetsStartupWin,
    "shutdown_before_startup_is_fine": CannotEndUnstarted,
    "shutdown_never_raises": RaisesFromShutdown,
    "shutdown_is_bounded": CleansUpForEver,
    "nothing_is_left_running": LeavesATaskBehind,
    "process_needs_a_ready_agent": WorksUnstarted,
    "an_agent_is_busy_while_it_processes": LooksIdle,
    "a_busy_agent_refuses_a_second_request": WorksTwiceAtOnce,
    "a_recoverable_error_leaves_it_ready": StaysBusyAfterAnError,
    "a_fatal_error_shuts_it_down": SurvivesFatalErrors,
    "shutdown_while_busy_stays_terminated": RisesFromTheDead,
    "pause_holds_requests_until_resume": WorksWhilePaused,
    "an_illegal_transition_raises": PausesUnstarted,
    "an_agent_writes_its_own_state": DisownsItsState,
    "memory_is_not_set_directly": WritesMemory,
    "the_trace_is_not_set_directly": WritesTheTrace,
    "own_state_ends_with_the_agent": KeepsItsState,
    "memory_outlives_the_agent": Forgets,
    "metrics_tell_the_durations": MeasuresNothing,
    "metrics_count_requests_and_errors": CountsNothing,
    "every_transition_is_told_with_its_trace": SaysNothing,
}
