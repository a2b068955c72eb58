"""The store of runs on PostgreSQL."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Final

from homeostat.adapters.stores import runs_rows as rows
from homeostat.adapters.stores.ledger_read import write_blocks
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.postgres.ledger import BLOCK_PUT
from homeostat.adapters.stores.run_states import States, StatesAtHand
from homeostat.adapters.stores.runs_read import RunsReading
from homeostat.adapters.stores.statements import numbered, statements
from homeostat.core.records.run import RedButton, Run, RunChange

SQL: Final = statements("postgres", "runs")


class PostgresRuns(RunsReading):
    """Runs, tasks, gates and red buttons on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._at_hand = StatesAtHand()

    async def create(self, change: RunChange, *, request_key: str | None) -> Run | RedButton:
        assert not change.tasks, "nothing of a new run has moved"
        made = await self._engine.transact(lambda transaction: _create(transaction, change, request_key))
        if made is change.run:
            self._at_hand.keep(change, States(written=set()))
        return made

    async def save(self, change: RunChange) -> bool:
        states = self._at_hand.take(change)
        moved: list[rows.Row] = []
        if change.tasks:
            # Read apart from the swap: should they change in between, the run's version has, and nothing is written.
            missing = states.missing(change)
            moved = states.write(change, await self._all("states_get", change.run.run_id, missing) if missing else ())
        sql, values = _saving("run_swap", rows.write_swap(change), change, moved)
        if not await self._engine.fetch(sql, *values):
            return False
        self._at_hand.keep(change, states)
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
    sql, values = _saving("run_put", rows.write_run(run, request_key), change, ())
    if not await transaction.fetch(sql, *values):
        known = await transaction.fetch(SQL["run_of_request"], run.project, request_key)
        return rows.read_run(known[0])  # the same request came twice at once, and the other was first
    return run


# --- one save, one statement ---------------------------------------------------------------------------------


def _saving(
    first: str, values: Sequence[object], change: RunChange, states: Sequence[rows.Row]
) -> tuple[str, list[object]]:
    """A statement that writes a run's row and, if it does, everything else of a change; and its parameters."""
    run_id = change.run.run_id
    parts: list[tuple[str, Sequence[object]]] = []
    if change.gate is not None:
        parts.append(("gate_put", (run_id, change.gate.value)))
    if change.new_tasks:
        parts.append(("plan_put", (rows.write_plan(run_id, change.new_tasks),)))
    if states:
        parts.append(("states_put", (states,)))
    if remains := rows.write_remains(run_id, change.tasks):
        parts.append(("remains_put", (remains,)))
    if change.cleared:
        parts.append(("remains_drop", (run_id, list(change.cleared))))
    if change.lines:
        parts.append(("block_put", (write_blocks(change.run.project, run_id, change.first_seq, change.lines),)))
    shape = ((first, len(values)), *((name, len(given)) for name, given in parts))
    return _statement(shape), [*values, *(value for _, given in parts for value in given)]


@cache
def _statement(shape: tuple[tuple[str, int], ...]) -> str:
    """One statement for a change of this shape: its parts, each with its own parameters, hanging on the first."""
    parts: list[str] = []
    used = 0
    for name, width in shape:
        text = numbered(BLOCK_PUT if name == "block_put" else SQL[name], used)
        parts.append(f"{'go' if not parts else name + '_'} AS (\n{text}\n)")
        used += width
    return "WITH " + ",\n".join(parts) + "\nSELECT * FROM go"
