"""How the end of a task is told: with the end of its turn if it succeeded, else by an entry of its own."""

import json
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from homeostat.core.canonical import canonical_of
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, BoxId, CardId, ProjectId, RunId, TraceId, TurnId
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskEvent, TaskStatus
from homeostat.core.records.provenance import EntryKind, entry_of, read_line
from homeostat.core.records.recording import GOES_ON, TaskTold, end_of
from homeostat.core.records.run import Move, Run, RunConfig, Target, TargetKind, Task, TaskSpec
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.runs import chronicle, outcomes
from homeostat.runs.chronicle import Chronicle
from homeostat.runs.desk import Desk
from homeostat.runs.draft import Draft
from homeostat.runs.recording import Note

TURN = TurnId("turn_" + "0" * 24)
OTHER = TurnId("turn_" + "1" * 24)
RUN = Run(
    project=DEFAULT_PROJECT,
    run_id=RunId("run_" + "0" * 24),
    version=3,
    status=RunStatus.APPLYING,
    config=RunConfig(goal="g", seed=1),
    trace_id=TraceId("0" * 32),
    moved=Move("ann", "", Millis(0)),
    created_by="ann",
    created_at_ms=Millis(0),
)


async def _notes(
    project: ProjectId, tasks: Mapping[TurnId, TaskTold], noted: Mapping[TurnId, Collection[str]], *, ended: bool
) -> dict[TurnId, list[Note]]:
    del project, noted, ended
    return {
        turn_id: [
            Note(EntryKind.STEP, {"turn_id": turn_id}, Millis(1), f"{turn_id} step a"),
            Note(EntryKind.TURN_ENDED, {"turn_id": turn_id, "task": task}, Millis(1), end_of(turn_id)),
            Note(EntryKind.STEP, {"turn_id": "of another"}, Millis(1), "another step a"),
        ]
        for turn_id, task in tasks.items()
    }


@pytest.mark.parametrize(
    ("status", "noted", "recorded", "told"),
    [
        (Outcome.SUCCESS, (), True, ["step", "turn.ended succeeded", "step"]),
        (Outcome.SUCCESS, (end_of(TURN),), True, ["step", "step", "task.ended succeeded"]),
        (Outcome.SUCCESS, (), False, ["task.ended succeeded"]),
        (Outcome.FAILED, (), True, ["step", "turn.ended", "step", "task.ended failed"]),
    ],
)
async def test_an_outcome_is_told_once(
    status: Outcome, noted: tuple[str, ...], *, recorded: bool, told: list[str]
) -> None:
    spec = TaskSpec(name="t", target=Target(TargetKind.AGENT, "a"), input=msgspec.Raw(b"{}"))
    task = Task(7, spec, TaskStatus.RUNNING, 1, TURN, AgentId("a"), started_at_ms=Millis(5), noted=noted)
    end = Deliverable(TURN, AgentId("a"), CardId("c"), BoxId("b"), status, Json("9"), None, 1, Millis(8))
    desk = cast("Desk", SimpleNamespace(notes=_notes if recorded else None))
    draft = Draft(RUN, Millis(9))
    known = await Chronicle(desk).ended(draft, [(task, end)])
    outcomes.conclude(draft, task, end, told=task.number in known)
    change = draft.change()
    assert [_words(line) for line in change.lines] == told
    (ended,) = change.tasks
    assert ended.status is (TaskStatus.SUCCEEDED if status is Outcome.SUCCESS else TaskStatus.FAILED)


async def test_the_end_of_a_turn_waits_for_the_outcome_of_its_task() -> None:
    spec = TaskSpec(name="t", target=Target(TargetKind.AGENT, "a"), input=msgspec.Raw(b"{}"))
    task = Task(7, spec, TaskStatus.RUNNING, 1, TURN, AgentId("a"), started_at_ms=Millis(5))

    async def account(draft: Draft, *, before: Millis) -> bool:
        del draft, before
        return False

    desk = cast("Desk", SimpleNamespace(notes=_notes, purse=SimpleNamespace(account=account)))
    draft = Draft(RUN, Millis(9))
    await Chronicle(desk).catch_up(draft, [task], always=True)
    (noted,) = draft.change().tasks
    assert [_words(line) for line in draft.change().lines] == ["step", "step"]
    assert end_of(TURN) not in noted.noted


@pytest.mark.parametrize(
    ("going", "room", "remembered"),
    [(f"{OTHER} {GOES_ON}", 9, [TURN]), (f"{OTHER} step {GOES_ON}", 9, []), (f"{OTHER} {GOES_ON}", 1, [])],
)
async def test_what_outlives_a_turn_is_remembered_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch, going: str, room: int, remembered: list[TurnId]
) -> None:
    async def notes(*_: Any, ended: bool) -> dict[TurnId, list[Note]]:
        assert ended
        keys = (f"{TURN} step a", end_of(TURN), f"{OTHER} step a", going)
        return {TURN: [Note(EntryKind.RUN_CHANGED, {"key": key}, Millis(1), key) for key in keys]}

    monkeypatch.setattr(chronicle, "OUTLIVED_NOTES_MAX", room)
    spec = TaskSpec(name="t", target=Target(TargetKind.AGENT, "a"), input=msgspec.Raw(b"{}"))
    task = Task(7, spec, TaskStatus.RUNNING, 1, TURN, AgentId("a"), started_at_ms=Millis(5))
    end = Deliverable(TURN, AgentId("a"), CardId("c"), BoxId("b"), Outcome.FAILED, Json("9"), None, 1, Millis(8))
    draft = Draft(RUN, Millis(9))
    await Chronicle(cast("Desk", SimpleNamespace(notes=notes))).ended(draft, [(task, end)])
    assert [one.turn_id for one in draft.run.outlived] == remembered
    assert all(one.noted == (f"{OTHER} step a", going) for one in draft.run.outlived)


@pytest.mark.parametrize(
    ("told", "counts", "untold"),
    [(None, {}, True), (None, {"succeeded": 1}, False), (False, {"succeeded": 1}, True), (True, {}, False)],
)
async def test_the_turn_that_was_asked_for_a_plan_is_told_of_once(
    *, told: bool | None, counts: dict[str, int], untold: bool
) -> None:
    run = replace(RUN, plan_turn_id=TURN, plan_told=told, counts=counts)
    chronicle, draft = Chronicle(cast("Desk", SimpleNamespace(notes=_notes))), Draft(run, Millis(9))
    for _ in range(2):
        await chronicle.plan_ended(draft)
    assert [_words(line) for line in draft.change().lines].count("turn.ended") == untold
    assert bool(draft) == untold
    assert not replace(run, plan_turn_id=None).plan_untold


def _words(line: str) -> str:
    entry = read_line(line)
    said: dict[str, Any] = json.loads(bytes(entry.payload))
    about = said if entry.kind == EntryKind.TASK_ENDED else said.get("task", {})
    if "status" not in about:
        return entry.kind
    assert (about["number"], about["attempt"], about["started_at_ms"]) == (7, 1, 5)
    return f"{entry.kind} {about['status']}"


@pytest.mark.parametrize("where", ["name", "agent_id", "result", "error"])
def test_what_others_wrote_of_a_task_is_freed_of_secrets_where_its_end_is_told_by_itself(where: str) -> None:
    secret = "sk-" + "a1" * 9
    said = dict.fromkeys(("name", "agent_id", "result", "error"), "plain") | {where: secret}
    spec = TaskSpec(name=said["name"], target=Target(TargetKind.TYPE, "any"), input=msgspec.Raw(b"{}"))
    task = Task(0, spec, TaskStatus.RUNNING, 1, TURN, AgentId(said["agent_id"]), None, Millis(0))
    draft = Draft(RUN, Millis(9))
    draft.end(task, TaskEvent.FAIL, result=to_json([said["result"]]), error=to_json({"message": said["error"]}))
    (line,) = draft.change().lines
    assert secret not in line
    assert line.count("plain") == len(said) - 1
    assert entry_of(line, RUN.project, RUN.run_id, 1).payload == canonical_of(bytes(read_line(line).payload))
