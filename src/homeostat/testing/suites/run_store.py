"""What every keeper of runs promises."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, TraceId, TurnId
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
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
    fleet: RegistryStore


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


async def check_what_runs_have_in_hand_is_told_however_old_it_is(keepers: Keepers) -> None:
    places = {1: [0, 1, 40, 299], 2: [299], 3: [], 4: [0]}
    expected: dict[RunId, list[tuple[AgentId, TurnId]]] = {}
    counts: dict[RunId, int] = {}
    for number, marked in places.items():
        made = await make(keepers, number, tasks=300)
        began = [begun(number, place, AgentId(f"a{place:03}")) for place in range(300)]
        over = [replace(task, status=TaskStatus.SUCCEEDED, ended_at_ms=NOW) for task in began]
        moved = [began[place] if place in marked else over[place] for place in range(300)]
        assert await keepers.runs.save(change_of(following(made), tasks=tuple(moved)))
        expected[made.run_id] = [(AgentId(f"a{place:03}"), turn_at(number, place)) for place in marked]
        counts[made.run_id] = len(marked)
    untouched = await make(keepers, 5, tasks=3)
    found = await keepers.runs.in_hand({**counts, untouched.run_id: 0})
    assert {run_id: sorted(found.get(run_id, ())) for run_id in expected} == expected
    assert not found.get(untouched.run_id)
    only = run_of(2).run_id
    assert await keepers.runs.in_hand({only: 1}) == {only: expected[only]}
    assert await keepers.runs.in_hand({}) == {}


def turn_at(run: int, place: int) -> TurnId:
    return TurnId(f"turn_{run:012x}{place:012x}")


def begun(run: int, place: int, agent: AgentId) -> Task:
    turn = turn_at(run, place)
    return replace(
        task_of(place), status=TaskStatus.RUNNING, attempt=1, turn_id=turn, agent_id=agent, started_at_ms=NOW
    )


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


CHECKS: Final[tuple[Check, ...]] = (
    check_what_is_made_is_read_back,
    check_a_swap_is_from_the_version_before,
    check_a_driver_of_an_old_epoch_changes_nothing,
    check_a_driver_that_beats_meanwhile_is_not_buried,
    check_what_rests_is_claimed_by_nobody,
    check_tasks_move_with_their_run,
    check_what_runs_have_in_hand_is_told_however_old_it_is,
    check_a_request_makes_one_run,
    check_runs_are_listed_newest_first,
    check_a_red_button_lets_no_run_begin,
)
