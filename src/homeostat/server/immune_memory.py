"""What the immune system learned, and what operators tell it, over HTTP."""

from homeostat.core.clock import rfc3339
from homeostat.core.errors import AgentUnknown, Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.ids import AgentId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.immune import Diagnosis, Feedback, FeedbackId
from homeostat.core.wire import immune as w
from homeostat.immune.errors import FeedbackUnknown
from homeostat.server import identity
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("immune system")


@routes.plain("GET", "/v1/immune/memory", gives=w.MemoryShape)
async def read_lessons(call: Call) -> w.MemoryShape:
    """The ladders as they stand now, which remedies helped, and what operators said."""
    immune = call.system.immune
    experience = immune.healer.experience
    return w.MemoryShape(
        ladders={diagnosis: experience.ladder(diagnosis) for diagnosis in Diagnosis},
        lessons=[
            w.LessonShape(diagnosis=diagnosis, action=action, cured=cured, failed=failed)
            for diagnosis, action, cured, failed in experience.counts()
        ],
        feedback=[_feedback(one) for one in await immune.store.feedback() if one.project == call.project],
        shifts=[
            w.ShiftShape(diagnosis=diagnosis, kind=kind, nats=nats)
            for diagnosis, kind, nats in immune.diagnostician.shifts()
        ],
    )


@routes.taking(
    "POST",
    "/api/feedback",
    w.FeedbackBody,
    gives=w.FeedbackShape,
    status=201,
    errors=(AgentUnknown, InvalidRequest, Forbidden, Unauthenticated),
    examples={"outage": {"agent_id": "agent-1", "actual_cause": "provider_outage", "notes": "a five-minute outage"}},
)
async def post_feedback(call: Call, body: w.FeedbackBody) -> w.FeedbackShape:
    """Say what the last incident of an agent really was; later diagnoses of the same kind heed it."""
    await identity.require_operator(call, verb="judge", what="diagnoses")
    key = (call.project, AgentId(body.agent_id))
    await call.system.immune.patient(key)
    said = await call.system.immune.feedback.give(key, cause=body.actual_cause, notes=body.notes, author=body.author)
    return _feedback(said)


@routes.plain(
    "DELETE",
    "/api/feedback/{feedback_id}",
    gives=w.FeedbackShape,
    errors=(FeedbackUnknown, Forbidden, Unauthenticated),
)
async def withdraw_feedback(call: Call) -> w.FeedbackShape:
    """Take feedback back; confidences are as if it had never been given."""
    await identity.require_operator(call, verb="judge", what="diagnoses")
    feedback_id = FeedbackId(call.parameters["feedback_id"][:NAME_CHARS_MAX])
    if not feedback_id.isprintable():
        raise FeedbackUnknown(feedback_id="?")
    return _feedback(await call.system.immune.feedback.withdraw(call.project, feedback_id))


def _feedback(said: Feedback) -> w.FeedbackShape:
    return w.FeedbackShape(
        feedback_id=said.feedback_id,
        agent_id=said.agent_id,
        actual_cause=said.cause,
        notes=said.notes,
        author=said.author,
        at=rfc3339(said.at_ms),
        incident_id=said.incident_id,
        diagnosis=said.diagnosis,
        kinds=said.kinds,
        withdrawn=said.withdrawn,
    )
