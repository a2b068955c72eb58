"""One suite for every keeper of what the immune system knows; a wrong one is found out."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEnforcement, PostgresEngine, PostgresImmune
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine, SqliteImmune
from homeostat.core.clock import Millis
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.enforcement import Verb
from homeostat.core.records.immune import Chart
from homeostat.testing.suites import immune_store as suite
from homeostat.testing.suites.enforcement_store import hold


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def keeper(kind: str, tmp_path: Path) -> AsyncGenerator[ImmuneStore]:
    if kind not in {"memory", "sqlite"}:
        postgres = PostgresEngine(kind)
        await postgres.open()
        yield PostgresImmune(postgres)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "immune.db" if kind == "sqlite" else None)
    await engine.open()
    yield SqliteImmune(engine)
    await engine.close()


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keeper: ImmuneStore, check: suite.Check) -> None:
    await check(keeper)


async def test_what_is_wanted_of_a_patient_is_written_with_it_or_not_at_all(keeper: ImmuneStore) -> None:
    assert isinstance(keeper, SqliteImmune | PostgresImmune)
    engine = keeper._engine
    holds = SqliteEnforcement(engine) if isinstance(engine, SqliteEngine) else PostgresEnforcement(engine)
    wanted = hold()
    assert await keeper.save(Chart(patients=(suite.patient(),), holds=(wanted,)))
    assert await holds.holds() == [wanted]
    assert not await keeper.save(Chart(patients=(suite.patient(),), holds=(replace(wanted, verb=Verb.RELEASE),)))
    assert await holds.holds() == [wanted], "somebody else has moved it"


class Trusting(SqliteImmune):
    """Lets everybody decide."""

    async def hold(self, holder: str, now: Millis, until: Millis) -> bool:
        await super().hold(holder, now, until)
        return True


class Forgetful(SqliteImmune):
    """Learns nothing."""

    async def save(self, chart: Chart) -> bool:
        return await super().save(replace(chart, lessons=()))


@pytest.mark.parametrize("wrong", [Trusting, Forgetful])
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteImmune]) -> None:
    failed = 0
    for check in suite.CHECKS:
        engine = SqliteEngine(None)
        await engine.open()
        try:
            await check(wrong(engine))
        except AssertionError:
            failed += 1
        finally:
            await engine.close()
    assert failed
