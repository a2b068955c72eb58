"""Rows and records of the immune system: the one place that knows in which order its columns stand."""

from collections.abc import Sequence
from typing import Any

import msgspec

from homeostat.core.records.immune import (
    Approval,
    Diagnosis,
    Feedback,
    Incident,
    Lesson,
    Memory,
    Patient,
    RemedyAction,
    Transition,
    Veto,
)

Row = Sequence[Any]
NEWEST = "~"
EVERYBODY = ""  # no agent is called so

_encoder = msgspec.json.Encoder()
_patients = msgspec.json.Decoder(Patient)
_transitions = msgspec.json.Decoder(Transition)
_incidents = msgspec.json.Decoder(Incident)
_approvals = msgspec.json.Decoder(Approval)
_feedback = msgspec.json.Decoder(Feedback)


def _text(record: object) -> str:
    return _encoder.encode(record).decode()


def write_patient(patient: Patient) -> tuple[object, ...]:
    return (patient.project, patient.agent_id, patient.version, patient.phase.value, _text(patient))


def read_patient(row: Row) -> Patient:
    return _patients.decode(row[0])


def write_transition(step: Transition) -> tuple[object, ...]:
    return (step.transition_id, step.project, step.agent_id, _text(step))


def read_transition(row: Row) -> Transition:
    return _transitions.decode(row[0])


def write_incident(incident: Incident) -> tuple[object, ...]:
    return (incident.incident_id, incident.project, incident.agent_id, _text(incident))


def read_incident(row: Row) -> Incident:
    return _incidents.decode(row[0])


def write_approval(approval: Approval) -> tuple[object, ...]:
    return (
        approval.approval_id,
        approval.project,
        approval.agent_id,
        approval.status.value,
        _text(approval),
    )


def write_answer(approval: Approval) -> tuple[object, ...]:
    return (approval.approval_id, approval.status.value, _text(approval))


def read_approval(row: Row) -> Approval:
    return _approvals.decode(row[0])


def write_lesson(lesson: Lesson) -> tuple[object, ...]:
    return (
        lesson.project,
        lesson.agent_id,
        lesson.diagnosis.value,
        lesson.action.value,
        lesson.cured,
        lesson.failed,
        lesson.failed_at_ms,
    )


def read_lesson(row: Row) -> Lesson:
    return Lesson(
        project=row[0],
        agent_id=row[1],
        diagnosis=Diagnosis(row[2]),
        action=RemedyAction(row[3]),
        cured=row[4],
        failed=row[5],
        failed_at_ms=row[6],
    )


def write_feedback(feedback: Feedback) -> tuple[object, ...]:
    return (feedback.feedback_id, feedback.project, feedback.agent_id, _text(feedback))


def read_feedback(row: Row) -> Feedback:
    return _feedback.decode(row[0])


def veto_key(veto: Veto) -> tuple[object, ...]:
    return (veto.project, veto.agent_id or EVERYBODY, veto.diagnosis.value, veto.action.value)


def write_veto(veto: Veto) -> tuple[object, ...]:
    return (*veto_key(veto), veto.reason, veto.actor, veto.at_ms)


def read_veto(row: Row) -> Veto:
    return Veto(
        project=row[0],
        agent_id=row[1] or None,
        diagnosis=Diagnosis(row[2]),
        action=RemedyAction(row[3]),
        reason=row[4],
        actor=row[5],
        at_ms=row[6],
    )


def write_memory(memory: Memory) -> tuple[object, ...]:
    return (memory.project, memory.agent_id, memory.stream, memory.state, memory.habits, memory.saved_at_ms)


def read_memory(row: Row) -> Memory:
    return Memory(
        project=row[0], agent_id=row[1], stream=row[2], state=bytes(row[3]), habits=row[4], saved_at_ms=row[5]
    )
