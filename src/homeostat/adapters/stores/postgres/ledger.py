"""Ledgers on PostgreSQL."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from homeostat.adapters.stores.ledger_read import LedgerReading, write_blocks
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements

SQL: Final = statements("postgres", "ledger")

BLOCK_PUT: Final = SQL["block_put"]
"""A part of the statement that saves a run: it hangs on whether the run's row was swapped."""


class PostgresLedger(LedgerReading):
    """Ledgers on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.fetch(SQL[name], *values)

    def _list(self, values: Collection[object]) -> object:
        return list(values)


async def put_lines(transaction: Transaction, project: str, run_id: str, first_seq: int, lines: Sequence[str]) -> None:
    """Append entries within a transaction."""
    await transaction.fetch("WITH go AS (SELECT) " + BLOCK_PUT, write_blocks(project, run_id, first_seq, lines))
