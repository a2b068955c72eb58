"""What may be asked of the immune system's store, in words that every engine's statements answer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from homeostat.adapters.stores import immune_rows as rows
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import (
    Approval,
    ApprovalId,
    ApprovalStatus,
    Feedback,
    FeedbackId,
    Incident,
    IncidentId,
    Lesson,
    Memory,
    Patient,
    Transition,
    Veto,
)
from homeostat.core.records.turn import AgentKey


class Moved(Exception):
    """Somebody else was first: nothing of this is written."""


class ImmuneReading(ABC):
    """Reads by named statements. A keeper says how to run one."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        """The rows of a statement."""

    async def patients(self) -> list[Patient]:
        return [rows.read_patient(row) for row in await self._all("patients_all")]

    async def unsettled(self) -> dict[AgentKey, int]:
        return {(row[0], row[1]): row[2] for row in await self._all("patients_unsettled")}

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

    async def stepped(self) -> list[AgentKey]:
        return [(ProjectId(row[0]), AgentId(row[1])) for row in await self._all("transitions_agents")]

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

    async def vetoes(self) -> list[Veto]:
        return [rows.read_veto(row) for row in await self._all("vetoes_all")]

    async def vetoes_on(self, key: AgentKey) -> list[Veto]:
        return [rows.read_veto(row) for row in await self._all("vetoes_on", *key, rows.EVERYBODY)]

    async def memories(self) -> list[Memory]:
        return [rows.read_memory(row) for row in await self._all("baselines_all")]
