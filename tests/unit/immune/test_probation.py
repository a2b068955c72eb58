"""Probation: so many fresh samples, each counted once, and nothing else ends it well."""

from pathlib import Path

from homeostat.app.settings import Settings
from homeostat.core.machines.phase import Phase
from homeostat.testing.clinic import DOCTRINE, Clinic, clinic

DAY_SECONDS = 24 * 3600.0


async def on_probation(ward: Clinic) -> None:
    """Ann, who was well, isolated, and let out untreated."""
    await ward.train("ann", samples=60)
    await ward.system.immune.quarantine(ward.key("ann"), reason="it is odd", actor="eve")
    await ward.tick()
    await ward.system.immune.release(ward.key("ann"), reason="it is not", actor="eve")
    assert ward.phase("ann") is Phase.PROBATION


async def test_it_takes_as_many_fresh_samples_as_the_doctrine_says_however_often_somebody_looks() -> None:
    async with clinic() as ward:
        await on_probation(ward)
        for _ in range(DOCTRINE.probation_ticks - 1):
            await ward.sample("ann")
            for _ in range(3):
                await ward.tick()
            assert ward.phase("ann") is Phase.PROBATION
        await ward.sample("ann")
        assert ward.phase("ann") is Phase.HEALTHY


async def test_time_alone_ends_nothing() -> None:
    async with clinic() as ward:
        await on_probation(ward)
        for _ in range(3):
            ward.clock.advance(DAY_SECONDS)
            await ward.tick()
        assert ward.phase("ann") is Phase.PROBATION


async def test_another_process_counts_nothing(tmp_path: Path) -> None:
    kept = Settings(data_dir=tmp_path)
    async with clinic(settings=kept) as ward, clinic(settings=kept, clock=ward.clock) as other:
        await on_probation(ward)
        for _ in range(DOCTRINE.probation_ticks - 1):
            await ward.sample("ann")
            await other.tick()
        assert ward.phase("ann") is Phase.PROBATION
        assert (await other.system.immune.patient(other.key("ann"))).phase is Phase.PROBATION
