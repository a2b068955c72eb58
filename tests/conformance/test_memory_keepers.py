"""One suite for every keeper of agents' memory."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresMemory
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteMemory
from homeostat.agent.memory import VolatileMemory
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.ports.memory import MemoryKeeper

ONE = (ProjectId("default"), AgentId("one"))
TWO = (ProjectId("default"), AgentId("two"))
ELSEWHERE = (ProjectId("other"), AgentId("one"))
NOW = Millis(1)


@pytest.fixture(params=["volatile", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def keeper(kind: str, tmp_path: Path) -> AsyncGenerator[MemoryKeeper]:
    if kind == "volatile":
        yield VolatileMemory()
        return
    if kind != "sqlite":
        postgres = PostgresEngine(kind)
        await postgres.open()
        yield PostgresMemory(postgres)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "memory.db")
    await engine.open()
    yield SqliteMemory(engine)
    await engine.close()


async def test_nobody_remembers_nothing(keeper: MemoryKeeper) -> None:
    assert await keeper.recall(ONE) == {}


async def test_what_was_kept_is_recalled_by_its_agent_alone(keeper: MemoryKeeper) -> None:
    await keeper.keep(ONE, {"history": Json('["a"]'), "x": Json("1")}, NOW)
    await keeper.keep(TWO, {"history": Json('["b"]')}, NOW)
    assert await keeper.recall(ONE) == {"history": '["a"]', "x": "1"}
    assert await keeper.recall(TWO) == {"history": '["b"]'}
    assert await keeper.recall(ELSEWHERE) == {}


async def test_the_last_writer_is_right_and_none_forgets(keeper: MemoryKeeper) -> None:
    await keeper.keep(ONE, {"a": Json("1"), "b": Json("1")}, NOW)
    await keeper.keep(ONE, {"a": Json("2"), "b": None, "never": None}, NOW)
    assert await keeper.recall(ONE) == {"a": "2"}


async def test_what_is_recalled_is_a_copy(keeper: MemoryKeeper) -> None:
    await keeper.keep(ONE, {"a": Json("1")}, NOW)
    (await keeper.recall(ONE))["a"] = Json("9")
    assert await keeper.recall(ONE) == {"a": "1"}


async def test_sqlite_keeps_all_changes_or_none_and_across_a_restart(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "memory.db")
    await engine.open()
    keeper = SqliteMemory(engine)
    await keeper.keep(ONE, {"a": Json("1")}, NOW)
    with pytest.raises(Exception, match="NOT NULL"):
        await keeper.keep(ONE, {"a": Json("2"), None: Json("3")}, NOW)  # pyright: ignore[reportArgumentType]
    await engine.close()
    with pytest.raises(StoreUnavailable):
        await keeper.recall(ONE)
    again = SqliteEngine(tmp_path / "memory.db")
    await again.open()
    assert await SqliteMemory(again).recall(ONE) == {"a": "1"}
    await again.close()
