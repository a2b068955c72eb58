"""A write transaction that ends with its block: committed, or as if it had never been."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def immediate(connection: sqlite3.Connection) -> Generator[None]:
    """Take the write lock first: what is read inside is still true when it is written. A block may roll back itself."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        if connection.in_transaction:
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
