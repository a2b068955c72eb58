"""Many rows are one statement, however many they are."""

import sqlite3

import pytest

from homeostat.adapters.stores.sqlite.bulk import ROWS_AT_ONCE, put_rows

PUT = "INSERT INTO kept VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


@pytest.mark.parametrize("count", [0, 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 3])
def test_all_rows_are_written_in_few_statements_the_last_of_a_name_for_good(count: int) -> None:
    statements: list[str] = []
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE kept (name PRIMARY KEY, value)")
    connection.set_trace_callback(statements.append)
    put_rows(connection, PUT, [(f"n{number}", number) for number in range(count)])
    assert len(statements) == -(-count // ROWS_AT_ONCE)
    put_rows(connection, PUT, [("n0", -1), ("n0", None)])
    found = dict(connection.execute("SELECT name, value FROM kept"))
    assert found == {f"n{number}": number for number in range(count)} | {"n0": None}
    connection.close()


def test_a_statement_that_writes_other_rows_is_a_mistake() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(AssertionError, match="no row of 3"):
        put_rows(connection, PUT, [(1, 2, 3)])
    connection.close()
