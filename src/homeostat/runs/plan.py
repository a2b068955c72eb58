"""Plans: from what somebody sent or a planner delivered to tasks that can be carried out, or a reason why not."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from homeostat.core.codec import Json, from_json, read_as, to_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import AgentId
from homeostat.core.limits import TASK_DEPENDENCIES_MAX, TASK_RETRIES_DEFAULT, TASKS_PER_RUN_MAX
from homeostat.core.records.run import OnFailure, Target, TargetKind, TaskSpec
from homeostat.core.run_errors import PlanInvalid, TargetUnknown
from homeostat.core.wire.fields import NO_VALUE
from homeostat.core.wire.runs import PlanBody, TaskBody

Find = Callable[[Target], Awaitable[list[AgentId]]]

REFERENCE = "$result"
_REFERENCE, _NOTHING = REFERENCE.encode(), bytes(NO_VALUE)
"""`{"$result": "name"}` in a task's input stands for what that task delivered."""


def spec_of(body: TaskBody) -> TaskSpec:
    """A task as it was sent; one that names nobody, or several, cannot be carried out."""
    named = [
        Target(kind, name)
        for kind, name in (
            (TargetKind.AGENT, body.agent),
            (TargetKind.TYPE, body.type),
            (TargetKind.TAG, body.tag),
        )
        if name is not None
    ]
    if len(named) != 1:
        raise PlanInvalid(problem=f"task {body.name!r} has to name one of agent, type and tag")
    retries = body.retries
    if body.on_failure is OnFailure.RETRY and not retries:
        retries = TASK_RETRIES_DEFAULT
    return TaskSpec(
        name=body.name,
        target=named[0],
        input=body.input,
        after=tuple(dict.fromkeys(body.after)),
        retries=retries,
        backoff_seconds=body.backoff_seconds,
        timeout_seconds=body.timeout_seconds,
        on_failure=body.on_failure,
        approval=body.approval,
    )


def read_plan(delivered: Json) -> list[TaskSpec]:
    """What a planning agent delivered: an object with tasks, or the tasks alone. It is hostile until it is read."""
    text = Json(f'{{"tasks":{delivered}}}') if delivered.lstrip().startswith("[") else delivered
    try:
        plan = read_as(PlanBody, text)
    except MalformedPayload as problem:
        raise PlanInvalid(problem=problem.message.rstrip(".")) from problem
    return [spec_of(body) for body in plan.tasks]


async def check_plan(specs: Sequence[TaskSpec], find: Find) -> None:
    """See that a plan can be carried out: every name once, nothing that hangs in the air, no circle, known agents."""
    if not specs:
        raise PlanInvalid(problem="it has no tasks")
    if len(specs) > TASKS_PER_RUN_MAX:
        raise PlanInvalid(problem=f"it has {len(specs)} tasks, and {TASKS_PER_RUN_MAX} is the limit")
    places: dict[str, int] = {}
    for number, spec in enumerate(specs):
        if spec.name in places:
            raise PlanInvalid(problem=f"there are two tasks {spec.name!r}")
        places[spec.name] = number
    for spec in specs:
        if len(spec.after) > TASK_DEPENDENCIES_MAX:
            raise PlanInvalid(problem=f"task {spec.name!r} waits for more than {TASK_DEPENDENCIES_MAX} others")
        for name in spec.after:
            if name not in places:
                raise PlanInvalid(problem=f"task {spec.name!r} waits for {name!r}, which is no task of this plan")
    _check_order(specs, places)
    _check_references(specs)
    found: set[Target] = set()
    last: Target | None = None
    for spec in specs:
        if spec.target is last or spec.target in found:
            continue
        if not await find(spec.target):
            raise TargetUnknown(task=spec.name, target=str(spec.target))
        last = spec.target
        found.add(last)


def _check_order(specs: Sequence[TaskSpec], places: dict[str, int]) -> None:
    """Take away what waits for nothing, again and again; what is left goes round in a circle."""
    missing = [len(spec.after) for spec in specs]
    dependants: list[list[int]] = [[] for _ in specs]
    for number, spec in enumerate(specs):
        for name in spec.after:
            dependants[places[name]].append(number)
    free = [number for number, count in enumerate(missing) if not count]
    for number in free:
        for other in dependants[number]:
            missing[other] -= 1
            if not missing[other]:
                free.append(other)
    if len(free) < len(specs):
        number = next(number for number, count in enumerate(missing) if count)
        raise PlanInvalid(problem=" → ".join(_circle(specs, places, missing, number)) + " is a circle")


def _circle(specs: Sequence[TaskSpec], places: dict[str, int], missing: list[int], number: int) -> list[str]:
    """A way along what is waited for until a task comes up twice."""
    path: list[int] = []
    while number not in path:
        path.append(number)
        number = next(places[name] for name in specs[number].after if missing[places[name]])
    return [specs[step].name for step in (*path[path.index(number) :], number)]


def _check_references(specs: Sequence[TaskSpec]) -> None:
    for spec in specs:
        if _REFERENCE not in bytes(spec.input):
            continue
        for name in references(spec):
            if name not in spec.after:
                raise PlanInvalid(problem=f"task {spec.name!r} uses the result of {name!r} and does not wait for it")


def references(spec: TaskSpec) -> list[str]:
    """The tasks whose results an input asks for."""
    raw = bytes(spec.input)
    if _REFERENCE not in raw:
        return []
    found: list[str] = []

    def note(name: str) -> Any:
        found.append(name)

    _replace(from_json(raw), note)
    return found


def payload_of(spec: TaskSpec, goal: str, results: dict[str, Json]) -> Json:
    """The message that a task is, with what other tasks delivered in the places meant for it."""
    raw = bytes(spec.input)
    if raw == _NOTHING:
        return to_json({"goal": goal, "task": spec.name})
    if not results:
        return Json(raw.decode())
    return to_json(_replace(from_json(raw), lambda name: msgspec.Raw(results.get(name, "null").encode())))


def _replace(value: Any, result: Callable[[str], Any]) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if len(members) == 1 and isinstance(name := members.get(REFERENCE), str):
            return result(name)
        return {key: _replace(item, result) for key, item in members.items()}
    if isinstance(value, list):
        return [_replace(item, result) for item in cast("list[Any]", value)]
    return value
