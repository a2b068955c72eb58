"""The store of runs on PostgreSQL."""

from collections.abc import Collection, Sequence
from typing import Final

from homeostat.adapters.stores import runs_rows as rows
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.postgres.ledger import put_lines
from homeostat.adapters.stores.runs_read import Moved, RunsReading
from homeostat.adapters.stores.statements import statements
from homeostat.core.records.run import RedButton, Run, RunChange

SQL: Final = statements("postgres", "runs")


class PostgresRuns(RunsReading):
    """Runs, tasks, gates and red buttons on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def create(self, change: RunChange, *, request_key: str | None) -> Run | RedButton:
        return await self._engine.transact(lambda transaction: _create(transaction, change, request_key))

    async def save(self, change: RunChange) -> bool:
        try:
            await self._engine.transact(lambda transaction: _save(transaction, change))
        except Moved:
            return False
        return True

    async def press(self, button: RedButton) -> RedButton:
        async def work(transaction: Transaction) -> RedButton:
            await transaction.fetch(SQL["button_lock"])
            await transaction.fetch(SQL["button_press"], *rows.write_button(button))
            return rows.read_button((await transaction.fetch(SQL["button_get"], button.project))[0])

        return await self._engine.transact(work)

    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        return await self._engine.fetch(SQL[name], *values)

    async def _do(self, name: str, *values: object) -> Sequence[rows.Row]:
        return await self._engine.fetch(SQL[name], *values)

    def _list(self, values: Collection[object]) -> object:
        return list(values)


async def _create(transaction: Transaction, change: RunChange, request_key: str | None) -> Run | RedButton:
    run = change.run
    await transaction.fetch(SQL["button_lock_shared"])
    if request_key is not None:
        known = await transaction.fetch(SQL["run_of_request"], run.project, request_key)
        if known:
            return rows.read_run(known[0])
    if button := await transaction.fetch(SQL["button_get"], run.project):
        return rows.read_button(button[0])
    if not await transaction.fetch(SQL["run_put"], *rows.write_run(run, request_key)):
        known = await transaction.fetch(SQL["run_of_request"], run.project, request_key)
        return rows.read_run(known[0])  # the same request came twice at once, and the other was first
    await _parts(transaction, change)
    return run


async def _save(transaction: Transaction, change: RunChange) -> None:
    if not await transaction.fetch(SQL["run_swap"], *rows.write_swap(change)):
        raise Moved
    await _parts(transaction, change)


async def _parts(transaction: Transaction, change: RunChange) -> None:
    run_id = change.run.run_id
    if change.gate is not None:
        await transaction.fetch(SQL["gate_put"], run_id, change.gate.value)
    if change.new_tasks:
        await transaction.fetch(SQL["plan_put"], rows.write_plan(run_id, change.new_tasks))
    if change.tasks:
        found = await transaction.fetch(SQL["states_get"], run_id, rows.places_of(change.tasks))
        await transaction.fetch(SQL["states_put"], rows.write_states(run_id, found, change.tasks))
        if remains := rows.write_remains(run_id, change.tasks):
            await transaction.fetch(SQL["remains_put"], remains)
    if change.cleared:
        await transaction.fetch(SQL["remains_drop"], run_id, list(change.cleared))
    if change.lines:
        await put_lines(transaction, change.run.project, run_id, change.first_seq, change.lines)
