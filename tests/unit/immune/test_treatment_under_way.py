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


async def test_who_read_an_agent_before_another_treated_it_gives_nothing_again(
    remedy: SlowRemedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a clock that jumped back, another's claim lies absurdly far ahead; what it has begun is told all the same."""
    settings, clock, wrong = Settings(data_dir=tmp_path), ManualClock(), ManualClock()
    wrong.jump(-24 * 3600)
    async with (
        clinic(remedies=remedy, settings=settings, clock=clock) as one,
        clinic(remedies=remedy, settings=settings, clock=wrong) as other,
    ):
        await one.enrol("ann")
        await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
        await other.system.immune.ward.reload(one.key("ann"))
        store = other.system.immune.ward.store
        read = type(store).vetoes_on

        async def late(self: object, key: AgentKey) -> object:
            """Between this process's look at the agent and its choice, the other has treated it."""
            if self is store and not remedy.given:
                await one.system.immune.ward.reload(key)
                treating.append(asyncio.create_task(one.tick()))
                await remedy.begun.wait()
                await other.system.immune.ward.reload(key)
            return await read(self, key)  # pyright: ignore[reportArgumentType] - it is one

        treating: list[asyncio.Task[None]] = []
        monkeypatch.setattr(type(store), "vetoes_on", late)
        async with asyncio.timeout(20):  # it would wait for its own remedy
            await other.system.immune.heal(one.key("ann"), reason="try it", actor="eve")
        remedy.through.set()
        await asyncio.gather(*treating)
        await other.tick()
        (incident,) = await one.incidents("ann")
    assert len(remedy.given) == len(set(remedy.given)), "something was given twice"
    assert [treatment.action for treatment in incident.treatments] == remedy.given
