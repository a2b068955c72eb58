"""What is wanted of whom, on PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from homeostat.adapters.stores.enforcement_read import EnforcementKeeping, Row, write_hold
from homeostat.adapters.stores.postgres import mandates
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.enforcement import Hold, Mandate

SQL: Final = statements("postgres", "enforcement")


class PostgresEnforcement(EnforcementKeeping):
    """Holds and custodies on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def save_holds(self, holds: Sequence[Hold], mandate: Mandate | None = None) -> None:
        # In one order, so that two processes that save the same rows do not wait for each other.
        values = sorted(map(write_hold, holds))

        async def work(transaction: Transaction) -> None:
            await mandates.require(transaction, mandate)
            await transaction.executemany(SQL["hold_put"], values)

        await self._engine.transact(work)

    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.fetch(SQL[name], *values)

    async def _do(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.fetch(SQL[name], *values)
