"""One suite for every keeper of what is wanted of agents; a wrong one is found out."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEnforcement, PostgresEngine
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.core.ports.immune import EnforcementStore
from homeostat.core.records.enforcement import Custody
from homeostat.core.records.turn import AgentKey
from homeostat.testing.suites import enforcement_store as suite


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def keeper(kind: str, tmp_path: Path) -> AsyncGenerator[EnforcementStore]:
    if kind not in {"memory", "sqlite"}:
        postgres = PostgresEngine(kind)
        await postgres.open()
        yield PostgresEnforcement(postgres)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "enforcement.db" if kind == "sqlite" else None)
    await engine.open()
    yield SqliteEnforcement(engine)
    await engine.close()


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keeper: EnforcementStore, check: suite.Check) -> None:
    await check(keeper)


class Clinging(SqliteEnforcement):
    """Lets nobody go."""

    async def drop_custody(self, key: AgentKey) -> None:
        del key


class Fickle(SqliteEnforcement):
    """Takes whichever secret it was told last."""

    async def signing_key(self, fresh: str) -> str:
        return fresh


class Careless(SqliteEnforcement):
    """Forgets who is in custody."""

    async def put_custody(self, custody: Custody) -> None:
        del custody


@pytest.mark.parametrize("wrong", [Clinging, Fickle, Careless])
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteEnforcement]) -> None:
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
