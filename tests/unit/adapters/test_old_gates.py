"""Runs that were paused by force before gates knew of that are held once the schema is up to date, and no others."""

import sqlite3
from pathlib import Path

import asyncpg
import msgspec
from msgspec.structs import replace

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresTurns
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.adapters.stores.statements import migrations
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.run import RunConfig, Start
from homeostat.core.records.writes import Writes
from homeostat.testing.suites.run_store import run_of

HELD = 34
"""The migration that holds them."""

RUNS = [
    replace(run_of(1), status=RunStatus.PAUSED, forced=True),
    replace(run_of(2), status=RunStatus.PAUSED, config=RunConfig(goal='say "forced":true', seed=1)),
    replace(run_of(3), status=RunStatus.APPLYING),
    replace(run_of(4), status=RunStatus.KILLED, forced=True),
]
GATES = ["holding", "holding", "open", "closed"]
COLUMNS = "run_id, project, version, status, live, epoch, ledger_next, ledger_hash, run"

Stored = tuple[str, str, int, str, bool, int, int, str, str]


def old_rows() -> list[Stored]:
    return [
        (run.run_id, run.project, 1, run.status.value, False, 0, 1, "", msgspec.json.encode(run).decode())
        for run in RUNS
    ]


async def are_held_as_they_stand(turns: SqliteTurns | PostgresTurns) -> None:
    assert await turns.runs_held() == {RUNS[0].run_id}
    for run, passes in zip(RUNS, (Start.CHILD, Start.TURN, Start.TASK, None), strict=True):
        for what in Start:
            saved = await turns.save(Writes(runs={run.run_id: what}))
            assert saved.ok is (passes is not None and what <= passes), run.status


async def test_old_gates_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    for number, name, text in migrations("sqlite"):
        if number < HELD:
            connection.executescript(text)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", (number, name))
    connection.executemany(f"INSERT INTO runs ({COLUMNS}) VALUES ({', '.join('?' * 9)})", old_rows())
    connection.executemany("INSERT INTO run_gates VALUES (?, ?)", zip([run.run_id for run in RUNS], GATES, strict=True))
    connection.commit()
    connection.close()
    engine = SqliteEngine(path)
    await engine.open()
    await are_held_as_they_stand(SqliteTurns(engine))
    await engine.close()


async def test_old_gates_on_postgres(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL)")
    for number, name, text in migrations("postgres"):
        if number < HELD:
            await connection.execute(text)
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2)", number, name)
    places = ", ".join(f"${place}" for place in range(1, 10))
    await connection.executemany(f"INSERT INTO runs ({COLUMNS}) VALUES ({places})", old_rows())
    gates = list(zip([run.run_id for run in RUNS], GATES, strict=True))
    await connection.executemany("INSERT INTO run_gates VALUES ($1, $2)", gates)
    await connection.close()
    engine = PostgresEngine(postgres_url)
    await engine.open()
    await are_held_as_they_stand(PostgresTurns(engine))
    await engine.close()
