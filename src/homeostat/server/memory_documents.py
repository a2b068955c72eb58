"""A memory as a document, written and read: the one place that knows which word stands for what."""

from datetime import datetime

from homeostat.core.clock import Millis, utc
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import NEVER, Feedback, FeedbackId, IncidentId, Lesson, Veto
from homeostat.core.wire import healing as w
from homeostat.immune.memory import Knowledge


def written(known: Knowledge, *, project: ProjectId, at: Millis) -> w.MemoryDocument:
    return w.MemoryDocument(
        project=project,
        exported_at=utc(at),
        lessons=tuple(
            w.LessonRecord(
                agent_id=one.agent_id,
                diagnosis=one.diagnosis,
                action=one.action,
                cured=one.cured,
                failed=one.failed,
                failed_at=utc(one.failed_at_ms) if one.failed else None,
            )
            for one in known.lessons
        ),
        feedback=tuple(
            w.FeedbackRecord(
                feedback_id=one.feedback_id,
                agent_id=one.agent_id,
                actual_cause=one.cause,
                at=utc(one.at_ms),
                notes=one.notes,
                author=one.author,
                incident_id=one.incident_id,
                diagnosis=one.diagnosis,
                kinds=one.kinds,
                withdrawn=one.withdrawn,
            )
            for one in known.feedback
        ),
        vetoes=tuple(
            w.VetoRecord(
                agent_id=one.agent_id,
                diagnosis=one.diagnosis,
                action=one.action,
                reason=one.reason,
                actor=one.actor,
                at=utc(one.at_ms),
            )
            for one in known.vetoes
        ),
    )


def read(document: w.MemoryDocument, *, project: ProjectId) -> Knowledge:
    """What a document says, as what a project is to learn."""
    return Knowledge(
        lessons=tuple(
            Lesson(
                project=project,
                agent_id=AgentId(one.agent_id),
                diagnosis=one.diagnosis,
                action=one.action,
                cured=one.cured,
                failed=one.failed,
                failed_at_ms=NEVER if one.failed_at is None else _millis(one.failed_at),
            )
            for one in document.lessons
        ),
        feedback=tuple(
            Feedback(
                feedback_id=FeedbackId(one.feedback_id),
                project=project,
                agent_id=AgentId(one.agent_id),
                cause=one.actual_cause,
                notes=one.notes,
                at_ms=_millis(one.at),
                author=one.author,
                incident_id=None if one.incident_id is None else IncidentId(one.incident_id),
                diagnosis=one.diagnosis,
                kinds=one.kinds,
                withdrawn=one.withdrawn,
            )
            for one in document.feedback
        ),
        vetoes=tuple(
            Veto(
                project=project,
                agent_id=None if one.agent_id is None else AgentId(one.agent_id),
                diagnosis=one.diagnosis,
                action=one.action,
                reason=one.reason,
                actor=one.actor,
                at_ms=_millis(one.at),
            )
            for one in document.vetoes
        ),
    )


def _millis(at: datetime) -> Millis:
    return Millis(round(at.timestamp() * 1000))
