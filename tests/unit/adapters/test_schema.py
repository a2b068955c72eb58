"""What the migrations make is one schema on both engines, and its lists of words are those of the tables in core."""

import re
import sqlite3
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import asyncpg
import pytest

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.statements import migrations
from homeostat.core.machines.phase import PHASE
from homeostat.core.machines.run import RUN
from homeostat.core.machines.turn import HEAD
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import ApprovalStatus
from homeostat.core.records.run import GateState
from homeostat.core.records.turn import OPENS_A_TURN, AfterExecution, WaitStatus

WORDS: dict[tuple[str, str], Iterable[StrEnum]] = {
    ("heads", "status"): HEAD.states,
    ("heads", "gate"): Gate,
    ("patients", "phase"): PHASE.states,
    ("approvals", "status"): ApprovalStatus,
    ("runs", "status"): RUN.states,
    ("run_gates", "state"): GateState,
    ("turns", "type"): OPENS_A_TURN,
    ("waits", "status"): WaitStatus,
    ("waits", "after_execution"): AfterExecution,
}

# What PostgreSQL works out for itself so that its indexes need not change with every turn.
ONLY_POSTGRES = {("heads", "unclaimed_ms"), ("heads", "stranded")}

TYPES = {
    "text": "TEXT",
    "bigint": "INTEGER",
    "integer": "INTEGER",
    "smallint": "INTEGER",
    "boolean": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}

Columns = dict[tuple[str, str], tuple[str, bool, int]]
"""Type, whether it must be there, and its place in the primary key."""


async def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "schema.db"
    engine = SqliteEngine(path)
    assert await engine.open() == [f"{number:04d}_{name}" for number, name, _ in migrations("sqlite")]
    await engine.close()
    return path


def sqlite_columns(path: Path) -> Columns:
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        (table, row[1]): (row[2], bool(row[3]), row[5])
        for table in tables
        for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,))
    }
    connection.close()
    return found


async def postgres_columns(url: str) -> Columns:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        """
        SELECT c.relname, a.attname, format_type(a.atttypid, NULL), a.attnotnull,
            coalesce(array_position(k.conkey, a.attnum), 0)
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_constraint AS k ON k.conrelid = c.oid AND k.contype = 'p'
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
        """
    )
    await connection.close()
    return {(row[0], row[1]): (TYPES[row[2]], row[3], row[4]) for row in rows}


async def test_the_engines_have_the_same_tables(tmp_path: Path, postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url)
    assert await engine.open() == [f"{number:04d}_{name}" for number, name, _ in migrations("postgres")]
    await engine.close()
    sqlite, postgres = sqlite_columns(await sqlite_file(tmp_path)), await postgres_columns(postgres_url)
    shared = {table for table, _ in postgres} & {table for table, _ in sqlite}
    assert shared >= {"heads", "turns", "inbox", "waits", "cards", "box_owners", "steps", "leases", "answers", "outbox"}
    expected = {place: column for place, column in sqlite.items() if place[0] in shared - {"schema_migrations"}}
    found = {
        place: column
        for place, column in postgres.items()
        if place[0] in shared - {"schema_migrations"} and place not in ONLY_POSTGRES
    }
    assert found == expected
    assert set(postgres) >= ONLY_POSTGRES


async def test_the_words_in_sqlite_are_those_of_the_tables_in_core(tmp_path: Path) -> None:
    connection = sqlite3.connect(await sqlite_file(tmp_path))
    for (table, column), words in WORDS.items():
        (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        # One by one where it is written all the time: SQLite makes a table of a longer list for each row it checks.
        (listed,) = re.findall(rf"CHECK \({column} (?:IN \(|= )([^)]*)\)", text)
        assert re.findall(r"'(\w+)'", listed) == in_order(words), f"{table}.{column}"
    connection.close()


async def test_the_words_in_postgres_are_those_of_the_tables_in_core(postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url)
    await engine.open()
    found = await engine.fetch(
        """
        SELECT r.relname, pg_get_constraintdef(c.oid)
        FROM pg_constraint AS c JOIN pg_class AS r ON r.oid = c.conrelid WHERE c.contype = 'c'
        UNION ALL
        SELECT r.relname, p.prosrc
        FROM pg_constraint AS c
        JOIN pg_class AS r ON r.oid = c.conrelid
        JOIN pg_depend AS d ON d.objid = c.oid AND d.refclassid = 'pg_proc'::regclass
        JOIN pg_proc AS p ON p.oid = d.refobjid
        WHERE c.contype = 'c'
        """
    )
    listed = {
        (table, column): re.findall(r"'(\w+)'", words)
        for table, text in found
        for column, words in re.findall(r"(\w+) (?:= ANY \(ARRAY\[|IN \()([^])]*)[])]", text)
    }
    assert {place: listed[place] for place in WORDS} == {place: in_order(words) for place, words in WORDS.items()}
    await engine.close()


IDLE_HEAD = """
INSERT INTO heads
    (project, agent_id, version, status, epoch, starts, losses, cards, gate, queued, tail_seq, waiting, since_ms)
VALUES ('p', 'a', 1, 'idle', 0, 0, 0, 0, 'open', 0, 0, 0, 0)
"""

WRONG_HEADS = {
    "a word that is none": "status = 'asleep'",
    "a gate that is none": "gate = 'ajar'",
    "less than nothing in line": "queued = -1",
    "idle with a turn": "turn_id = 'turn_1'",
    "a turn that nobody has": "status = 'suspended'",
    "running without a worker": "status = 'running', turn_id = 'turn_1'",
    "a worker that does not run": "worker_id = 'wrk_1'",
}


@pytest.mark.parametrize("wrong", WRONG_HEADS.values(), ids=WRONG_HEADS.keys())
async def test_neither_engine_keeps_a_head_that_contradicts_itself(
    wrong: str, tmp_path: Path, postgres_url: str
) -> None:
    connection = sqlite3.connect(await sqlite_file(tmp_path))
    engine = PostgresEngine(postgres_url)
    await engine.open()
    connection.execute(IDLE_HEAD)
    await engine.fetch(IDLE_HEAD)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"UPDATE heads SET {wrong}")
    with pytest.raises(asyncpg.CheckViolationError):
        await engine.fetch(f"UPDATE heads SET {wrong}")
    connection.close()
    await engine.close()


@pytest.mark.parametrize(
    "wrong", ["unclaimed_ms = 1", "stranded = true", "queued = 1", "status = 'dispatched', turn_id = 'turn_1'"]
)
async def test_postgres_keeps_no_head_that_its_sweeps_would_miss(wrong: str, postgres_url: str) -> None:
    engine = PostgresEngine(postgres_url)
    await engine.open()
    await engine.fetch(IDLE_HEAD)
    with pytest.raises(asyncpg.CheckViolationError):
        await engine.fetch(f"UPDATE heads SET {wrong}")
    await engine.close()


def in_order(words: Iterable[StrEnum]) -> list[str]:
    """As the enumeration has them, which is the order a reader finds them in everywhere else."""
    kinds = {type(word) for word in words}
    assert len(kinds) == 1
    return [word.value for word in kinds.pop() if word in set(words)]


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_migrations_are_numbered_and_named_after_their_room(dialect: str) -> None:
    found = migrations(dialect)
    assert [number for number, _, _ in found] == sorted({number for number, _, _ in found})
    assert all(text.startswith("--") for _, _, text in found)


def test_a_room_has_the_same_number_on_both_engines() -> None:
    sqlite = {name: number for number, name, _ in migrations("sqlite")}
    assert all(sqlite.get(name) == number for number, name, _ in migrations("postgres"))
