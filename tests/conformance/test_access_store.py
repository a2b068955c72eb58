"""One suite for every keeper of keys, logins and the audit log; a wrong one is found out."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresAccess, PostgresEngine
from homeostat.adapters.stores.sqlite import SqliteAccess, SqliteEngine
from homeostat.core.chain import FIRST
from homeostat.core.clock import Millis
from homeostat.core.ports.access import AccessKeeper
from homeostat.core.records.access import AuditEntry, Login, LoginKind
from homeostat.testing.suites import access_store as suite


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def keeper(kind: str, tmp_path: Path) -> AsyncGenerator[AccessKeeper]:
    if kind not in {"memory", "sqlite"}:
        postgres = PostgresEngine(kind)
        await postgres.open()
        yield PostgresAccess(postgres)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "access.db" if kind == "sqlite" else None)
    await engine.open()
    yield SqliteAccess(engine)
    await engine.close()


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
