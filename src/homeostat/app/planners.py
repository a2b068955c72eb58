"""The planning functions that settings name: found by module and name, and called with a run's configuration."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from homeostat.core.codec import to_json
from homeostat.core.errors import SettingInvalid
from homeostat.core.limits import NAME_CHARS_MAX, PLANNER_THREADS_MAX
from homeostat.core.ports.runs import PlanFunction
from homeostat.core.records.run import RunConfig, TaskSpec

PlannerSetting = tuple[str, str]
"""What a function is called in requests, and where it is: `module:function`."""


def read_planners(text: str) -> tuple[PlannerSetting, ...]:
    """Read `weekly=plans:weekly, monthly=plans:monthly`."""
    found: dict[str, str] = {}
    for entry in text.replace(",", " ").split():
        name, _, target = entry.partition("=")
        module, _, function = target.partition(":")
        if not (name and module and function) or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise ValueError(f"{entry!r} names no function; write NAME=module:function,…")
        if name in found:
            raise ValueError(f"{name!r} is named twice")
        found[name] = target
    return tuple(found.items())


def load_planners(planners: Sequence[PlannerSetting]) -> Iterator[tuple[str, PlanFunction]]:
    """Import what was named, before anything is planned by it."""
    from homeostat.agent.loading import TargetInvalid, load  # noqa: PLC0415 - most servers have no such function

    room = asyncio.Semaphore(PLANNER_THREADS_MAX)
    for name, target in planners:
        try:
            function = load(target)
        except TargetInvalid as problem:
            raise SettingInvalid(setting="planners", problem=f"{problem.message} {problem.fix}") from problem
        if not callable(function):
            raise SettingInvalid(setting="planners", problem=f"{target} is no function")
        yield name, _planning(function, room)


def _planning(function: Callable[[RunConfig], Any], room: asyncio.Semaphore) -> PlanFunction:
    """A function as a planner. It works in a thread, so that nobody waits for it."""
    from homeostat.runs.plan import read_plan  # noqa: PLC0415 - settings are read by those who have no runs

    async def plan(config: RunConfig) -> Sequence[TaskSpec]:
        await room.acquire()
        made = await PlannerThread(function, config, ended=room.release).made()
        return read_plan(to_json(made, what="the plan"))

    return plan


class PlannerThread:
    """One call of a planning function. A thread cannot be stopped: one that is given up is left behind, and neither the
    server nor the interpreter waits for it to end. What awaits is told, in a loop of its own.
    """

    def __init__(self, function: Callable[[RunConfig], Any], config: RunConfig, *, ended: Callable[[], None]) -> None:
        self._function = function
        self._config = config
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._made: asyncio.Future[Any] = self._loop.create_future()
        self._inside: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._given_up = False
        Thread(target=self._work, name=f"planner {config.planner_name}", daemon=True).start()

    async def made(self) -> Any:
        """What the function returned. Whoever is cancelled here gives it up."""
        try:
            return await self._made
        finally:
            self._give_up()

    def _give_up(self) -> None:
        self._given_up = True
        if self._inside is not None:
            loop, task = self._inside
            with suppress(RuntimeError):  # it is over already
                loop.call_soon_threadsafe(task.cancel)

    def _work(self) -> None:
        made: Any = None
        problem: Exception | None = None
        try:
            made = self._function(self._config)
            if inspect.isawaitable(made):
                made = asyncio.run(self._wait(made))
        except BaseException as raised:  # noqa: BLE001 - it is for whoever waits
            if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
                problem = raised
            else:  # it would end them, too
                problem = RuntimeError(f"it left by {type(raised).__name__}: {raised}")
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._settle, made, problem)

    async def _wait(self, made: Awaitable[Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._inside = asyncio.get_running_loop(), task
        if self._given_up:
            task.cancel()
        return await made

    def _settle(self, made: Any, problem: Exception | None) -> None:
        self._ended()
        if self._made.done():
            return
        if problem is None:
            self._made.set_result(made)
        else:
            self._made.set_exception(problem)
