"""One suite for every keeper of the gateway's rules, money and calls; a wrong one is found out."""

from dataclasses import replace

import pytest

from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.app.stores import gateway_store
from homeostat.core.clock import Millis
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import Budget, GatewayId, Posted, Posting
from homeostat.core.records.call import Call
from homeostat.testing.suites import gateway_accounts as accounts
from homeostat.testing.suites import gateway_store as suite
from tests.conformance.engines import Engine, found_out


@pytest.fixture
def keeper(engine: Engine) -> GatewayStore:
    return gateway_store(engine)


@pytest.mark.parametrize("check", [*suite.CHECKS, *accounts.CHECKS], ids=lambda check: check.__name__)
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
    assert await found_out(suite.CHECKS, wrong)
