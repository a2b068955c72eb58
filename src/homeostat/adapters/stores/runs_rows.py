"""Rows and records of runs: the one place that knows in which order their columns stand."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import RedButton, Run, RunChange, Task, TaskSpec

Row = Sequence[Any]
NEWEST = "~"

_encoder = msgspec.json.Encoder()
_runs = msgspec.json.Decoder(Run)
_specs = msgspec.json.Decoder(TaskSpec)
_keys = msgspec.json.Decoder(tuple[str, ...])


def write_run(run: Run, request_key: str | None) -> tuple[object, ...]:
    tip = run.tip
    state = (run.driver, run.epoch, tip.next_seq, tip.hash)
    return (run.run_id, run.project, run.version, run.status.value, int(run.live), *state, request_key, _text(run))


def write_swap(change: RunChange) -> tuple[object, ...]:
    run = change.run
    tip = run.tip
    return (
        run.run_id,
        run.version,
        run.status.value,
        int(run.live),
        tip.next_seq,
        tip.hash,
        _text(run),
        change.epoch,
    )


def read_run(row: Row) -> Run:
    """A run. Who drives it changes without its version, and is told by columns of its own."""
    run = _runs.decode(row[0])
    assert run.version == row[1], "a run and its row have the same version"
    return replace(run, driver=row[2], epoch=row[3])


def write_task(run_id: str, task: Task) -> tuple[object, ...]:
    return (run_id, task.number, task.spec.name, *_state(task), _text(task.spec), _noted(task))


def write_move(run_id: str, task: Task) -> tuple[object, ...]:
    return (run_id, task.number, *_state(task), _noted(task))


def write_moved_row(run_id: str, task: Task) -> tuple[object, ...]:
    """The same as a row of the table, for an engine that takes rows; what never changes is left out."""
    return (run_id, task.number, "", *_state(task), "", _noted(task))


def _state(task: Task) -> tuple[object, ...]:
    return (
        task.status.value,
        task.attempt,
        task.turn_id,
        task.agent_id,
        task.not_before_ms,
        task.started_at_ms,
        task.ended_at_ms,
        task.approved_by,
        task.error,
        task.result,
    )


def read_task(row: Row) -> Task:
    spec: TaskSpec = _specs.decode(row[11])
    task = Task(row[0], spec, TaskStatus(row[1]), *row[2:11])
    return task if row[12] is None else replace(task, noted=_keys.decode(row[12]))


def _noted(task: Task) -> str | None:
    return _text(task.noted) if task.noted else None


def write_button(button: RedButton) -> tuple[object, ...]:
    return (button.project, button.actor, button.reason, button.pressed_at_ms)


def read_button(row: Row) -> RedButton:
    return RedButton(*row)


def _text(record: object) -> str:
    return _encoder.encode(record).decode()
