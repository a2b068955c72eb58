"""A write transaction that ends with its block: committed, or as if it had never been."""

import sqlite3
from contextlib import suppress


def immediate(connection: sqlite3.Connection) -> "_Immediate":
    """Take the write lock first: what is read inside is still true when it is written. A block may roll back itself."""
    return _Immediate(connection)


class _Immediate:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._connection.in_transaction:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
