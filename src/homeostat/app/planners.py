"""The planning functions that settings name: found by module and name, and called with a run's configuration."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from homeostat.core.codec import to_json
from homeostat.core.errors import SettingInvalid
from homeostat.core.limits import NAME_CHARS_MAX
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

    for name, target in planners:
        try:
            function = load(target)
        except TargetInvalid as problem:
            raise SettingInvalid(setting="planners", problem=f"{problem.message} {problem.fix}") from problem
        if not callable(function):
            raise SettingInvalid(setting="planners", problem=f"{target} is no function")
        yield name, _planning(function)


def _planning(function: Callable[[RunConfig], Any]) -> PlanFunction:
    """A function as a planner. One that does not await works in a thread, so that nobody waits for it."""
    from homeostat.runs.plan import read_plan  # noqa: PLC0415 - settings are read by those who have no runs

    async def plan(config: RunConfig) -> Sequence[TaskSpec]:
        if inspect.iscoroutinefunction(function):
            made = await function(config)
        else:
            made = await asyncio.to_thread(function, config)
            if inspect.isawaitable(made):
                made = await made
        return read_plan(to_json(made, what="the plan"))

    return plan
