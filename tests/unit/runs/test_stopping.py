"""Bringing a run to rest reaches every turn of it, however many there are, and no other."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from homeostat.app import stores
from homeostat.core.codec import Json
from homeostat.core.errors import Overloaded, TurnUnknown
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId, RunId, TurnId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.run import Run
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Outcome
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel
from homeostat.runs import stopping
from homeostat.runs.desk import Desk
from homeostat.testing.kernels import running_kernel

RUN_ID = RunId("run_" + "0" * 24)
RUN = cast(
    "Run",
    SimpleNamespace(project=DEFAULT_PROJECT, run_id=RUN_ID, status="killed", moved=SimpleNamespace(reason="enough")),
)
PAGE = 4
NAMES = [AgentId(f"a{number}") for number in range(2 * PAGE + 1)]


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """Pages are short here, so that few turns are many."""
    monkeypatch.setattr(stopping, "PAGE_MAX", PAGE)
    engine = await stores.open_engine(f"sqlite://{tmp_path / 'turns.db'}")
    async with running_kernel(stores.turn_store(engine)) as kernel:
        yield cast("Desk", SimpleNamespace(kernel=kernel, store=stores.run_store(engine)))
    await engine.close()


async def begin(kernel: Kernel, project: ProjectId = DEFAULT_PROJECT) -> list[TurnId]:
    """A turn of the run for every agent, one more in line of each, and all but those worked on."""
    keys, begun = [(project, name) for name in NAMES], list[TurnId]()
    for key in keys:
        await kernel.register(key)
        for _ in range(2):
            message = Enqueue(key=key, type=MessageType.TURN, payload=Json("1"), run_id=RUN_ID)
            begun.append((await kernel.enqueue(message)).turn_id)
    worker = await kernel.open_worker(keys, lambda _: None)
    taken = 0
    while taken < len(keys):
        taken += len(await kernel.claim(worker, 64, 10))
    return begun


async def statuses(kernel: Kernel) -> set[HeadStatus]:
    return {view.head.status for view in await kernel.store.heads(DEFAULT_PROJECT, after=None, limit=100)}


async def test_a_run_that_is_paused_by_force_is_worked_on_by_nobody_however_many_turns_it_has(desk: Desk) -> None:
    begun = await begin(desk.kernel)
    desk.kernel.hold_run(RUN_ID)
    assert await stopping.preempt_turns(desk, RUN) == len(NAMES)
    assert await statuses(desk.kernel) == {HeadStatus.IDLE}
    await stopping.settle_hold(desk, DEFAULT_PROJECT, RUN_ID, held=False)
    await desk.kernel.flusher.tick()
    for name in NAMES:
        await desk.kernel.enqueue(Enqueue(key=(DEFAULT_PROJECT, name), type=MessageType.TURN, payload=Json("1")))
    assert await statuses(desk.kernel) == {HeadStatus.DISPATCHED}, "each goes on"
    assert len(await desk.store.open_turns(DEFAULT_PROJECT, RUN_ID, limit=100)) == len(begun)


async def test_a_kill_reaches_the_turns_of_a_run_behind_those_that_others_say_are_of_it(desk: Desk) -> None:
    other = ProjectId("other")
    foreign = await begin(desk.kernel, other)
    begun = await begin(desk.kernel)
    assert await stopping.stop_turns(desk, RUN) == len(begun)
    ends = await desk.kernel.store.deliverables(DEFAULT_PROJECT, begun)
    assert [end.status for end in ends.values()] == [Outcome.STOP] * len(begun)
    assert not await desk.kernel.store.deliverables(other, foreign)


async def test_a_turn_that_is_not_there_or_cannot_be_stopped_fails_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await begin(desk.kernel)
    gone, busy, stop = begun[0], begun[1], desk.kernel.stop

    async def stops(project: ProjectId, turn_id: TurnId, *, reason: str, actor: str) -> object:
        if turn_id == gone:
            raise TurnUnknown(turn_id=turn_id)
        if turn_id == busy and not again:
            raise Overloaded(problem="too many")
        return await stop(project, turn_id, reason=reason, actor=actor)

    again = False
    monkeypatch.setattr(desk.kernel, "stop", stops)
    with pytest.raises(Overloaded):
        await stopping.stop_turns(desk, RUN)
    assert len(await desk.kernel.store.deliverables(DEFAULT_PROJECT, begun)) == len(begun) - 2
    again = True
    assert await stopping.stop_turns(desk, RUN) == 1, "it is tried again, and what is not there is no reason to"
