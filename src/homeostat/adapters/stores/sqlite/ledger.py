"""Ledgers on SQLite."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from homeostat.adapters.stores.ledger_read import LedgerReading
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.provenance import Entry

SQL = statements("sqlite", "ledger")


class SqliteLedger(LedgerReading):
    """Ledgers on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    def _list(self, values: Collection[object]) -> object:
        return json.dumps(list(values))


def put_entries(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Append entries within a transaction."""
    connection.executemany(SQL["entry_put"], [_row(entry) for entry in entries])


def _row(entry: Entry) -> tuple[object, ...]:
    return (entry.project, entry.run_id, entry.seq, entry.kind, entry.at_ms, entry.payload, entry.hash)
