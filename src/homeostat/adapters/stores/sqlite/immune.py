"""The immune system's store on SQLite."""

import sqlite3
from collections.abc import Sequence

from homeostat.adapters.stores import immune_rows as rows
from homeostat.adapters.stores.enforcement_read import write_hold
from homeostat.adapters.stores.immune_read import ImmuneReading, Moved
from homeostat.adapters.stores.sqlite.bulk import put_rows
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.transaction import immediate
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.records.immune import Chart, Feedback, Lesson, Memory, Veto

SQL = statements("sqlite", "immune")
HOLD_PUT = statements("sqlite", "enforcement")["hold_put"]


class SqliteImmune(ImmuneReading):
    """Phases, incidents, approvals, lessons and baselines on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def hold(self, holder: str, now: Millis, until: Millis) -> bool:
        return bool(await self._change("lease_take", (holder, now, until)))

    async def let_go(self, holder: str) -> None:
        await self._write("lease_drop", [(holder,)])

    async def save(self, chart: Chart) -> bool:
        try:
            await self._engine.save(lambda connection: _save(connection, chart))
        except Moved:
            return False
        return True

    async def put_feedback(self, feedback: Feedback) -> None:
        await self._write("feedback_put", [rows.write_feedback(feedback)])

    async def put_veto(self, veto: Veto) -> Veto:
        return rows.read_veto((await self._change("veto_put", rows.write_veto(veto)))[0])

    async def drop_veto(self, veto: Veto) -> bool:
        return bool(await self._change("veto_drop", rows.veto_key(veto)))

    async def absorb(self, *, lessons: Sequence[Lesson], feedback: Sequence[Feedback], vetoes: Sequence[Veto]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with immediate(connection):
                connection.executemany(SQL["lesson_raise"], map(rows.write_lesson, lessons))
                connection.executemany(SQL["feedback_put"], map(rows.write_feedback, feedback))
                connection.executemany(SQL["veto_put"], map(rows.write_veto, vetoes))

        await self._engine.write(work)  # a file of any length: the loop is not kept for it

    async def save_memories(self, memories: Sequence[Memory]) -> None:
        written = [rows.write_memory(memory) for memory in memories]

        def work(connection: sqlite3.Connection) -> None:
            put_rows(connection, SQL["baseline_put"], written)

        await self._engine.save(work)

    async def _all(self, name: str, *values: object) -> list[rows.Row]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _change(self, name: str, values: tuple[object, ...]) -> list[rows.Row]:
        return await self._engine.save(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _write(self, name: str, values: Sequence[tuple[object, ...]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(SQL[name], values)

        await self._engine.save(work)


def _save(connection: sqlite3.Connection, chart: Chart) -> None:
    for patient in chart.patients:
        name = "patient_put" if patient.version == 1 else "patient_swap"
        if not connection.execute(SQL[name], rows.write_patient(patient)).fetchall():
            raise Moved
    for patient in chart.gone:
        if not connection.execute(SQL["patient_drop"], (*patient.key, patient.version)).fetchall():
            raise Moved
        connection.execute(SQL["baseline_drop"], patient.key)
    for approval in chart.answered:
        if not connection.execute(SQL["approval_answer"], rows.write_answer(approval)).fetchall():
            raise Moved
    connection.executemany(SQL["approval_put"], map(rows.write_approval, chart.asked))
    connection.executemany(SQL["incident_put"], map(rows.write_incident, chart.incidents))
    connection.executemany(SQL["transition_put"], map(rows.write_transition, chart.transitions))
    connection.executemany(SQL["lesson_add"], map(rows.write_lesson, chart.lessons))
    connection.executemany(HOLD_PUT, map(write_hold, chart.holds))
