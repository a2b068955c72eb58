"""Keys, logins and the audit log on PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from homeostat.adapters.stores.access_read import AccessReading, Row, write_entry
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.chain import FIRST, sealed
from homeostat.core.records.access import Act, AuditEntry

SQL: Final = statements("postgres", "access")


class PostgresAccess(AccessReading):
    """Access on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def append(self, act: Act) -> AuditEntry:
        async def work(transaction: Transaction) -> AuditEntry:
            await transaction.fetch(SQL["audit_lock"])
            last = await transaction.fetch(SQL["audit_last"])
            seq, previous = last[0] if last else (0, FIRST)
            entry = sealed(act, seq=seq + 1, previous=previous)
            await transaction.fetch(SQL["audit_put"], *write_entry(entry))
            return entry

        return await self._engine.transact(work)

    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.fetch(SQL[name], *values)

    async def _write(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.fetch(SQL[name], *values)
