"""Ledgers on SQLite."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from homeostat.adapters.stores.ledger_read import LedgerReading, write_blocks
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.records.provenance import Block

SQL = statements("sqlite", "ledger")


class SqliteLedger(LedgerReading):
    """Ledgers on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def blocks(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Block]:
        """What is no text any more is told with marks in its place, which nobody ever hashed."""
        found = await self._all("blocks", project, run_id, after, limit)
        return [Block(first, last, bytes(lines).decode(errors="replace")) for first, last, lines in found]

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    def _list(self, values: Collection[object]) -> object:
        return msgspec.json.encode(list(values)).decode()


def put_lines(connection: sqlite3.Connection, project: str, run_id: str, first_seq: int, lines: Sequence[str]) -> None:
    """Append entries within a transaction."""
    connection.executemany(SQL["block_put"], write_blocks(project, run_id, first_seq, lines))
