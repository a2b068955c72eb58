"""What operators say of diagnoses: heard once, heeded from then on, and taken back as if it had never been said."""

from dataclasses import replace

from homeostat.core.clock import Clock
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import Ids, ProjectId
from homeostat.core.records.immune import ActualCause, Feedback, FeedbackId
from homeostat.core.records.turn import AgentKey
from homeostat.immune.diagnostician import Diagnostician
from homeostat.immune.errors import FeedbackUnknown
from homeostat.immune.ward import Ward


class FeedbackDesk:
    """Stores what was said, then lets the diagnostician hear it."""

    def __init__(self, *, ward: Ward, diagnostician: Diagnostician, clock: Clock, ids: Ids) -> None:
        self._ward = ward
        self._store = ward.store
        self._diagnostician = diagnostician
        self._clock = clock
        self._ids = ids

    async def give(self, key: AgentKey, *, cause: ActualCause, notes: str, author: str) -> Feedback:
        """Take an operator's word on the last diagnosis of an agent; later ones of the same kind heed it."""
        found = await self._store.incidents(key[0], agent_id=key[1], before=None, limit=1)
        if not found:
            raise InvalidRequest(problem=f"agent {key[1]!r} has had no incident that feedback could be about")
        incident = found[0]
        said = Feedback(
            feedback_id=FeedbackId(f"fbk_{self._ids.scope()}"),
            project=key[0],
            agent_id=key[1],
            cause=cause,
            notes=notes,
            at_ms=self._clock.now_ms(),
            author=author,
            incident_id=incident.incident_id,
            diagnosis=incident.hypotheses[0].diagnosis if incident.hypotheses else None,
            kinds=tuple(sorted({one.kind for one in incident.evidence})),
        )
        await self._store.put_feedback(said)
        self._ward.counts.feedback[cause] += 1
        await self._heard(said)
        return said

    async def withdraw(self, project: ProjectId, feedback_id: FeedbackId) -> Feedback:
        """Take feedback back; confidences are as if it had never been given."""
        said = await self._store.feedback_by_id(project, feedback_id)
        if said is None:
            raise FeedbackUnknown(feedback_id=feedback_id)
        gone = replace(said, withdrawn=True)
        await self._store.put_feedback(gone)
        await self._heard(gone)
        return gone

    async def _heard(self, said: Feedback) -> None:
        self._diagnostician.hear(said)
        told = {"what": "withdrawn" if said.withdrawn else "said", "agent_id": said.agent_id, "cause": said.cause}
        await self._ward.tell_of_memory(said.project, {**told, "actor": said.author, "reason": said.notes})
