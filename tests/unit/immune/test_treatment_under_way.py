"""While an agent is treated, operators are heard: nobody waits for a remedy, and none is given twice."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.app.settings import Settings
from homeostat.core.errors import StoreUnavailable
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, Chart, Diagnosis, Hypothesis, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.immune.treating import TREATMENT_MS
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.clock import ManualClock


class SlowRemedy:
    """Takes until it is let through."""

    def __init__(self, words: Applied = Applied.APPLIED) -> None:
        self.words = words
        self.given: list[RemedyAction] = []
        self.begun = asyncio.Event()
        self.through = asyncio.Event()

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        self.begun.set()
        await self.through.wait()
        return self.words, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


class LastRemedy(SlowRemedy):
    """The store goes away while the agent does as it is told."""

    def __init__(self, words: Applied = Applied.APPLIED) -> None:
        super().__init__(words)
        self.store_away = False

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        self.store_away = True
        return self.words, "given"


class UncertainRemedy(SlowRemedy):
    """May have done it: whoever gives it hears that it failed, or nothing."""

    def __init__(self, *, heard: bool) -> None:
        super().__init__()
        self._heard = heard

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        if not self._heard:
            raise StoreUnavailable(problem="it is away")
        return Applied.FAILED, "it did not answer in time"


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


def goes_away(one: Clinic, remedy: LastRemedy, monkeypatch: pytest.MonkeyPatch, *, stores: bool) -> None:
    """Its store takes nothing while it is away, or takes it and does not say so."""
    store = one.system.immune.store
    save = store.save

    async def unanswered(chart: Chart) -> bool:
        if remedy.store_away and not stores:
            raise StoreUnavailable(problem="it is away")
        saved = await save(chart)
        if remedy.store_away:
            raise StoreUnavailable(problem="the connection is gone")
        return saved

    monkeypatch.setattr(store, "save", unanswered)


async def untold(one: Clinic, remedy: LastRemedy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann is isolated and given the remedy, of which the store is told nothing yet."""
    await one.enrol("ann")
    await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
    with monkeypatch.context() as patch:
        goes_away(one, remedy, patch, stores=False)
        with pytest.raises(StoreUnavailable):
            await one.system.immune.heal(one.key("ann"), reason="try it", actor="eve")


@pytest.mark.parametrize("stores", [False, True], ids=["nothing was stored", "only the answer was lost"])
async def test_what_was_given_while_the_store_went_away_is_told_when_it_is_back_and_nothing_else_is_given(
    monkeypatch: pytest.MonkeyPatch, *, stores: bool
) -> None:
    remedy = LastRemedy()
    async with clinic(remedies=remedy) as one:
        await one.enrol("ann")
        immune, ann = one.system.immune, one.key("ann")
        await immune.quarantine(ann, reason="it loops", actor="eve")
        with monkeypatch.context() as patch:
            goes_away(one, remedy, patch, stores=stores)
            with pytest.raises(StoreUnavailable):
                await immune.heal(ann, reason="try it", actor="eve")
            await immune.tick()
            one.clock.advance(TREATMENT_MS / 1000 + 1)
            await immune.tick()
            assert len(remedy.given) == 1, "it was treated again before anybody knew how it is"
        await one.tick()
        assert (one.phase("ann"), len(remedy.given)) == (Phase.PROBATION, 1)
        (incident,) = await one.incidents("ann")
        assert [(one.action, one.applied) for one in incident.treatments] == [(remedy.given[0], Applied.APPLIED)]


async def test_who_approved_where_nothing_is_decided_tells_late_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, clock, remedy = Settings(data_dir=tmp_path), ManualClock(), LastRemedy()
    async with (
        clinic(remedies=remedy, settings=settings, clock=clock) as one,
        clinic(remedies=remedy, settings=settings, clock=clock) as other,
    ):
        await one.enrol("ann")
        await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
        with monkeypatch.context() as patch:
            goes_away(other, remedy, patch, stores=False)
            with pytest.raises(StoreUnavailable):
                await other.system.immune.heal(one.key("ann"), reason="try it", actor="eve")
        await other.tick()
        assert not other.system.immune.leading
        clock.advance(TREATMENT_MS / 1000 + 1)
        await one.tick()
        (incident,) = await one.incidents("ann")
        assert [treatment.applied for treatment in incident.treatments] == [Applied.APPLIED]
        assert len(remedy.given) == 1


async def test_who_was_released_before_it_was_told_what_was_given_stays_so_and_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remedy = LastRemedy()
    async with clinic(remedies=remedy) as one:
        immune, ann = one.system.immune, one.key("ann")
        await untold(one, remedy, monkeypatch)
        await immune.kill(ann, reason="it mails customers", actor="eve")
        await one.tick()
        patient = await immune.store.patient(ann)
        assert patient is not None
        assert (patient.phase, patient.killed) == (Phase.QUARANTINED, True)
        (incident,) = await one.incidents("ann")
        assert [treatment.applied for treatment in incident.treatments] == [Applied.APPLIED]


@pytest.mark.parametrize("words", [Applied.APPLIED, Applied.FAILED])
async def test_who_was_killed_elsewhere_while_it_was_treated_is_told_what_was_given(
    tmp_path: Path, words: Applied
) -> None:
    settings, clock, remedy = Settings(data_dir=tmp_path), ManualClock(), SlowRemedy(words)
    async with (
        clinic(remedies=remedy, settings=settings, clock=clock) as one,
        clinic(remedies=remedy, settings=settings, clock=clock) as other,
    ):
        await one.enrol("ann")
        await one.system.immune.quarantine(one.key("ann"), reason="it loops", actor="eve")
        treating = await healing(one, remedy)
        await other.system.immune.kill(one.key("ann"), reason="it mails customers", actor="eve")
        remedy.through.set()
        await treating
        (incident,) = await one.incidents("ann")
        assert [(told.applied, told.note) for told in incident.treatments] == [(words, "given")]
        patient = await one.system.immune.store.patient(one.key("ann"))
        assert patient is not None
        assert (patient.phase, patient.killed) == (Phase.QUARANTINED, True)


async def test_who_was_forgotten_before_it_was_told_what_was_given_is_told_of_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remedy = LastRemedy()
    async with clinic(remedies=remedy) as one:
        immune, ann = one.system.immune, one.key("ann")
        await untold(one, remedy, monkeypatch)
        patient = await immune.store.patient(ann)
        assert patient is not None
        assert await immune.store.save(Chart(gone=(patient,)))
        for _ in range(2):
            await one.tick()
        assert (one.phase("ann"), len(remedy.given)) == (Phase.INITIALIZING, 1)


@pytest.mark.parametrize("heard", [False, True], ids=["nothing was heard", "it is said to have failed"])
async def test_what_may_have_been_done_is_not_done_again_for_another_diagnosis(
    monkeypatch: pytest.MonkeyPatch, *, heard: bool
) -> None:
    remedy = UncertainRemedy(heard=heard)
    likely = tuple(
        Hypothesis(diagnosis=one, confidence=0.5, because=())
        for one in (Diagnosis.PROMPT_DRIFT, Diagnosis.PROMPT_INJECTION)
    )
    async with clinic(remedies=remedy) as one:
        await one.enrol("ann")
        immune, ann = one.system.immune, one.key("ann")
        monkeypatch.setattr(immune.diagnostician, "diagnose", lambda *_, **__: likely)
        await immune.quarantine(ann, reason="it loops", actor="eve")
        if heard:
            await immune.heal(ann, reason="try it", actor="eve")
        else:
            with pytest.raises(StoreUnavailable):
                await immune.heal(ann, reason="try it", actor="eve")
        for _ in range(10):
            await one.tick()
        assert one.phase("ann") is Phase.EXHAUSTED
        assert sorted(remedy.given) == sorted(RemedyAction), "one was given twice, or left out"
