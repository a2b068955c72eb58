"""One suite for every keeper of the gateway's rules, money and calls; a wrong one is found out."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresGateway
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.core.clock import Millis
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import Budget, GatewayId, Posted, Posting
from homeostat.core.records.call import Call
from homeostat.testing.suites import gateway_store as suite


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def keeper(kind: str, tmp_path: Path) -> AsyncGenerator[GatewayStore]:
    if kind not in {"memory", "sqlite"}:
        postgres = PostgresEngine(kind)
        await postgres.open()
        yield PostgresGateway(postgres)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "gateway.db" if kind == "sqlite" else None)
    await engine.open()
    yield SqliteGateway(engine)
    await engine.close()


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keeper: GatewayStore, check: suite.Check) -> None:
    await check(keeper)


class Forgetful(SqliteGateway):
    """Forgets which postings it has seen."""

    _number = 0

    async def post(self, posting: Posting) -> Posted:
        self._number += 1
        return await super().post(replace(posting, number=self._number))


class Generous(SqliteGateway):
    """Lets the dead keep what they held."""

    async def bury(self, now: Millis, *, latest: Millis, sparing: GatewayId, limit: int) -> list[Call]:
        await super().bury(now, latest=latest, sparing=sparing, limit=limit)
        return []


class Lenient(SqliteGateway):
    """Gives back what the dead held, as if they had left."""

    async def bury(self, now: Millis, *, latest: Millis, sparing: GatewayId, limit: int) -> list[Call]:
        for view in await self.gateways(Millis(0)):
            if view.gateway_id != sparing and view.expires_at_ms <= now:
                await self.leave(view.gateway_id)
        return await super().bury(now, latest=latest, sparing=sparing, limit=limit)


class Careless(SqliteGateway):
    """Begins an account anew when its bounds change."""

    async def put_budget(self, budget: Budget) -> Budget:
        await super().drop_budget(budget.key)
        return await super().put_budget(budget)


class Still(SqliteGateway):
    """Never says that anything changed."""

    async def version(self) -> int:
        return 1


class Hasty(SqliteGateway):
    """Draws room before it takes back what was not used."""

    async def post(self, posting: Posting) -> Posted:
        return await super().post(replace(posting, rate_returns=()))


@pytest.mark.parametrize("wrong", [Hasty, Forgetful, Generous, Lenient, Careless, Still])
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteGateway]) -> None:
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
