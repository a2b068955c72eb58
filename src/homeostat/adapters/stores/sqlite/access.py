"""Keys, logins and the audit log on SQLite."""

import sqlite3
from collections.abc import Sequence

from homeostat.adapters.stores.access_read import AccessReading, Row, write_entry
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.core.chain import FIRST, sealed
from homeostat.core.records.access import Act, AuditEntry

SQL = statements("sqlite", "access")


class SqliteAccess(AccessReading):
    """Access on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def append(self, act: Act) -> AuditEntry:
        def work(connection: sqlite3.Connection) -> AuditEntry:
            last = connection.execute(SQL["audit_last"]).fetchone()
            seq, previous = (0, FIRST) if last is None else last
            entry = sealed(act, seq=seq + 1, previous=previous)
            connection.execute(SQL["audit_put"], write_entry(entry))
            return entry

        return await self._engine.save(work)

    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _write(self, name: str, *values: object) -> Sequence[Row]:
        return await self._engine.save(lambda connection: connection.execute(SQL[name], values).fetchall())
