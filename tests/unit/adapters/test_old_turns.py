"""Turns that were written when they lay by id alone are read as before."""

import sqlite3
from pathlib import Path

import asyncpg

from homeostat.adapters.stores import rows
from homeostat.adapters.stores.postgres import PostgresEngine, PostgresTurns
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.adapters.stores.statements import migrations
from homeostat.core.codec import Json
from homeostat.core.ids import BoxId, RunId
from homeostat.core.ports.store import TurnStore
from homeostat.testing.suites import turn_records as a

BY_PROJECT = 30
"""The migration that lays turns by project."""

OLD_COLUMNS = 19
"""So many there were before."""

FIRST = a.turn(1, run_id=RunId("run_1"), context_box_id=BoxId("box_1"), payload=Json('{"a":"ü"}'))
CHILD = a.turn(2, parent_turn_id=FIRST.turn_id, trace_id=FIRST.trace_id, depth=1)
THEIRS = a.turn(1, project=a.ELSEWHERE)


async def are_read_as_before(store: TurnStore) -> None:
    assert [view.turn for view in await store.recent(a.PROJECT, before=None, limit=9)] == [CHILD, FIRST]
    assert [view.turn for view in await store.recent(a.ELSEWHERE, before=None, limit=9)] == [THEIRS]
    traced = await store.edges(a.PROJECT, trace_id=FIRST.trace_id, turn_id=None, after=None, limit=9)
    assert {edge.turn_id for edge in traced} == {FIRST.turn_id, CHILD.turn_id}
    assert await store.edges(a.ELSEWHERE, trace_id=FIRST.trace_id, turn_id=None, after=None, limit=9) == []


async def test_old_turns_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    for number, name, text in migrations("sqlite"):
        if number < BY_PROJECT:
            connection.executescript(text)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", (number, name))
    values = [rows.write_turn(turn)[:OLD_COLUMNS] for turn in (FIRST, CHILD, THEIRS)]
    connection.executemany(f"INSERT INTO turns VALUES ({', '.join('?' * len(values[0]))})", values)
    connection.commit()
    connection.close()
    engine = SqliteEngine(path)
    await engine.open()
    await are_read_as_before(SqliteTurns(engine))
    await engine.close()


async def test_old_turns_on_postgres(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL)")
    for number, name, text in migrations("postgres"):
        if number < BY_PROJECT:
            await connection.execute(text)
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2)", number, name)
    values = [rows.write_turn(turn)[:OLD_COLUMNS] for turn in (FIRST, CHILD, THEIRS)]
    places = ", ".join(f"${place}" for place in range(1, len(values[0]) + 1))
    await connection.executemany(f"INSERT INTO turns VALUES ({places})", values)
    await connection.close()
    engine = PostgresEngine(postgres_url)
    await engine.open()
    await are_read_as_before(PostgresTurns(engine))
    await engine.close()
