"""Many rows in one statement.

`executemany` gives Python's lock away for each row, and a thread gets it back when a busy loop lets it: some
hundred rows then keep the file's lock for seconds.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

ROWS_AT_ONCE: Final = 256


def put_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a statement that writes one row, `(?, ?, …)`, for all of them at once."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        row = f"({', '.join('?' * len(part[0]))})"
        assert statement.count(row) == 1, f"it writes no row of {len(part[0])}"
        connection.execute(
            statement.replace(row, ", ".join([row] * len(part))), [value for values in part for value in values]
        )
