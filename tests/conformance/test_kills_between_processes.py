"""A kill or a pause by force that is committed in one process holds in every other at once, whatever those remember.

The processes share a store and nothing else: no bus tells one what another did.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app import stores
from homeostat.core.clock import SystemClock
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, Ids
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.run import RunConfig, RunPolicy, Target, TargetKind, TaskSpec
from homeostat.core.records.turn import Grant, MessageType
from homeostat.core.records.view import Outcome
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel
from homeostat.kernel.watchdog import Watchdog
from homeostat.runs import control
from homeostat.runs.control import Act, RunKey
from homeostat.runs.desk import Desk
from homeostat.runs.runs import Runs
from homeostat.testing.crews import PROJECT, NoBank, Roster, crew, eventually

WHO = Act(actor="operator", reason="enough")
ANN = (PROJECT, AgentId("ann"))


@dataclass
class Hands:
    """One turn at a time, each until it may end."""

    begun: list[str] = field(default_factory=list[str])
    first: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, grant: Grant) -> tuple[Outcome, Json]:
        self.begun.append(str(grant.turn.payload))
        self.first.set()
        await self.may_end.wait()
        return Outcome.SUCCESS, grant.turn.payload


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite://{tmp_path / 'runs.db'}"


@asynccontextmanager
async def process(url: str, bus: LocalBus, *, drives: bool) -> AsyncGenerator[Runs]:
    """A kernel and runs with an engine of their own."""
    engine = await stores.open_engine(url)
    clock = SystemClock()
    ids = Ids(clock=clock)
    kernel = Kernel(store=stores.turn_store(engine), bus=bus, clock=clock, ids=ids)
    runs = Runs(
        store=stores.run_store(engine),
        kernel=kernel,
        bank=NoBank(),
        agents=Roster(["ann"]),
        bus=bus,
        clock=clock,
        ids=ids,
    )
    await kernel.listen()
    await runs.open()
    loops = [asyncio.ensure_future(run()) for _, run in (*kernel.loops, *(runs.loops if drives else ()))]
    try:
        yield runs
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await engine.close()


def kernel_of(runs: Runs) -> Kernel:
    return runs._desk.kernel


def specs(count: int) -> list[TaskSpec]:
    target = Target(TargetKind.AGENT, "ann")
    return [TaskSpec(name=f"t{n}", target=target, input=msgspec.Raw(b'{"do":%d}' % n)) for n in range(count)]


async def stops_nothing(desk: Desk, run: object) -> int:
    """The process that killed dies before it stops anything."""
    del desk, run
    return 0


async def begun(url: str, bus: LocalBus, tasks: int) -> RunKey:
    """A run whose turns are made; whoever drove it is gone."""
    config = RunConfig(goal="x", seed=1, policy=RunPolicy(parallel=8))
    async with process(url, bus, drives=True) as driving:
        await kernel_of(driving).register(ANN)
        made = await driving.control.create(PROJECT, config, specs(tasks), actor="test")

        async def in_line() -> bool:
            return len(await driving.store.open_turns(PROJECT, made.run_id, limit=10)) == tasks

        await eventually(in_line)
    return (PROJECT, made.run_id)


async def kill(url: str, key: RunKey) -> None:
    """Kill a run from a process that nobody hears."""
    async with process(url, LocalBus(), drives=False) as operator:
        assert (await operator.control.kill(key, who=WHO)).status is RunStatus.KILLED


async def pause(url: str, key: RunKey, *, forced: list[bool]) -> None:
    """Pause a run from a process that nobody hears, in as many words."""
    async with process(url, LocalBus(), drives=False) as operator:
        for force in forced:
            assert (await operator.control.pause(key, force=force, who=WHO)).forced is force


async def test_a_turn_in_line_does_not_begin_elsewhere_once_a_kill_is_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "stop_turns", stops_nothing)
    hands, bus = Hands(), LocalBus()
    async with process(url, bus, drives=False) as other, crew(kernel_of(other), "ann", work=hands.work):
        key = await begun(url, bus, 3)
        await hands.first.wait()
        await kill(url, key)
        await kernel_of(other).enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=Json('"after"')))
        hands.may_end.set()

        async def after() -> bool:
            return '"after"' in hands.begun

        await eventually(after)
        assert hands.begun == ['{"do":0}', '"after"'], "what stands behind a killed run's turns goes on, they do not"
    async with process(url, LocalBus(), drives=True) as last:

        async def rests() -> bool:
            last.driver.wake()
            return not (await last.get(*key)).live

        await eventually(rests)
        assert not await last.store.open_turns(*key, limit=10), "whoever drives it later stops them"
        assert (await last.get(*key)).counts == {"succeeded": 1, "stopped": 2}


async def test_a_turn_that_was_given_out_is_not_entered_once_a_kill_is_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "stop_turns", stops_nothing)
    bus = LocalBus()
    async with process(url, bus, drives=False) as other:
        key = await begun(url, bus, 1)
        await kill(url, key)
        worker_id = await kernel_of(other).open_worker([ANN], lambda _: None)
        assert await kernel_of(other).claim(worker_id, 1, 0.2) == []


@pytest.mark.parametrize("forced", [[True], [False, True]], ids=["at once", "after a while"])
async def test_no_turn_begins_anywhere_once_a_pause_by_force_is_committed(url: str, forced: list[bool]) -> None:
    hands, bus = Hands(), LocalBus()
    async with process(url, bus, drives=False) as other, crew(kernel_of(other), "ann", work=hands.work):
        kernel, key = kernel_of(other), await begun(url, bus, 3)
        await hands.first.wait()
        await pause(url, key, forced=forced)
        await kernel.watchdog.tick()  # it finds that the agent is idle, with mail
        await kernel.enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=Json('"behind"')))
        hands.may_end.set()

        async def all_of(*payloads: str) -> None:
            async def there() -> bool:
                return hands.begun[-len(payloads) :] == [*payloads]

            await eventually(there)

        await all_of('"behind"')
        await kernel.watchdog.tick()
        await kernel.enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=Json('"later"')))
        await all_of('"behind"', '"later"')
        assert hands.begun == ['{"do":0}', '"behind"', '"later"'], "what stands behind a held run's turns goes on"
        assert len(await other.store.open_turns(*key, limit=10)) == 3, "none of them is lost"
        async with process(url, bus, drives=True) as last:
            assert (await last.control.resume(key, bounds=None, who=WHO)).status is RunStatus.APPLYING
            await all_of('{"do":0}', '{"do":1}', '{"do":2}')

            async def completed() -> bool:
                return (await last.get(*key)).status is RunStatus.COMPLETED

            await eventually(completed)


async def test_a_turn_that_was_given_out_is_not_entered_once_a_pause_by_force_is_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "preempt_turns", stops_nothing)
    bus = LocalBus()
    async with process(url, bus, drives=False) as other:
        key = await begun(url, bus, 1)
        await pause(url, key, forced=[True])
        worker_id = await kernel_of(other).open_worker([ANN], lambda _: None)
        assert await kernel_of(other).claim(worker_id, 1, 0.2) == []


async def sees_nothing(watchdog: Watchdog) -> int:
    """What is given out is given out by somebody else."""
    del watchdog
    return 0


async def test_who_resumes_a_run_that_others_hold_gives_its_turns_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchdog, "tick", sees_nothing)
    key = await begun(url, LocalBus(), 2)
    await pause(url, key, forced=[True])
    async with process(url, LocalBus(), drives=False) as last:
        await last.control.resume(key, bounds=None, who=WHO)

        async def given_out() -> bool:
            found = await kernel_of(last).store.head(*ANN)
            return found is not None and found.head.status is HeadStatus.DISPATCHED

        await eventually(given_out, seconds=20)
