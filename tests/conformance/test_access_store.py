"""One suite for every keeper of keys, logins and the audit log; a wrong one is found out."""

from dataclasses import replace

import pytest

from homeostat.adapters.stores.sqlite import SqliteAccess
from homeostat.app.stores import access_store
from homeostat.core.chain import FIRST
from homeostat.core.clock import Millis
from homeostat.core.ports.access import AccessKeeper
from homeostat.core.records.access import AuditEntry, Login, LoginKind
from homeostat.testing.suites import access_store as suite
from tests.conformance.engines import Engine, found_out


@pytest.fixture
def keeper(engine: Engine) -> AccessKeeper:
    return access_store(engine)


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keeper: AccessKeeper, check: suite.Check) -> None:
    await check(keeper)


class Generous(SqliteAccess):
    """Gives a ticket to everybody who asks."""

    async def take_login(self, kind: LoginKind, digest: str, now: Millis) -> Login | None:
        return await super().login(kind, digest, now)


class Unchained(SqliteAccess):
    """Writes acts down, each as if it were the first."""

    async def audit_from(self, after: int, limit: int) -> list[AuditEntry]:
        return [replace(entry, previous=FIRST) for entry in await super().audit_from(after, limit)]


@pytest.mark.parametrize("wrong", [Generous, Unchained])
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteAccess]) -> None:
    assert await found_out(suite.CHECKS, wrong)
