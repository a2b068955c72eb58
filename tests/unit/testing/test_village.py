"""The simulated fleet of `homeostat up --demo`: what a newcomer finds there."""

import asyncio

from msgspec import Raw

from homeostat.core.ids import DEFAULT_PROJECT, RunId
from homeostat.core.records.run import PauseCause, RunConfig, Target, TargetKind, TaskSpec
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.village import ANSWER_SECONDS, OPERATOR, PUBLISH, Village

TASK = TaskSpec(name=PUBLISH, target=Target(TargetKind.AGENT, "ann"), input=Raw(b"null"), approval=True)


async def held(one: Clinic, goal: str) -> RunId:
    """A run that waits for somebody's word."""
    runs = one.system.runs
    made = await runs.control.create(DEFAULT_PROJECT, RunConfig(goal=goal, seed=1), [TASK], actor=OPERATOR)
    async with asyncio.timeout(30):
        while await cause(one, made.run_id) is not PauseCause.GATE:  # noqa: ASYNC110 - nobody tells this test
            await asyncio.sleep(0.01)
    return made.run_id


async def cause(one: Clinic, run_id: RunId) -> PauseCause | None:
    run = await one.system.runs.store.run(DEFAULT_PROJECT, run_id)
    assert run is not None
    return run.paused


async def test_somebody_is_always_asked() -> None:
    async with clinic() as one:
        await one.enrol("ann")
        village = Village(one.clock)
        first = await held(one, "one")
        one.clock.advance(ANSWER_SECONDS * 3)
        await village._let_runs_go_on(one.system)
        assert await cause(one, first) is PauseCause.GATE, "there is nothing else to say yes to"
        second = await held(one, "another")
        await village._let_runs_go_on(one.system)
        assert await cause(one, first) is not PauseCause.GATE
        assert await cause(one, second) is PauseCause.GATE
