"""Ledgers on PostgreSQL."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from homeostat.adapters.stores.ledger_read import LedgerReading
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.provenance import Entry

SQL: Final = statements("postgres", "ledger")


class PostgresLedger(LedgerReading):
    """Ledgers on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.fetch(SQL[name], *values)

    def _list(self, values: Collection[object]) -> object:
        return list(values)


async def put_entries(transaction: Transaction, entries: Iterable[Entry]) -> None:
    """Append entries within a transaction."""
    await transaction.fetch(SQL["entry_put"], [_row(entry) for entry in entries])


def _row(entry: Entry) -> tuple[object, ...]:
    return (entry.project, entry.run_id, entry.seq, entry.kind, entry.at_ms, entry.payload, entry.hash)
