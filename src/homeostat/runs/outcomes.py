"""What the end of a turn means for the task it was."""

from collections.abc import Mapping
from typing import Final, cast

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.limits import TASK_BACKOFF_SECONDS_MAX
from homeostat.core.machines.task import TaskEvent, TaskStatus
from homeostat.core.records.run import Task
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.runs.draft import Draft

TIMEKEEPER: Final = "runs: time-out"
KILLER: Final = "runs: the run ended"
"""In whose name turns of a run are stopped; their deliverables say so for ever."""


CAUSE_CHARS_MAX: Final = 500  # of why a task failed, where its run tells it; the task tells all


def conclude(draft: Draft, task: Task, end: Deliverable, *, told: bool = False, keep: bool = True) -> Task:
    """Take a deliverable in: the task succeeded, is tried again after a while, or failed for good.

    That it succeeded may be `told` already; a result that another task asks for is to `keep`.
    """
    if told:
        return draft.end_told(task, TaskEvent.SUCCEED, end.result if keep else None)
    if end.status is Outcome.SUCCESS:
        return draft.end(task, TaskEvent.SUCCEED, result=end.result, error=None, keep=keep)
    by = stopped_by(end)
    error = end.error or to_json({"code": "failed", "message": "the turn failed and did not say why"})
    if by == KILLER:
        return draft.end(task, TaskEvent.STOP, result=None, error=error)
    if by == TIMEKEEPER:
        seconds = task.spec.timeout_seconds
        error = to_json({"code": "task_timed_out", "message": f"it took longer than {seconds:g} s"})
    if (by is None or by == TIMEKEEPER) and task.attempt <= task.spec.retries:
        ended = draft.end(task, TaskEvent.RETRY, result=None, error=error)
        return draft.amend(ended, not_before_ms=_after_pause(task, draft.now))
    return draft.end(task, TaskEvent.FAIL, result=None, error=error)


def _after_pause(task: Task, now: Millis) -> Millis:
    """When a task is tried again whose last attempt failed now."""
    pause = min(TASK_BACKOFF_SECONDS_MAX, task.spec.backoff_seconds * 2 ** (task.attempt - 1))
    return Millis(now + int(pause * 1000))


def within_pause(task: Task, now: Millis) -> Task:
    """A task that waits for longer than if it had failed just now was dated by a clock that ran ahead."""
    if task.not_before_ms is None or task.not_before_ms <= (latest := _after_pause(task, now)):
        return task
    return replace(task, not_before_ms=latest)


def fail(draft: Draft, task: Task, code: str, message: str) -> Task:
    """End a task that no turn was made of."""
    return draft.end(task, TaskEvent.FAIL, result=None, error=to_json({"code": code, "message": message}))


def give_back(draft: Draft, task: Task) -> Task:
    """A task that was not carried out, through no fault of its own, waits again."""
    return draft.task(task, TaskEvent.RETURN, attempt=task.attempt - 1, turn_id=None, started_at_ms=None)


def told(counts: Mapping[str, int]) -> str:
    """What became of the tasks of a run that is completed, in words."""
    total, good = sum(counts.values()), counts.get(TaskStatus.SUCCEEDED, 0)
    if good == total:
        return "every task is done"
    rest = [f"{count} {status}" for status, count in counts.items() if status != TaskStatus.SUCCEEDED]
    return f"{good} of {total} tasks succeeded, {', '.join(rest)}"


def failure_of(task: Task) -> Json:
    """Why a run failed, in terms of the task it failed by, and of what that failed by."""
    told = None if task.error is None else from_json(task.error)
    said = cast("dict[str, object]", told) if isinstance(told, dict) else {}
    cause = {word: str(said[word])[:CAUSE_CHARS_MAX] for word in ("code", "message") if said.get(word)}
    why = cause.get("message") or cause.get("code")
    message = f"task {task.spec.name!r} failed{f': {why}' if why else ''}"
    return to_json({"code": "task_failed", "task": task.spec.name, "message": message, "cause": cause or None})


def stopped_by(end: Deliverable) -> str | None:
    """In whose name a turn was stopped; None if it was not."""
    if end.status is not Outcome.STOP or end.error is None:
        return None
    said = from_json(end.error)
    return str(said.get("actor", "")) if isinstance(said, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - as told
