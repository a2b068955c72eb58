"""Runs that were written when each entry and each task was a row are read as before, to the byte."""

import sqlite3
from pathlib import Path

import asyncpg
import msgspec
from msgspec.structs import replace

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresLedger, PostgresRuns
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteLedger, SqliteRuns
from homeostat.adapters.stores.statements import migrations
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId
from homeostat.core.machines.task import TaskStatus
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.runs import RunStore
from homeostat.core.records.provenance import Chain, EntryKind
from homeostat.core.records.run import Target, TargetKind, Task, TaskSpec

GATHERED = 22
"""The first of the migrations that gather entries and tasks in rows."""

RUN = RunId("run_0")
SPECS = [
    TaskSpec(name=f"t{number}", target=Target(TargetKind.AGENT, "ann"), input=msgspec.Raw(b'{\n "a": 1}'))
    for number in range(70)
]
RUNNING = Task(
    number=33,
    spec=SPECS[33],
    status=TaskStatus.RUNNING,
    attempt=2,
    turn_id=TurnId("turn_1"),
    agent_id=AgentId("ann"),
    not_before_ms=Millis(3),
    started_at_ms=Millis(4),
    ended_at_ms=Millis(5),
    approved_by="bob",
    error=Json("{}"),
)
TASKS = [RUNNING if number == RUNNING.number else Task(number, spec) for number, spec in enumerate(SPECS)]


def chains() -> list[Chain]:
    made = [Chain(ProjectId("default"), RunId(f"run_{number}")) for number in range(2)]
    for chain in made:
        for number in range(5):
            chain.add(EntryKind.STEP, {"n": number, "text": 'ü "quoted" \\ \U0001f600'}, at_ms=Millis(1_000 + number))
    return made


def old_rows(chain: Chain) -> list[tuple[object, ...]]:
    return [
        (entry.project, entry.run_id, entry.seq, entry.kind, entry.at_ms, entry.payload, entry.hash)
        for entry in chain.entries
    ]


def old_tasks() -> list[tuple[object, ...]]:
    return [
        (
            RUN, task.number, task.spec.name, task.status.value, task.attempt, task.turn_id, task.agent_id,
            task.not_before_ms, task.started_at_ms, task.ended_at_ms, task.approved_by, task.error,
            "7" if task.number == 3 else None, msgspec.json.encode(task.spec).decode(),
            '["a","b"]' if task.number == 4 else None,
        )
        for task in TASKS
    ]  # fmt: skip


async def are_read_as_before(runs: RunStore) -> None:
    expected = [replace(task, noted=("a", "b")) if task.number == 4 else task for task in TASKS]
    assert await runs.tasks(RUN, limit=100) == expected
    assert await runs.tasks(RUN, after=20, limit=30) == expected[21:51]
    assert await runs.tasks(RUN, status=TaskStatus.RUNNING, limit=10) == [RUNNING]
    assert await runs.task(RUN, "t69") == TASKS[69]
    assert await runs.results(RUN, [2, 3]) == {3: "7"}


async def is_read_as_before(ledger: LedgerStore, chain: Chain) -> None:
    assert await ledger.entries(chain.project, chain.run_id, after=0, limit=100) == chain.entries
    blocks = await ledger.blocks(chain.project, chain.run_id, after=0, limit=100)
    assert [block.text for block in blocks] == chain.lines


async def test_old_runs_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    for number, name, text in migrations("sqlite"):
        if number < GATHERED:
            connection.executescript(text)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", (number, name))
    for chain in chains():
        connection.executemany("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", old_rows(chain))
    connection.executemany(f"INSERT INTO run_tasks VALUES ({', '.join('?' * 15)})", old_tasks())
    connection.commit()
    connection.close()
    engine = SqliteEngine(path)
    await engine.open()
    for chain in chains():
        await is_read_as_before(SqliteLedger(engine), chain)
    await are_read_as_before(SqliteRuns(engine))
    await engine.close()


async def test_old_runs_on_postgres(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL)")
    for number, name, text in migrations("postgres"):
        if number < GATHERED:
            await connection.execute(text)
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2)", number, name)
    for chain in chains():
        await connection.executemany("INSERT INTO ledger VALUES ($1, $2, $3, $4, $5, $6, $7)", old_rows(chain))
    places = ", ".join(f"${place}" for place in range(1, 16))
    await connection.executemany(f"INSERT INTO run_tasks VALUES ({places})", old_tasks())
    await connection.close()
    engine = PostgresEngine(postgres_url)
    await engine.open()
    for chain in chains():
        await is_read_as_before(PostgresLedger(engine), chain)
    await are_read_as_before(PostgresRuns(engine))
    await engine.close()
