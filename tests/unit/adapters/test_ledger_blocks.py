"""Ledgers that were written an entry a row are read as before, to the byte."""

import sqlite3
from pathlib import Path

import asyncpg

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresLedger
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteLedger
from homeostat.adapters.stores.statements import migrations
from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.records.provenance import Chain, EntryKind

BLOCKS = 22
"""The migration that gathers entries in rows."""


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


async def is_read_as_before(ledger: LedgerStore, chain: Chain) -> None:
    assert await ledger.entries(chain.project, chain.run_id, after=0, limit=100) == chain.entries
    blocks = await ledger.blocks(chain.project, chain.run_id, after=0, limit=100)
    assert [block.text for block in blocks] == chain.lines


async def test_old_entries_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    for number, name, text in migrations("sqlite"):
        if number < BLOCKS:
            connection.executescript(text)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", (number, name))
    for chain in chains():
        connection.executemany("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", old_rows(chain))
    connection.commit()
    connection.close()
    engine = SqliteEngine(path)
    await engine.open()
    for chain in chains():
        await is_read_as_before(SqliteLedger(engine), chain)
    await engine.close()


async def test_old_entries_on_postgres(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL)")
    for number, name, text in migrations("postgres"):
        if number < BLOCKS:
            await connection.execute(text)
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, $2)", number, name)
    for chain in chains():
        await connection.executemany("INSERT INTO ledger VALUES ($1, $2, $3, $4, $5, $6, $7)", old_rows(chain))
    await connection.close()
    engine = PostgresEngine(postgres_url)
    await engine.open()
    for chain in chains():
        await is_read_as_before(PostgresLedger(engine), chain)
    await engine.close()
