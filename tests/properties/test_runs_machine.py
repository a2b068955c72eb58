"""Whatever is planned, whatever fails, whoever pauses, kills or dies: nothing runs twice, and the ledger tells it all.

Two processes share a store and a bus. Hypothesis draws a plan, how its tasks behave, and what happens meanwhile.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app import stores
from homeostat.core.clock import SystemClock
from homeostat.core.codec import Json
from homeostat.core.errors import Conflict
from homeostat.core.ids import Ids, RunId, TurnId
from homeostat.core.machines.run import RUN, RunEvent, RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.provenance import START, EntryKind, next_entry
from homeostat.core.records.run import OnFailure, Run, RunConfig, RunPolicy, Target, TargetKind, Task, TaskSpec
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.kernel.kernel import Kernel
from homeostat.runs import control
from homeostat.runs.control import Act, RunKey
from homeostat.runs.runs import Runs
from homeostat.testing.crews import PROJECT, Crew, NoBank, Roster, crew, eventually

AGENTS = ("ann", "bob", "kim")
LEASE_SECONDS = 0.5
WHO = Act(actor="operator", reason="drawn")


@dataclass(frozen=True)
class Drawn:
    """One task: whom it waits for, how often it fails, how long it takes."""

    after: frozenset[int]
    failures: int
    retries: int
    on_failure: OnFailure
    millis: int
    approval: bool


plans = st.lists(
    st.builds(
        Drawn,
        after=st.frozensets(st.integers(0, 7), max_size=2),
        failures=st.sampled_from([0, 0, 0, 1, 2]),
        retries=st.integers(0, 2),
        on_failure=st.sampled_from([OnFailure.FAIL, OnFailure.CONTINUE]),
        millis=st.integers(0, 30),
        approval=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=8,
)
happenings = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(["pause", "force", "resume", "resume", "approve", "kill", "kill and die", "crash"]),
    ),
    max_size=6,
)


def specs_of(drawn: list[Drawn]) -> list[TaskSpec]:
    """Tasks wait for earlier ones only, so there is no circle."""
    return [
        TaskSpec(
            name=f"t{number}",
            target=Target(TargetKind.TYPE, "any"),
            input=json_raw({"do": number}),
            after=tuple(f"t{other}" for other in sorted(one.after) if other < number),
            retries=one.retries,
            backoff_seconds=0.01,
            on_failure=one.on_failure,
            approval=one.approval,
        )
        for number, one in enumerate(drawn)
    ]


def json_raw(value: object) -> Any:
    import msgspec

    return msgspec.Raw(json.dumps(value).encode())


@dataclass
class Process:
    """One process: a kernel with workers, and runs it drives."""

    engine: Any
    kernel: Kernel
    runs: Runs
    crew: Crew


@dataclass
class World:
    """What the processes share."""

    url: str
    drawn: list[Drawn]
    bus: LocalBus = field(default_factory=LocalBus)
    failed: Counter[int] = field(default_factory=Counter[int])
    begun: set[TurnId] = field(default_factory=set[TurnId])
    processes: list[Process] = field(default_factory=list[Process])

    async def work(self, grant: Grant) -> tuple[Outcome, Json]:
        number = json.loads(grant.turn.payload)["do"]
        self.begun.add(grant.turn.turn_id)
        await asyncio.sleep(self.drawn[number].millis / 1000)
        if self.failed[number] < self.drawn[number].failures:
            self.failed[number] += 1
            return Outcome.FAILED, Json("null")
        return Outcome.SUCCESS, grant.turn.payload

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[Process]:
        """One that runs until the block ends; then it dies as if its power was cut."""
        engine = await stores.open_engine(self.url)
        clock = SystemClock()
        ids = Ids(clock=clock)
        kernel = Kernel(
            store=stores.turn_store(engine), bus=self.bus, clock=clock, ids=ids, lease_seconds=LEASE_SECONDS
        )
        runs = Runs(
            store=stores.run_store(engine),
            kernel=kernel,
            bank=NoBank(),
            agents=Roster(AGENTS),
            bus=self.bus,
            clock=clock,
            ids=ids,
            lease_seconds=LEASE_SECONDS,
        )
        for run_id in await runs.store.held():
            kernel.hold_run(run_id)
        await kernel.listen()
        await runs.open()
        loops = [asyncio.ensure_future(run()) for _, run in (*kernel.loops, *runs.loops)]
        async with crew(kernel, *AGENTS, work=self.work) as hands:
            try:
                yield Process(engine, kernel, runs, hands)
            finally:
                hands.dies = True
                runs.driver._beaten_at = None
                for loop in loops:
                    loop.cancel()
                await asyncio.gather(*loops, return_exceptions=True)
        await engine.close()


async def carry_out(url: str, drawn: list[Drawn], script: list[tuple[int, str]]) -> None:
    world = World(url, drawn)
    async with world.process() as steady:
        control = steady.runs.control
        config = RunConfig(goal="drawn", seed=1, policy=RunPolicy(parallel=2))
        made = await control.create(PROJECT, config, specs_of(drawn), actor="test")
        key = (PROJECT, made.run_id)
        frozen: Frozen | None = None
        dying = asyncio.get_running_loop().create_task(
            die_and_come_back(world, sum(act == "crash" for _, act in script))
        )
        for pause, act in script:
            await asyncio.sleep(pause / 1000)
            with suppress(Conflict):
                await do(steady.runs, key, act)
                if act.startswith("kill"):
                    frozen = await Frozen.now(steady, made)
        await dying
        await finish(steady.runs, key, drawn)
        await judge(steady, made.run_id, frozen)
        always_no_turn_starts_after_kill(world, frozen)


async def die_and_come_back(world: World, times: int) -> None:
    """Another process that takes its part and dies, again and again."""
    for _ in range(times):
        async with world.process() as other:
            other.runs.driver.wake()
            await asyncio.sleep(0.05)


async def do(runs: Runs, key: RunKey, act: str) -> None:
    match act:
        case "pause" | "force":
            await runs.control.pause(key, force=act == "force", who=WHO)
        case "resume":
            await runs.control.resume(key, bounds=None, who=WHO)
        case "kill":
            await runs.control.kill(key, who=WHO)
        case "kill and die":
            with patch.object(control, "stop_turns", stops_nothing):
                await runs.control.kill(key, who=WHO)
        case "approve":
            for task in await runs.store.tasks(key[1], status=TaskStatus.HELD, limit=10):
                await runs.control.answer(key, task.spec.name, approve=True, who=WHO)
        case _:
            pass


async def stops_nothing(*_: object) -> int:
    """Whoever killed dies before it stops anything."""
    return 0


@dataclass
class Frozen:
    """A run at the moment after its kill: the turns it had, and those that had begun."""

    turns: set[TurnId]
    begun: set[TurnId]

    @classmethod
    async def now(cls, process: Process, run: Run) -> "Frozen":
        turns = await turns_of(process, run)
        views = [await process.kernel.store.turn(PROJECT, turn_id) for turn_id in turns]
        return cls(
            turns, {view.turn.turn_id for view in views if view is not None and (view.starts or view.deliverable)}
        )


def always_no_turn_starts_after_kill(world: World, frozen: Frozen | None) -> None:
    assert frozen is None or world.begun <= frozen.begun, "a turn in line begins nowhere once a kill is committed"


async def finish(runs: Runs, key: RunKey, drawn: list[Drawn]) -> None:
    """Let the run come to its end, whoever it belongs to."""

    async def over() -> bool:
        run = await runs.get(*key)
        if run.final and not run.live:
            return True
        with suppress(Conflict):
            if any(one.approval for one in drawn):
                await do(runs, key, "approve")
            if run.status is RunStatus.PAUSED:
                await do(runs, key, "resume")
        runs.driver.wake()
        await asyncio.sleep(0.02)
        return False

    await eventually(over, 90)


async def turns_of(process: Process, run: Run) -> set[TurnId]:
    edges = await process.kernel.store.edges(PROJECT, trace_id=run.trace_id, turn_id=None, after=None, limit=500)
    return {edge.turn_id for edge in edges}


async def judge(process: Process, run_id: RunId, frozen: Frozen | None) -> None:
    run = await process.runs.get(PROJECT, run_id)
    tasks = await process.runs.store.tasks(run_id, limit=500)
    turns = await turns_of(process, run)
    if frozen is not None:
        assert run.status is RunStatus.KILLED
        assert turns == frozen.turns, "no turn is made once a kill is committed"
    await always_a_task_succeeds_once(process, turns, tasks)
    assert Counter(task.status.value for task in tasks) == Counter(run.counts)
    assert all(task.final for task in tasks)
    if run.status is RunStatus.COMPLETED:
        assert all(task.status is not TaskStatus.STOPPED for task in tasks)
    await finally_the_ledger_tells_it(process, run)


async def always_a_task_succeeds_once(process: Process, turns: set[TurnId], tasks: list[Task]) -> None:
    done: Counter[int] = Counter()
    for turn_id in turns:
        view = await process.kernel.store.turn(PROJECT, turn_id)
        assert view is not None
        assert view.deliverable is not None, "every turn of a run that is at rest has ended"
        if view.deliverable.succeeded:
            done[json.loads(view.turn.payload)["do"]] += 1
    for task in tasks:
        most = 1 if task.status in (TaskStatus.SUCCEEDED, TaskStatus.STOPPED) else 0
        assert done[task.number] <= most, f"{task.spec.name} ran {done[task.number]} times to completion"
        assert task.status is not TaskStatus.SUCCEEDED or done[task.number] == 1


async def finally_the_ledger_tells_it(process: Process, run: Run) -> None:
    entries = await stores.ledger_store(process.engine).entries(PROJECT, run.run_id, after=0, limit=1000)
    tip, status = START, RunStatus.PLANNING
    ended: Counter[int] = Counter()
    for entry in entries:
        said = json.loads(entry.payload)
        again = next_entry(
            tip, project=PROJECT, run_id=run.run_id, kind=EntryKind(entry.kind), at_ms=entry.at_ms, payload=said
        )
        assert again == entry, "an entry is chained to the one before"
        tip = entry.tip
        if entry.kind == EntryKind.RUN_MOVED:
            assert said["from"] == status
            status = RUN.next(status, RunEvent(said["event"]))
            assert said["to"] == status
        told = said.get("task", {}) if entry.kind == EntryKind.TURN_ENDED else said
        if entry.kind in (EntryKind.TASK_ENDED, EntryKind.TURN_ENDED) and told.get("status") in ENDS:
            ended[told["number"]] += 1
    assert tip == run.tip
    assert status is run.status
    assert all(count == 1 for count in ended.values()), "a task ends once"


ENDS = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STOPPED)

SETTINGS: Any = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], derandomize=True
)


@settings(SETTINGS, max_examples=20)
@given(drawn=plans, script=happenings)
def test_runs_on_sqlite(drawn: list[Drawn], script: list[tuple[int, str]]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(carry_out(f"sqlite://{Path(folder) / 'runs.db'}", drawn, script))


@pytest.fixture
def database(postgres_url: str) -> str:
    return postgres_url


@settings(SETTINGS, max_examples=10)
@given(drawn=plans, script=happenings)
def test_runs_on_postgres(database: str, drawn: list[Drawn], script: list[tuple[int, str]]) -> None:
    asyncio.run(carry_out(database, drawn, script))
