"""One suite for every keeper of what is wanted of agents; a wrong one is found out."""

import pytest

from homeostat.adapters.stores.sqlite import SqliteEnforcement
from homeostat.app.stores import enforcement_store
from homeostat.core.ports.immune import EnforcementStore
from homeostat.core.records.enforcement import Custody
from homeostat.core.records.turn import AgentKey
from homeostat.testing.suites import enforcement_store as suite
from tests.conformance.engines import Engine, found_out


@pytest.fixture
def keeper(engine: Engine) -> EnforcementStore:
    return enforcement_store(engine)


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
    assert await found_out(suite.CHECKS, wrong)
