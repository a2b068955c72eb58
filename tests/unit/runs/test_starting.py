"""Turns of tasks are made together where they are one agent's, and one that cannot be made takes no other down."""

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import Overloaded, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, RunId, TraceId, TurnId
from homeostat.core.limits import ENQUEUED_TOGETHER_MAX
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import Move, Run, RunConfig, Target, TargetKind, Task, TaskSpec
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Deliverable
from homeostat.kernel.commands import Enqueue, EnqueueAll
from homeostat.kernel.kernel import Kernel
from homeostat.runs.board import Board
from homeostat.runs.desk import Desk
from homeostat.runs.starting import Starter
from homeostat.testing.crews import eventually
from homeostat.testing.workbench import Workbench

KEY = (DEFAULT_PROJECT, AgentId("a"))
RUN = Run(
    project=DEFAULT_PROJECT,
    run_id=RunId("run_" + "0" * 24),
    status=RunStatus.APPLYING,
    config=RunConfig(goal="g", seed=1),
    trace_id=TraceId("0" * 32),
    moved=Move("ann", "", Millis(0)),
    created_by="ann",
    created_at_ms=Millis(0),
)


def _tasks(count: int) -> list[Task]:
    target = Target(TargetKind.AGENT, "a")
    return [
        Task(
            number,
            TaskSpec(name=f"t{number}", target=target, input=msgspec.Raw(str(number).encode())),
            TaskStatus.RUNNING,
            1,
            TurnId(f"turn_{number:024x}"),
            KEY[1],
        )
        for number in range(count)
    ]


def _starter(kernel: Kernel, heard: list[int]) -> Starter:
    def ended(number: int, end: Deliverable | None) -> None:
        del end
        heard.append(number)

    return Starter(cast("Desk", SimpleNamespace(kernel=kernel, clock=kernel.clock)), ended=ended)


async def test_one_turn_that_exists_already_takes_no_other_down() -> None:
    async with Workbench() as bench:
        kernel = bench.kernel
        await kernel.register(KEY)
        tasks = _tasks(3)
        await kernel.enqueue(Enqueue(key=KEY, type=MessageType.TURN, payload=Json("0"), turn_id=tasks[1].turn_id))
        await _starter(kernel, []).start(RUN, tasks, Board(tasks))

        async def made() -> bool:
            return all([await kernel.store.turn(DEFAULT_PROJECT, cast("TurnId", task.turn_id)) for task in tasks])

        await eventually(made)
        view = await kernel.store.turn(DEFAULT_PROJECT, cast("TurnId", tasks[2].turn_id))
        assert view is not None
        assert view.turn.seq == len(tasks), "each was made once"


async def test_so_many_tasks_are_one_command_and_an_overloaded_kernel_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Workbench() as bench:
        kernel, asked, heard = bench.kernel, list[Enqueue | EnqueueAll](), list[int]()

        def ask(command: Enqueue | EnqueueAll, ending: object) -> None:
            del ending
            asked.append(command)
            raise Overloaded(problem="too many")

        monkeypatch.setattr(kernel.flusher, "ask", ask)
        tasks = _tasks(ENQUEUED_TOGETHER_MAX + 1)
        await _starter(kernel, heard).start(RUN, tasks, Board(tasks))
        together, alone = asked
        assert isinstance(together, EnqueueAll)
        assert [message.turn_id for message in together.messages] == [task.turn_id for task in tasks[:-1]]
        assert isinstance(alone, Enqueue)
        assert alone.turn_id == tasks[-1].turn_id

        async def looked_after() -> bool:
            return len(heard) == len(tasks)

        await eventually(looked_after)
        assert sorted(heard) == [task.number for task in tasks], "each is looked after, once"


async def test_a_turn_that_nobody_knows_of_is_made_though_the_store_is_away_when_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Workbench() as bench:
        kernel, heard = bench.kernel, list[int]()
        await kernel.register(KEY)
        (task,) = tasks = _tasks(1)
        starter = _starter(kernel, heard)

        def busy(*_: object) -> None:
            raise Overloaded(problem="too many")

        async def away(*_: object) -> None:
            raise StoreUnavailable(problem="it starts up")

        with monkeypatch.context() as patch:
            patch.setattr(kernel.flusher, "ask", busy)
            await starter.start(RUN, tasks, Board(tasks))
            patch.setattr(kernel.store, "turn", away)
            with pytest.raises(StoreUnavailable):
                await starter.outcome(RUN, task)

        async def made() -> bool:
            await starter.outcome(RUN, task)  # as it is once in a while
            return await kernel.store.turn(DEFAULT_PROJECT, cast("TurnId", task.turn_id)) is not None

        await eventually(made)
