"""What the suites of keepers run on: every engine, open, migrated and empty."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.app.stores import open_engine
from tests.conformance.engines import Engine


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where things are kept; None is memory."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite://{tmp_path / 'kept.db'}" if request.param == "sqlite" else None


@pytest.fixture
async def engine(engine_url: str | None) -> AsyncGenerator[Engine]:
    opened = await open_engine(engine_url)
    yield opened
    await opened.close()
