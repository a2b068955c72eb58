"""One task an agent: the newest wish counts, and whoever waits hears of its end without a detour."""

import asyncio

import pytest

from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Patient
from homeostat.immune import lanes as module
from homeostat.immune.lanes import Lanes
from homeostat.testing.holding import ANN, patient

ILL, WELL = patient(Phase.QUARANTINED), patient(Phase.PROBATION)


class Slow:
    """Serves wishes when it is let, and notes them."""

    def __init__(self) -> None:
        self.served: list[tuple[Phase, bool]] = []
        self.gate = asyncio.Event()
        self.problem: Exception | None = None

    async def __call__(self, patient: Patient, local_only: bool) -> None:  # noqa: FBT001 - as lanes call it
        await self.gate.wait()
        self.served.append((patient.phase, local_only))
        if self.problem is not None:
            raise self.problem


async def test_the_newest_wish_is_served_next_and_as_widely_as_anybody_wanted() -> None:
    serve = Slow()
    lanes = Lanes(serve)
    first = lanes.enter(ILL, local_only=True)
    await asyncio.sleep(0)
    later = [lanes.enter(ILL, local_only=False), lanes.enter(WELL, local_only=True)]
    serve.gate.set()
    await asyncio.gather(first, *later)
    assert serve.served == [(Phase.QUARANTINED, True), (Phase.PROBATION, False)]
    assert ANN not in lanes


async def test_whoever_waits_hears_of_the_end_in_the_next_round() -> None:
    serve = Slow()
    lanes = Lanes(serve)
    waits = asyncio.create_task(lanes.bring(ILL))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    serve.gate.set()
    rounds = 0
    while not waits.done():
        await asyncio.sleep(0)
        rounds += 1
    assert rounds <= 2, "one in which it is served, and one in which that is heard"


async def test_what_went_wrong_is_told_to_all_who_wait() -> None:
    serve = Slow()
    serve.problem = OSError("no such engine")
    lanes = Lanes(serve)
    waits = [asyncio.create_task(lanes.bring(ILL)) for _ in range(2)]
    await asyncio.sleep(0)
    serve.gate.set()
    for told in await asyncio.gather(*waits, return_exceptions=True):
        assert told is serve.problem
    assert ANN not in lanes


async def test_what_takes_too_long_goes_on_without_whoever_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BRING_SECONDS", 0.01)
    serve = Slow()
    lanes = Lanes(serve)
    await lanes.bring(ILL)
    assert ANN in lanes
    serve.gate.set()
    await asyncio.wait_for(lanes.enter(WELL, local_only=False), 5)
    assert [phase for phase, _ in serve.served] == [Phase.QUARANTINED, Phase.PROBATION]


async def test_nobody_is_left_waiting_when_it_closes() -> None:
    lanes = Lanes(Slow())
    waits = [lanes.enter(ILL, local_only=False)]
    await asyncio.sleep(0)
    waits.append(lanes.enter(patient(Phase.QUARANTINED, (ANN[0], ANN[1] + "2")), local_only=False))  # pyright: ignore[reportArgumentType]
    await lanes.close()
    for told in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(told, asyncio.CancelledError)
