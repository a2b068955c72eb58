"""The store of runs on SQLite."""

import json
import sqlite3
from collections.abc import Collection

from homeostat.adapters.stores import runs_rows as rows
from homeostat.adapters.stores.run_states import States, StatesAtHand
from homeostat.adapters.stores.runs_read import Moved, RunsReading
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.ledger import put_lines
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.run import RedButton, Run, RunChange

SQL = statements("sqlite", "runs")


class SqliteRuns(RunsReading):
    """Runs, tasks, gates and red buttons on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._at_hand = StatesAtHand()

    async def create(self, change: RunChange, *, request_key: str | None) -> Run | RedButton:
        states = States(written=set())
        made = await self._engine.save(lambda connection: _create(connection, change, states, request_key))
        if made is change.run:
            self._at_hand.keep(change, states)
        return made

    async def save(self, change: RunChange) -> bool:
        states = self._at_hand.take(change)
        try:
            await self._engine.save(lambda connection: _save(connection, change, states))
        except Moved:
            return False
        self._at_hand.keep(change, states)
        return True

    async def press(self, button: RedButton) -> RedButton:
        def work(connection: sqlite3.Connection) -> RedButton:
            connection.execute(SQL["button_press"], rows.write_button(button))
            return rows.read_button(connection.execute(SQL["button_get"], (button.project,)).fetchone())

        return await self._engine.save(work)

    async def _all(self, name: str, *values: object) -> list[rows.Row]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _do(self, name: str, *values: object) -> list[rows.Row]:
        return await self._engine.save(lambda connection: connection.execute(SQL[name], values).fetchall())

    def _list(self, values: Collection[object]) -> object:
        return json.dumps(list(values))


def _create(
    connection: sqlite3.Connection, change: RunChange, states: States, request_key: str | None
) -> Run | RedButton:
    run = change.run
    if request_key is not None:
        known = connection.execute(SQL["run_of_request"], (run.project, request_key)).fetchone()
        if known is not None:
            return rows.read_run(known)
    button = connection.execute(SQL["button_get"], (run.project,)).fetchone()
    if button is not None:
        return rows.read_button(button)
    connection.execute(SQL["run_put"], rows.write_run(run, request_key))
    _parts(connection, change, states)
    return run


def _save(connection: sqlite3.Connection, change: RunChange, states: States) -> None:
    if not connection.execute(SQL["run_swap"], rows.write_swap(change)).fetchall():
        raise Moved
    _parts(connection, change, states)


def _parts(connection: sqlite3.Connection, change: RunChange, states: States) -> None:
    run_id, many = change.run.run_id, connection.executemany
    if change.gate is not None:
        connection.execute(SQL["gate_put"], (run_id, change.gate.value))
    if change.new_tasks:
        many(SQL["plan_put"], rows.write_plan(run_id, change.new_tasks))
    if change.tasks:
        missing = states.missing(change)
        found = connection.execute(SQL["states_get"], (run_id, json.dumps(missing))).fetchall() if missing else ()
        many(SQL["states_put"], states.write(change, found))
        if remains := rows.write_remains(run_id, change.tasks):
            many(SQL["remains_put"], remains)
    if change.cleared:
        many(SQL["remains_drop"], [(run_id, number) for number in change.cleared])
    if change.lines:
        put_lines(connection, change.run.project, run_id, change.first_seq, change.lines)
