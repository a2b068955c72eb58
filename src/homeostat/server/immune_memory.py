"""What the immune system learned, and what operators tell it, over HTTP."""

from homeostat.core.clock import rfc3339
from homeostat.core.errors import AgentUnknown, Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import MEMORY_BODY_BYTES_MAX, NAME_CHARS_MAX
from homeostat.core.records.immune import Diagnosis, Feedback, FeedbackId, Veto
from homeostat.core.wire import healing as w
from homeostat.immune.errors import FeedbackUnknown, VetoUnknown
from homeostat.immune.ladder import Experience, Step
from homeostat.server import identity
from homeostat.server import memory_documents as documents
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("immune system")


@routes.plain("GET", "/v1/immune/memory", gives=w.MemoryShape)
async def read_lessons(call: Call) -> w.MemoryShape:
    """The ladders as they stand now, which remedies helped, what operators said of diagnoses, and what they vetoed."""
    immune = call.system.immune
    # Whoever decides has learned what is not yet known here.
    experience = immune.healer.experience if immune.leading else Experience(await immune.store.lessons())
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
        vetoes=[_veto(one) for one in await immune.store.vetoes() if one.project == call.project],
    )


@routes.taking(
    "POST",
    "/v1/immune/memory/veto",
    w.VetoBody,
    gives=w.VetoedShape,
    errors=(AgentUnknown, InvalidRequest, Forbidden, Unauthenticated),
    examples={
        "for everybody": {"diagnosis": "prompt_drift", "action": "reset_agent", "reason": "it forgot a customer"},
        "for one agent": {
            "diagnosis": "infinite_loop",
            "action": "revoke_tools",
            "agent_id": "agent-1",
            "reason": "it can do nothing without them",
            "actor": "ann",
        },
    },
)
async def veto_remedy(call: Call, body: w.VetoBody) -> w.VetoedShape:
    """Have a remedy never tried against a diagnosis: on one agent, or on any.

    Ladders pass it over from now on, wherever they are climbed, and incidents say so. An open question about it ends,
    and another remedy is asked about. What is under way is not cut off. Where nothing is left to try, an agent stays
    isolated until somebody heals or releases it. The first word stands: veto again, and you are told of it.
    """
    await identity.require_operator(call, verb="veto", what="remedies")
    key, step = await _meant(call, body)
    memory = call.system.immune.memory
    veto = await memory.veto(key, step, reason=body.reason, actor=call.actor(body.actor))
    return w.VetoedShape(veto=_veto(veto), left=await memory.left(key, body.diagnosis))


@routes.taking(
    "POST",
    "/v1/immune/memory/lift",
    w.LiftVetoBody,
    gives=w.VetoedShape,
    errors=(AgentUnknown, VetoUnknown, Forbidden, Unauthenticated),
    examples={"it is mended": {"diagnosis": "prompt_drift", "action": "reset_agent", "reason": "it keeps notes now"}},
)
async def lift_veto(call: Call, body: w.LiftVetoBody) -> w.VetoedShape:
    """Allow a vetoed remedy again. A veto for everybody is lifted for everybody."""
    await identity.require_operator(call, verb="allow", what="remedies")
    key, step = await _meant(call, body)
    memory = call.system.immune.memory
    veto = await memory.lift(key, step, reason=body.reason, actor=call.actor(body.actor))
    return w.VetoedShape(veto=_veto(veto), left=await memory.left(key, body.diagnosis))


@routes.plain("GET", "/v1/immune/memory/export", gives=w.MemoryDocument)
async def export_memory(call: Call) -> w.MemoryDocument:
    """All that the project's memory holds, as one document: what helped whom, what operators said, what they vetoed."""
    known = await call.system.immune.memory.knowledge(call.project)
    return documents.written(known, project=call.project, at=call.system.clock.now_ms())


@routes.taking(
    "POST",
    "/v1/immune/memory/import",
    w.ImportBody,
    gives=w.ImportShape,
    errors=(InvalidRequest, Forbidden, Unauthenticated),
    body_bytes_max=MEMORY_BODY_BYTES_MAX,
    examples={
        "one lesson": {
            "reason": "what the other site has learned",
            "memory": {
                "format": w.FORMAT,
                "version": 1,
                "lessons": [
                    {"agent_id": "agent-1", "diagnosis": "prompt_drift", "action": "rollback_prompt", "cured": 3}
                ],
            },
        }
    },
)
async def import_memory(call: Call, body: w.ImportBody) -> w.ImportShape:
    """Take in what another memory holds. `?dry_run=true` only tells what of it is new here.

    The larger of two counts stands, and the first of two vetoes; feedback is known by its id. So the same document
    again changes nothing, and several come to the same in any order. What another project of this installation has
    learned is no news here: every project heeds it. What cannot be true is refused as a whole.
    """
    await identity.require_operator(call, verb="import", what="memories")
    brought = documents.read(body.memory, project=call.project)
    merge = await call.system.immune.memory.absorb(
        call.project,
        brought,
        origin=None if body.memory.project is None else ProjectId(body.memory.project),
        reason=body.reason,
        actor=call.actor(body.actor),
        dry_run=call.dry_run,
    )
    new = merge.new
    counts = (len(new.lessons), len(new.feedback), len(new.vetoes))
    held = len(brought.lessons) + len(brought.feedback) + len(brought.vetoes)
    return w.ImportShape(
        dry_run=call.dry_run,
        lessons=counts[0],
        feedback=counts[1],
        vetoes=counts[2],
        known=held - sum(counts),
        ladders=merge.ladders,
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


async def _meant(call: Call, body: w.VetoBody) -> tuple[tuple[ProjectId, AgentId | None], Step]:
    agent_id = None if body.agent_id is None else AgentId(body.agent_id)
    if agent_id is not None:
        await call.system.immune.patient((call.project, agent_id))
    return (call.project, agent_id), (body.diagnosis, body.action)


def _veto(veto: Veto) -> w.VetoShape:
    return w.VetoShape(
        diagnosis=veto.diagnosis,
        action=veto.action,
        agent_id=veto.agent_id,
        reason=veto.reason,
        actor=veto.actor,
        at=rfc3339(veto.at_ms),
    )


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
