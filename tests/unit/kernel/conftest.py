"""The stores that kernels are tried on."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.app.stores import open_engine, turn_store
from homeostat.core.ports.store import TurnStore
from homeostat.testing.memory import MemoryTurns


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == "memory":
        return None
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite://{tmp_path}/turns.db"


@pytest.fixture
async def any_store(store_url: str | None) -> AsyncGenerator[TurnStore]:
    """Each kind of store in turn, empty."""
    if store_url is None:
        yield MemoryTurns()
        return
    engine = await open_engine(store_url)
    yield turn_store(engine)
    await engine.close()
