"""The immune system's store on PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from homeostat.adapters.stores import immune_rows as rows
from homeostat.adapters.stores.enforcement_read import write_hold
from homeostat.adapters.stores.immune_read import ImmuneReading, Moved
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.records.immune import Chart, Feedback, Lesson, Memory, Veto

SQL: Final = statements("postgres", "immune")
HOLD_PUT: Final = statements("postgres", "enforcement")["hold_put"]


class PostgresImmune(ImmuneReading):
    """Phases, incidents, approvals, lessons and baselines on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def hold(self, holder: str, now: Millis, until: Millis) -> bool:
        return bool(await self._all("lease_take", holder, now, until))

    async def let_go(self, holder: str) -> None:
        await self._all("lease_drop", holder)

    async def save(self, chart: Chart) -> bool:
        try:
            await self._engine.transact(lambda transaction: _save(transaction, chart))
        except Moved:
            return False
        return True

    async def put_feedback(self, feedback: Feedback) -> None:
        await self._all("feedback_put", *rows.write_feedback(feedback))

    async def put_veto(self, veto: Veto) -> Veto:
        return rows.read_veto((await self._all("veto_put", *rows.write_veto(veto)))[0])

    async def drop_veto(self, veto: Veto) -> bool:
        return bool(await self._all("veto_drop", *rows.veto_key(veto)))

    async def absorb(self, *, lessons: Sequence[Lesson], feedback: Sequence[Feedback], vetoes: Sequence[Veto]) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.executemany(SQL["lesson_raise"], sorted(map(rows.write_lesson, lessons)))
            await transaction.executemany(SQL["feedback_put"], sorted(map(rows.write_feedback, feedback)))
            await transaction.executemany(SQL["veto_put"], sorted(map(rows.write_veto, vetoes)))

        await self._engine.transact(work)

    async def save_memories(self, memories: Sequence[Memory]) -> None:
        values = [rows.write_memory(memory) for memory in memories]
        await self._engine.transact(lambda transaction: transaction.executemany(SQL["baseline_put"], values))

    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        return await self._engine.fetch(SQL[name], *values)


async def _save(transaction: Transaction, chart: Chart) -> None:
    for patient in sorted(chart.patients, key=lambda patient: patient.key):
        name = "patient_put" if patient.version == 1 else "patient_swap"
        if not await transaction.fetch(SQL[name], *rows.write_patient(patient)):
            raise Moved
    for patient in sorted(chart.gone, key=lambda patient: patient.key):
        if not await transaction.fetch(SQL["patient_drop"], *patient.key, patient.version):
            raise Moved
        await transaction.fetch(SQL["baseline_drop"], *patient.key)
    for approval in chart.answered:
        if not await transaction.fetch(SQL["approval_answer"], *rows.write_answer(approval)):
            raise Moved
    await transaction.executemany(SQL["approval_put"], [rows.write_approval(one) for one in chart.asked])
    await transaction.executemany(SQL["incident_put"], [rows.write_incident(one) for one in chart.incidents])
    await transaction.executemany(SQL["transition_put"], [rows.write_transition(one) for one in chart.transitions])
    await transaction.executemany(SQL["lesson_add"], [rows.write_lesson(one) for one in chart.lessons])
    await transaction.executemany(HOLD_PUT, sorted(map(write_hold, chart.holds)))
