"""What every keeper of runs promises."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, ToolCallId, TraceId, TurnId, WorkerId
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.head import Head
from homeostat.core.records.provenance import Chain, EntryKind
from homeostat.core.records.run import (
    GateState,
    Move,
    RedButton,
    Run,
    RunChange,
    RunConfig,
    Target,
    TargetKind,
    Task,
    TaskSpec,
)
from homeostat.core.records.turn import AfterExecution, MessageType, Turn, Wait, WaitStatus
from homeostat.core.records.writes import Saved, Writes
from homeostat.core.run_errors import TurnExists

PROJECT: Final = ProjectId("default")
NOW: Final = Millis(1_000)
FAR: Final = Millis(NOW + 1_000_000)
ANN: Final = AgentId("ann")


@dataclass(frozen=True, slots=True)
class Keepers:
    """The keepers on one engine."""

    runs: RunStore
    turns: TurnStore
    ledger: LedgerStore


Check = Callable[[Keepers], Awaitable[None]]


def run_of(number: int, project: ProjectId = PROJECT) -> Run:
    return Run(
        run_id=RunId(f"run_{number:024x}"),
        project=project,
        trace_id=TraceId("a" * 32),
        config=RunConfig(goal="a goal", seed=7),
        moved=Move("ann", "it was asked for", NOW),
        created_at_ms=NOW,
        created_by="ann",
    )


def task_of(number: int, *after: str) -> Task:
    target = Target(TargetKind.AGENT, "ann")
    return Task(number, TaskSpec(name=f"t{number}", target=target, input=msgspec.Raw(b'{"a":1}'), after=after))


def change_of(run: Run, **parts: object) -> RunChange:
    """A change with one entry, as every change has."""
    chain = Chain(run.project, run.run_id, run.tip)
    chain.add(EntryKind.RUN_CHANGED, {"version": run.version}, at_ms=NOW)
    return RunChange(run=replace(run, tip=chain.tip), lines=tuple(chain.lines), **parts)  # pyright: ignore[reportArgumentType]


async def make(keepers: Keepers, number: int = 1, *, gate: GateState | None = None, tasks: int = 0) -> Run:
    change = change_of(run_of(number), new_tasks=tuple(task_of(place) for place in range(tasks)), gate=gate)
    made = await keepers.runs.create(change, request_key=None)
    assert isinstance(made, Run)
    return made


def following(run: Run, **changes: object) -> Run:
    return replace(run, version=run.version + 1, **changes)


async def check_what_is_made_is_read_back(keepers: Keepers) -> None:
    made = await make(keepers, tasks=3)
    assert await keepers.runs.run(PROJECT, made.run_id) == made
    assert await keepers.runs.run(ProjectId("other"), made.run_id) is None
    tasks = await keepers.runs.tasks(made.run_id, limit=10)
    assert [task.spec.name for task in tasks] == ["t0", "t1", "t2"]
    assert bytes(tasks[0].spec.input) == b'{"a":1}'
    assert [task.number for task in await keepers.runs.tasks(made.run_id, after=0, limit=1)] == [1]


async def check_a_swap_is_from_the_version_before(keepers: Keepers) -> None:
    made = await make(keepers)
    moved = change_of(following(made, status=RunStatus.PLANNED))
    assert await keepers.runs.save(moved)
    other = change_of(following(made, status=RunStatus.KILLED))
    assert not await keepers.runs.save(other)
    found = await keepers.runs.run(PROJECT, made.run_id)
    assert found == moved.run
    entries = await keepers.ledger.entries(PROJECT, made.run_id, after=0, limit=10)
    assert [entry.seq for entry in entries] == [1, 2]
    assert found is not None
    assert entries[-1].tip == found.tip


async def check_a_driver_of_an_old_epoch_changes_nothing(keepers: Keepers) -> None:
    made = await make(keepers)
    assert await keepers.runs.drivers() == ({}, True)
    await keepers.runs.beat("one", Millis(NOW + 10))
    (mine,) = await keepers.runs.claim("one", limit=10)
    assert (mine.run_id, mine.driver, mine.epoch) == (made.run_id, "one", 1)
    assert await keepers.runs.claim("two", limit=10) == []
    assert await keepers.runs.drivers() == ({"one": NOW + 10}, False)
    await keepers.runs.beat("two", Millis(NOW + 100))
    await keepers.runs.bury("one", Millis(NOW + 10))
    assert await keepers.runs.drivers() == ({"two": NOW + 100}, True)
    (theirs,) = await keepers.runs.claim("two", limit=10)
    assert (theirs.driver, theirs.epoch) == ("two", 2)
    assert not await keepers.runs.save(change_of(following(mine), epoch=1))
    assert await keepers.runs.save(change_of(following(theirs), epoch=2))
    assert await keepers.runs.driven("one") == {}
    assert await keepers.runs.driven("two") == {made.run_id: (PROJECT, 2)}
    await keepers.runs.leave("two")
    assert await keepers.runs.drivers() == ({}, True)


async def check_a_driver_that_beats_meanwhile_is_not_buried(keepers: Keepers) -> None:
    await make(keepers)
    await keepers.runs.beat("one", Millis(NOW + 10))
    assert len(await keepers.runs.claim("one", limit=10)) == 1
    await keepers.runs.beat("one", Millis(NOW + 20))
    await keepers.runs.bury("one", Millis(NOW + 10))
    assert await keepers.runs.drivers() == ({"one": NOW + 20}, False)
    assert await keepers.runs.claim("two", limit=10) == []


async def check_what_rests_is_claimed_by_nobody(keepers: Keepers) -> None:
    made = await make(keepers)
    assert await keepers.runs.save(change_of(following(made, live=False)))
    await keepers.runs.beat("one", Millis(NOW + 10))
    assert await keepers.runs.claim("one", limit=10) == []
    assert await keepers.runs.drivers() == ({"one": NOW + 10}, False)


async def check_tasks_move_with_their_run(keepers: Keepers) -> None:
    made = await make(keepers, tasks=2)
    (first, second) = await keepers.runs.tasks(made.run_id, limit=10)
    turn_id = TurnId("turn_" + "1" * 24)
    running = replace(first, status=TaskStatus.RUNNING, attempt=1, turn_id=turn_id, agent_id=ANN, started_at_ms=NOW)
    assert not await keepers.runs.save(change_of(replace(made, version=9), tasks=(running,)))
    assert (await keepers.runs.tasks(made.run_id, limit=1))[0] == first
    moved = following(made)
    assert await keepers.runs.save(change_of(moved, tasks=(running,)))
    assert await keepers.runs.tasks(made.run_id, status=TaskStatus.RUNNING, limit=10) == [running]
    assert await keepers.runs.marked(made.run_id) == [(ANN, turn_id)]
    done = replace(running, status=TaskStatus.SUCCEEDED, result=Json('{"ok":1}'), ended_at_ms=NOW)
    stored = await keepers.runs.run(PROJECT, made.run_id)
    assert stored is not None
    assert await keepers.runs.save(change_of(following(stored), tasks=(done,)))
    assert await keepers.runs.task(made.run_id, "t0") == done
    assert await keepers.runs.marked(made.run_id) == []
    assert await keepers.runs.task(made.run_id, "nobody") is None
    assert await keepers.runs.results(made.run_id, [0, 1]) == {0: '{"ok":1}'}
    assert await keepers.runs.task(made.run_id, "t1") == second


async def check_a_request_makes_one_run(keepers: Keepers) -> None:
    first = await keepers.runs.create(change_of(run_of(1)), request_key="k")
    second = await keepers.runs.create(change_of(run_of(2)), request_key="k")
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert second.run_id == first.run_id
    elsewhere = await keepers.runs.create(change_of(run_of(3, ProjectId("other"))), request_key="k")
    assert isinstance(elsewhere, Run)
    assert elsewhere.run_id == run_of(3).run_id


async def check_runs_are_listed_newest_first(keepers: Keepers) -> None:
    for number in range(1, 5):
        await make(keepers, number)
    await keepers.runs.create(change_of(run_of(9, ProjectId("other"))), request_key=None)
    page = await keepers.runs.runs(PROJECT, status=None, before=None, limit=3)
    assert [run.run_id for run in page] == [run_of(number).run_id for number in (4, 3, 2)]
    rest = await keepers.runs.runs(PROJECT, status=None, before=page[-1].run_id, limit=3)
    assert [run.run_id for run in rest] == [run_of(1).run_id]
    assert await keepers.runs.runs(PROJECT, status=RunStatus.PAUSED, before=None, limit=3) == []
    assert len(await keepers.runs.alive(None, after=None, limit=10)) == 5
    assert [run.run_id for run in await keepers.runs.alive(ProjectId("other"), after=None, limit=10)] == [
        run_of(9).run_id
    ]


async def check_a_red_button_lets_no_run_begin(keepers: Keepers) -> None:
    other = RedButton("other", "bob", "smoke", NOW)
    assert await keepers.runs.press(other) == other
    assert isinstance(await keepers.runs.create(change_of(run_of(1)), request_key=None), Run)
    held = await keepers.runs.create(change_of(run_of(2, ProjectId("other"))), request_key=None)
    assert held == other
    everywhere = RedButton("", "kim", "fire", NOW)
    await keepers.runs.press(everywhere)
    assert await keepers.runs.create(change_of(run_of(3)), request_key=None) == everywhere
    assert await keepers.runs.press(RedButton("", "eve", "again", NOW)) == everywhere
    assert await keepers.runs.buttons() == [everywhere, other]
    assert await keepers.runs.lift("") == everywhere
    assert await keepers.runs.lift("") is None
    assert isinstance(await keepers.runs.create(change_of(run_of(3)), request_key=None), Run)


def turn_of(number: int, run: Run, parent: TurnId | None = None) -> Turn:
    return Turn(
        turn_id=TurnId(f"turn_{number:024x}"),
        project=PROJECT,
        agent_id=ANN,
        seq=number,
        type=MessageType.TURN,
        payload=Json("{}"),
        correlation_id=None,
        source=None,
        parent_turn_id=parent,
        parent_step_id=None,
        reply_call_id=None,
        trace_id=TraceId("a" * 32),
        depth=0,
        run_id=run.run_id,
        context_box_id=None,
        output_box_id=None,
        result_fields=None,
        previous_turn_id=None,
        created_at_ms=NOW,
    )


async def enqueue(keepers: Keepers, turn: Turn) -> Saved:
    assert turn.run_id is not None
    runs = {turn.run_id: turn.parent_turn_id is None}
    return await keepers.turns.save(Writes(turns={turn.turn_id: turn}, runs=runs))


async def check_a_gate_holds_from_its_commit_on(keepers: Keepers) -> None:
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): Head.new(PROJECT, ANN, NOW)}))
    made = await make(keepers, gate=GateState.OPEN)
    first = turn_of(1, made)
    assert (await enqueue(keepers, first)).ok
    assert await keepers.runs.open_turns(PROJECT, made.run_id, limit=10) == [(ANN, first.turn_id)]
    assert await keepers.runs.ended(made.run_id) is None
    await already_there(keepers, first)
    paused = change_of(following(made, status=RunStatus.PAUSED, forced=True), gate=GateState.HOLDING)
    assert await keepers.runs.save(paused)
    assert await keepers.runs.held() == [made.run_id]
    assert (await enqueue(keepers, turn_of(2, made))).refused == ((made.run_id, False),)
    assert (await enqueue(keepers, turn_of(3, made, first.turn_id))).ok
    assert (await enqueue(keepers, turn_of(7, made, turn_of(3, made).turn_id))).ok
    below = [(ANN, turn_of(number, made).turn_id) for number in (3, 7)]
    assert await keepers.runs.open_below(PROJECT, first.turn_id, limit=10) == below
    assert await keepers.runs.open_below(PROJECT, first.turn_id, after=below[0][1], limit=10) == below[1:]
    assert await keepers.runs.open_below(ProjectId("other"), first.turn_id, limit=10) == []
    killed = change_of(following(paused.run, status=RunStatus.KILLED), gate=GateState.CLOSED)
    assert await keepers.runs.save(killed)
    assert await keepers.runs.ended(made.run_id) is RunStatus.KILLED
    assert (await enqueue(keepers, turn_of(4, made))).refused == ((made.run_id, True),)
    assert (await enqueue(keepers, turn_of(5, made, first.turn_id))).refused == ((made.run_id, True),)
    head = replace(Head.new(PROJECT, ANN, NOW), version=1, tail_seq=9)
    moved = Writes(heads={(PROJECT, ANN): (0, head)}, runs={made.run_id: False})
    assert (await keepers.turns.save(moved)).refused == ((made.run_id, True),)
    found = await keepers.turns.head(PROJECT, ANN)
    assert found is not None
    assert found.head.version == 0, "a save that would begin a turn of a run that is over moves no head"
    assert [turn_id for _, turn_id in await keepers.runs.open_turns(PROJECT, made.run_id, limit=10)] == [
        first.turn_id,
        *(turn_id for _, turn_id in below),
    ]
    assert (await enqueue(keepers, turn_of(6, run_of(77)))).ok  # a run that nobody knows holds nobody


async def check_the_open_turns_of_a_run_are_those_of_its_project_page_by_page(keepers: Keepers) -> None:
    made, other = await make(keepers, gate=GateState.OPEN), ProjectId("other")
    turns = [turn_of(number, made) for number in range(1, 6)]
    for turn in (*turns, replace(turn_of(9, made), project=other)):
        assert (await enqueue(keepers, turn)).ok
    found: list[TurnId] = []
    while page := await keepers.runs.open_turns(PROJECT, made.run_id, after=found[-1] if found else None, limit=2):
        assert len(page) <= 2
        assert page[0][1] not in found
        found += [turn_id for _, turn_id in page]
    assert found == [turn.turn_id for turn in turns], "what another project says is of a run is none of it"


def wait_of(turn: Turn, at_ms: int) -> Wait:
    return Wait(
        turn_id=turn.turn_id,
        call_id=ToolCallId(f"call_{at_ms}"),
        project=PROJECT,
        agent_id=turn.agent_id,
        tool="search",
        status=WaitStatus.PENDING,
        after_execution=AfterExecution.SUSPEND,
        step_id=None,
        call_card_id=None,
        result_card_id=None,
        created_at_ms=Millis(at_ms),
        deadline_ms=FAR,
        answered_at_ms=None,
    )


async def check_a_turn_is_under_way_since_somebody_took_it(keepers: Keepers) -> None:
    made = await make(keepers, gate=GateState.OPEN)
    first, second = turn_of(1, made), turn_of(2, made)
    both = [(ANN, first.turn_id), (ANN, second.turn_id)]
    idle = Head.new(PROJECT, ANN, NOW)
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): idle}))
    assert (await enqueue(keepers, first)).ok
    assert (await enqueue(keepers, second)).ok
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {}

    async def move(status: HeadStatus, since: int, *waits: Wait) -> None:
        nonlocal idle
        version, worker = idle.version, WorkerId("wrk_1") if status is HeadStatus.RUNNING else None
        idle = replace(
            idle,
            version=version + 1,
            status=status,
            turn_id=first.turn_id,
            worker_id=worker,
            since_ms=Millis(since),
            tail_seq=2,
        )
        new_waits = {(wait.turn_id, str(wait.call_id)): wait for wait in waits}
        assert (await keepers.turns.save(Writes(heads={(PROJECT, ANN): (version, idle)}, new_waits=new_waits))).ok

    waiting = {turn_id for _, turn_id in both}
    assert await keepers.runs.in_line(PROJECT, both) == waiting
    await move(HeadStatus.DISPATCHED, NOW + 1)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {}, "nobody has come for it yet"
    assert await keepers.runs.in_line(PROJECT, both) == waiting
    await move(HeadStatus.RUNNING, NOW + 2)
    assert await keepers.runs.in_line(PROJECT, both) == {second.turn_id}
    assert await keepers.runs.in_line(PROJECT, []) == set()
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 2}
    assert await keepers.runs.working(ProjectId("other"), both, after=NOW) == {}
    assert await keepers.runs.working(PROJECT, both[1:], after=NOW) == {}
    await move(HeadStatus.SUSPENDED, NOW + 3, wait_of(first, NOW + 3))
    await move(HeadStatus.RUNNING, NOW + 5)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 3}, "it only waited meanwhile"
    assert await keepers.runs.working(PROJECT, both, after=Millis(NOW + 4)) == {first.turn_id: NOW + 5}
    await move(HeadStatus.DISPATCHED, NOW + 6)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 3}
    assert await keepers.runs.working(PROJECT, both, after=Millis(NOW + 4)) == {}


async def check_turns_of_one_attempt_are_told_from_others(keepers: Keepers) -> None:
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): Head.new(PROJECT, ANN, NOW)}))
    made = await make(keepers)
    names = [f"{made.run_id}/1/1/7", f"{made.run_id}/1/2/7", f"{made.run_id}/1/2/7", "other", "other", None, None]
    for number, name in enumerate(names, start=1):
        assert (await enqueue(keepers, replace(turn_of(number, made), correlation_id=name))).ok
    child = replace(turn_of(8, made, turn_of(1, made).turn_id), correlation_id=names[0])
    assert (await enqueue(keepers, child)).ok
    repeated = [turn_of(2, made).turn_id, turn_of(3, made).turn_id]
    assert await keepers.runs.repeated_turns(made.run_id) == {names[1]: repeated}
    assert await keepers.runs.lost_ledgers() == []


async def already_there(keepers: Keepers, turn: Turn) -> None:
    try:
        await enqueue(keepers, turn)
    except TurnExists:
        return
    raise AssertionError(f"{turn.turn_id} was made twice")


CHECKS: Final[tuple[Check, ...]] = (
    check_what_is_made_is_read_back,
    check_a_swap_is_from_the_version_before,
    check_a_driver_of_an_old_epoch_changes_nothing,
    check_a_driver_that_beats_meanwhile_is_not_buried,
    check_what_rests_is_claimed_by_nobody,
    check_tasks_move_with_their_run,
    check_a_request_makes_one_run,
    check_runs_are_listed_newest_first,
    check_a_red_button_lets_no_run_begin,
    check_a_gate_holds_from_its_commit_on,
    check_the_open_turns_of_a_run_are_those_of_its_project_page_by_page,
    check_a_turn_is_under_way_since_somebody_took_it,
    check_turns_of_one_attempt_are_told_from_others,
)
