"""While an agent is treated, operators are heard: nobody waits for a remedy, and none is given twice."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.app.settings import Settings
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.immune.healer import TREATMENT_MS
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.clock import ManualClock


class SlowRemedy:
    """Takes until it is let through."""

    def __init__(self) -> None:
        self.given: list[RemedyAction] = []
        self.begun = asyncio.Event()
        self.through = asyncio.Event()

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        self.begun.set()
        await self.through.wait()
        return Applied.APPLIED, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


@pytest.fixture
async def remedy() -> SlowRemedy:
    return SlowRemedy()


@pytest.fixture
async def ward(remedy: SlowRemedy) -> AsyncGenerator[Clinic]:
    async with clinic(remedies=remedy) as one:
        await one.enrol("ann", "bob")
        await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
        yield one


async def healing(ward: Clinic, remedy: SlowRemedy) -> "asyncio.Task[object]":
    task = asyncio.create_task(ward.system.immune.heal(ward.key("ann"), reason="try it", actor="eve"))
    await remedy.begun.wait()
    return task


async def test_nobody_waits_for_anothers_treatment(ward: Clinic, remedy: SlowRemedy) -> None:
    treating = await healing(ward, remedy)
    async with asyncio.timeout(30):
        await ward.system.immune.kill(ward.key("bob"), reason="it mails customers", actor="eve")
        await ward.tick()
    assert (ward.phase("bob"), ward.phase("ann")) == (Phase.QUARANTINED, Phase.HEALING)
    assert len(remedy.given) == 1, "a tick treated it as well"
    remedy.through.set()
    await treating
    assert ward.phase("ann") is Phase.PROBATION
    (incident,) = await ward.incidents("ann")
    assert [one.action for one in incident.treatments] == remedy.given


async def test_who_is_killed_while_it_is_treated_stays_so_and_what_was_given_is_told(
    ward: Clinic, remedy: SlowRemedy
) -> None:
    treating = await healing(ward, remedy)
    async with asyncio.timeout(30):
        await ward.system.immune.kill(ward.key("ann"), reason="it mails customers", actor="eve")
    remedy.through.set()
    await treating
    await ward.tick()
    patient = await ward.system.immune.store.patient(ward.key("ann"))
    assert patient is not None
    assert (patient.phase, patient.killed) == (Phase.QUARANTINED, True)
    (incident,) = await ward.incidents("ann")
    assert [one.action for one in incident.treatments] == remedy.given
    assert len(remedy.given) == 1


async def test_what_a_process_that_died_had_begun_is_told_and_not_begun_again(
    remedy: SlowRemedy, tmp_path: Path
) -> None:
    """One word is carried out once: nobody knows whether the agent heard it, so the next one goes on, not back."""
    settings, clock = Settings(data_dir=tmp_path), ManualClock()
    async with clinic(remedies=remedy, settings=settings, clock=clock) as one:
        await one.enrol("ann")
        await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
        treating = await healing(one, remedy)
        treating.cancel()
        await asyncio.wait([treating])
    remedy.through.set()
    clock.advance(TREATMENT_MS / 1000 + 1)
    async with clinic(remedies=remedy, settings=settings, clock=clock) as other:
        await other.tick()
        (incident,) = await other.incidents("ann")
    first, second = remedy.given
    assert first != second
    assert [(one.action, one.applied) for one in incident.treatments] == [
        (first, Applied.FAILED),
        (second, Applied.APPLIED),
    ]
    assert "nobody knows" in incident.treatments[0].note
