"""Rows and records of runs: the one place that knows in which order their columns stand."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, RunId, TurnId
from homeostat.core.limits import PLAN_ROW_CHARS, TASKS_IN_A_ROW
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import RedButton, Run, RunChange, Task, TaskSpec

Row = Sequence[Any]
NEWEST = "~"

_encoder = msgspec.json.Encoder()
_runs = msgspec.json.Decoder(Run)
_specs = msgspec.json.Decoder(list[TaskSpec])
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


def write_plan(run_id: str, tasks: Sequence[Task]) -> list[Row]:
    """A plan as rows of a bounded size: from which task to which, and what each is to do."""
    plan: list[Row] = []
    held: list[str] = []
    size, first = 0, tasks[0].number
    for task in tasks:
        text = _text(task.spec)
        if held and size + len(text) > PLAN_ROW_CHARS:
            plan.append((run_id, first, task.number - 1, f"[{','.join(held)}]"))
            held, size, first = [], 0, task.number
        held.append(text)
        size += len(text)
    return [*plan, (run_id, first, tasks[-1].number, f"[{','.join(held)}]")]


def read_plan(found: Iterable[Row]) -> Iterator[tuple[int, TaskSpec]]:
    """Tasks as they were planned, with their numbers."""
    for first, specs in found:
        yield from enumerate(_specs.decode(specs), first)


def named(name: str) -> str:
    """What stands in a row of a plan in which there is a task of that name; it may stand in others as well."""
    return f'"name":{_text(name)}'


class State(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a task is: a line among those of its neighbours."""

    status: TaskStatus = TaskStatus.WAITING
    attempt: int = 0
    turn_id: TurnId | None = None
    agent_id: AgentId | None = None
    not_before_ms: Millis | None = None
    started_at_ms: Millis | None = None
    ended_at_ms: Millis | None = None
    approved_by: str | None = None


_states = msgspec.json.Decoder(State)
UNTOUCHED: Final = State()
MARK: Final = f'["{TaskStatus.RUNNING.value}"'


def place_of(number: int) -> tuple[int, int]:
    """In which row the state of a task stands, and at which place."""
    return divmod(number, TASKS_IN_A_ROW)


def places_of(tasks: Iterable[Task]) -> list[int]:
    """The rows in which the states of some tasks stand."""
    return list({task.number // TASKS_IN_A_ROW: None for task in tasks})


def write_states(run_id: str, lines: dict[int, list[str]], tasks: Iterable[Task]) -> list[Row]:
    """The rows in which some tasks have moved, put into the lines of those rows; what moved last comes last there."""
    moved: dict[int, list[str]] = {}
    encode = _encoder.encode
    for task in tasks:
        row, place = divmod(task.number, TASKS_IN_A_ROW)
        if (line := moved.get(row)) is None:
            line = moved[row] = lines.pop(row, None) or [""] * TASKS_IN_A_ROW
        state = State(
            task.status,
            task.attempt,
            task.turn_id,
            task.agent_id,
            task.not_before_ms,
            task.started_at_ms,
            task.ended_at_ms,
            task.approved_by,
        )
        line[place] = encode(state).decode()
    lines.update(moved)
    return [(run_id, row, "\n".join(line)) for row, line in moved.items()]


def read_states(found: Iterable[Row]) -> dict[int, State]:
    """How far tasks are, by their numbers; those that never moved are left out."""
    return {
        row * TASKS_IN_A_ROW + place: _states.decode(line)
        for row, states in found
        for place, line in enumerate(states.split("\n"))
        if line
    }


def write_remains(run_id: str, tasks: Iterable[Task]) -> list[Row]:
    """What is told of tasks beside how far they are: most have nothing of it, and some have much."""
    return [
        (run_id, task.number, task.error, task.result, _text(task.noted) if task.noted else None)
        for task in tasks
        if task.error is not None or task.result is not None or task.noted
    ]


def read_marked(found: Iterable[Row]) -> dict[RunId, list[tuple[AgentId, TurnId]]]:
    """The turns of tasks that are marked as running, by their runs; the lines of other tasks are not looked into."""
    marked: dict[RunId, list[tuple[AgentId, TurnId]]] = {}
    for run_id, states in found:
        for line in states.split("\n"):
            if not line.startswith(MARK):
                continue
            state = _states.decode(line)
            if state.agent_id is not None and state.turn_id is not None:
                marked.setdefault(RunId(run_id), []).append((state.agent_id, state.turn_id))
    return marked


def read_task(number: int, spec: TaskSpec, state: State, remains: Row) -> Task:
    error, result, noted = remains
    return Task(
        number,
        spec,
        state.status,
        state.attempt,
        state.turn_id,
        state.agent_id,
        state.not_before_ms,
        state.started_at_ms,
        state.ended_at_ms,
        state.approved_by,
        error,
        result,
        () if noted is None else _keys.decode(noted),
    )


class _Delivered(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"null")


_delivered = msgspec.json.Decoder(_Delivered)


def read_result(content: str) -> Json:
    """What a deliverable says was the result."""
    return Json(bytes(_delivered.decode(content).result).decode())


def write_button(button: RedButton) -> tuple[object, ...]:
    return (button.project, button.actor, button.reason, button.pressed_at_ms)


def read_button(row: Row) -> RedButton:
    return RedButton(*row)


def _text(record: object) -> str:
    return _encoder.encode(record).decode()
