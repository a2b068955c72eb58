"""The immune system's store on PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from homeostat.adapters.stores import immune_rows as rows
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import (
    Approval,
    ApprovalId,
    ApprovalStatus,
    Chart,
    Feedback,
    FeedbackId,
    Incident,
    IncidentId,
    Lesson,
    Memory,
    Patient,
    Transition,
)
from homeostat.core.records.turn import AgentKey

SQL: Final = statements("postgres", "immune")


class _Moved(Exception):
    """Somebody else was first: nothing of this is written."""


class PostgresImmune:
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
        except _Moved:
            return False
        return True

    async def put_feedback(self, feedback: Feedback) -> None:
        await self._all("feedback_put", *rows.write_feedback(feedback))

    async def save_memories(self, memories: Sequence[Memory]) -> None:
        values = [rows.write_memory(memory) for memory in memories]
        await self._engine.transact(lambda transaction: transaction.executemany(SQL["baseline_put"], values))

    async def patients(self) -> list[Patient]:
        return [rows.read_patient(row) for row in await self._all("patients_all")]

    async def patient(self, key: AgentKey) -> Patient | None:
        found = await self._all("patient_get", *key)
        return rows.read_patient(found[0]) if found else None

    async def incident(self, project: ProjectId, incident_id: IncidentId) -> Incident | None:
        found = await self._all("incident_get", project, incident_id)
        return rows.read_incident(found[0]) if found else None

    async def incidents(
        self, project: ProjectId, *, agent_id: AgentId | None, before: IncidentId | None, limit: int
    ) -> list[Incident]:
        if agent_id is None:
            found = await self._all("incidents_list", project, before or rows.NEWEST, limit)
        else:
            found = await self._all("incidents_of_agent", project, before or rows.NEWEST, limit, agent_id)
        return [rows.read_incident(row) for row in found]

    async def transitions(self, key: AgentKey, *, before: str | None, limit: int) -> list[Transition]:
        found = await self._all("transitions_list", *key, before or rows.NEWEST, limit)
        return [rows.read_transition(row) for row in found]

    async def approval(self, project: ProjectId, approval_id: ApprovalId) -> Approval | None:
        found = await self._all("approval_get", project, approval_id)
        return rows.read_approval(found[0]) if found else None

    async def approvals(
        self, project: ProjectId | None, *, status: ApprovalStatus | None, before: ApprovalId | None, limit: int
    ) -> list[Approval]:
        wanted = (project or "", "" if status is None else status.value, before or rows.NEWEST, limit)
        return [rows.read_approval(row) for row in await self._all("approvals_list", *wanted)]

    async def lessons(self) -> list[Lesson]:
        return [rows.read_lesson(row) for row in await self._all("lessons_all")]

    async def feedback(self) -> list[Feedback]:
        return [rows.read_feedback(row) for row in await self._all("feedback_all")]

    async def feedback_by_id(self, project: ProjectId, feedback_id: FeedbackId) -> Feedback | None:
        found = await self._all("feedback_get", project, feedback_id)
        return rows.read_feedback(found[0]) if found else None

    async def memories(self) -> list[Memory]:
        return [rows.read_memory(row) for row in await self._all("baselines_all")]

    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        return await self._engine.fetch(SQL[name], *values)


async def _save(transaction: Transaction, chart: Chart) -> None:
    for patient in sorted(chart.patients, key=lambda patient: patient.key):
        name = "patient_put" if patient.version == 1 else "patient_swap"
        if not await transaction.fetch(SQL[name], *rows.write_patient(patient)):
            raise _Moved
    for approval in chart.answered:
        if not await transaction.fetch(SQL["approval_answer"], *rows.write_answer(approval)):
            raise _Moved
    await transaction.executemany(SQL["approval_put"], [rows.write_approval(one) for one in chart.asked])
    await transaction.executemany(SQL["incident_put"], [rows.write_incident(one) for one in chart.incidents])
    await transaction.executemany(SQL["transition_put"], [rows.write_transition(one) for one in chart.transitions])
    await transaction.executemany(SQL["lesson_add"], [rows.write_lesson(one) for one in chart.lessons])
