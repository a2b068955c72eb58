"""Health over HTTP: vitals in, incidents and approvals out, and what operators may do to an agent."""

from dataclasses import replace

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.enforcement_errors import AgentKilled, AgentMoved
from homeostat.core.errors import (
    AgentUnknown,
    Forbidden,
    IllegalTransition,
    Unauthenticated,
)
from homeostat.core.ids import AgentId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.machines.phase import RUNS
from homeostat.core.records.call import ToolUse
from homeostat.core.records.immune import (
    Incident,
    IncidentId,
)
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.core.wire import immune as w
from homeostat.immune.baseline import Normal
from homeostat.immune.errors import IncidentUnknown
from homeostat.immune.intake import WAITING_PER_AGENT_MAX
from homeostat.server import identity
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.receipts import receipt_of
from homeostat.server.render import instant
from homeostat.server.sifting import asked, sifted

routes = Routes("immune system")

HISTORY_STEPS = 50


# --- vitals --------------------------------------------------------------------------------------------------


@routes.taking(
    "POST",
    "/v1/vitals",
    w.VitalsBody,
    gives=w.VitalsTaken,
    status=202,
    errors=(AgentUnknown, Forbidden, Unauthenticated),
    examples={"a call": {"agent_id": "researcher-1", "samples": [{"latency_ms": 900, "tokens_in": 400}]}},
)
async def post_vitals(call: Call, body: w.VitalsBody) -> w.VitalsTaken:
    """Report vitals of an agent whose calls do not pass the gateway.

    What the gateway measures outranks them. Samples that cannot be true are refused and counted, and alarm nobody. Of
    one agent sixty-four are looked at in a second: the rest of a report is refused as a `flood`, and may be sent again.
    """
    agent_id = AgentId(body.agent_id)
    await identity.require_operator_or(call, agent_id, verb="report vitals of")
    immune, now = call.system.immune, call.system.clock.now_ms()
    await call.system.fleet.require(agent_id, call.project)
    refused: dict[str, int] = {}
    accepted = 0
    for sample in body.samples:
        if accepted >= WAITING_PER_AGENT_MAX:
            problem = "flood"
        else:
            problem = await immune.report(_sample((call.project, agent_id), sample, call, now))
        if problem is None:
            accepted += 1
        else:
            refused[problem] = refused.get(problem, 0) + 1
    return w.VitalsTaken(accepted=accepted, refused=refused)


def _sample(key: AgentKey, body: w.SampleBody, call: Call, now: Millis) -> Vitals:
    return Vitals(
        sample_id=body.sample_id or f"smp_{call.system.ids.scope()}",
        project=key[0],
        agent_id=key[1],
        at_ms=now if body.at is None else Millis(int(body.at.timestamp() * 1000)),
        source="report",
        latency_ms=body.latency_ms,
        tokens_in=body.tokens_in,
        tokens_out=body.tokens_out,
        cost_usd=body.cost_usd,
        retries=body.retries,
        error=body.error,
        model=body.model,
        provider=body.provider,
        prompt_hash=body.prompt_hash,
        tools=tuple(ToolUse(tool.name, tool.arguments_hash) for tool in body.tools),
        trace_id=call.trace_id,
    )


# --- what operators do ---------------------------------------------------------------------------------------


@routes.plain("GET", "/v1/agents/{agent_id}/health", gives=w.HealthShape, errors=(AgentUnknown,))
async def read_health(call: Call) -> w.HealthShape:
    """How healthy an agent is held to be, on what evidence, and how it came to that."""
    return await _health(call, agent_key(call))


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/quarantine",
    w.ReasonBody,
    gives=w.HealthShape,
    errors=(AgentUnknown, AgentMoved, IllegalTransition, Forbidden, Unauthenticated),
    examples={"isolate": {"reason": "it mails customers", "actor": "ann"}},
)
async def quarantine_agent(call: Call, body: w.ReasonBody) -> w.HealthShape:
    """Isolate an agent. Its messages wait in its inbox; nothing is lost, and nothing is treated until you say so."""
    await identity.require_operator(call, verb="quarantine", what="agents")
    key = agent_key(call)
    await call.system.immune.quarantine(key, reason=body.reason or "an operator said so", actor=call.actor(body.actor))
    return await _health(call, key)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/kill",
    w.ReasonBody,
    gives=w.HealthShape,
    errors=(AgentUnknown, AgentMoved, Forbidden, Unauthenticated),
    examples={"end": {"reason": "it mails customers", "actor": "ann"}},
)
async def kill_agent(call: Call, body: w.ReasonBody) -> w.HealthShape:
    """Isolate an agent at once and end it, wherever it runs. It stays so until somebody releases it."""
    await identity.require_operator(call, verb="kill", what="agents")
    key = agent_key(call)
    await call.system.immune.kill(key, reason=body.reason or "an operator said so", actor=call.actor(body.actor))
    return await _health(call, key)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/release",
    w.ReasonBody,
    gives=w.HealthShape,
    errors=(AgentUnknown, AgentMoved, IllegalTransition, Forbidden, Unauthenticated),
)
async def release_agent(call: Call, body: w.ReasonBody) -> w.HealthShape:
    """Let an isolated agent out untreated; probation watches it."""
    await identity.require_operator(call, verb="release", what="agents")
    key = agent_key(call)
    await call.system.immune.release(key, reason=body.reason or "an operator said so", actor=call.actor(body.actor))
    return await _health(call, key)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/heal",
    w.ReasonBody,
    gives=w.HealthShape,
    errors=(AgentUnknown, AgentKilled, AgentMoved, IllegalTransition, Forbidden, Unauthenticated),
)
async def heal_agent(call: Call, body: w.ReasonBody) -> w.HealthShape:
    """Treat an isolated agent now, with a fresh start: what failed before may be tried again."""
    await identity.require_operator(call, verb="heal", what="agents")
    key = agent_key(call)
    await call.system.immune.heal(key, reason=body.reason or "an operator said so", actor=call.actor(body.actor))
    return await _health(call, key)


async def _health(call: Call, key: AgentKey) -> w.HealthShape:
    immune = call.system.immune
    patient = await immune.patient(key)
    incident = None
    if patient.incident_id is not None:
        incident = await immune.store.incident(key[0], patient.incident_id)
    steps = await immune.store.transitions(key, before=None, limit=HISTORY_STEPS)
    return w.HealthShape(
        agent_id=key[1],
        phase=patient.phase,
        since=rfc3339(patient.since_ms),
        cause=patient.cause,
        actor=patient.actor,
        sigma=patient.sigma,
        quarantines=patient.quarantines,
        incident=None if incident is None else await _standing(call, incident),
        baseline=normal_shapes(immune.normal.known(key)),
        history=[
            w.StepShape(
                at=rfc3339(step.at_ms),
                source=step.source,
                event=step.event,
                target=step.target,
                cause=step.cause,
                actor=step.actor,
                incident_id=step.incident_id,
                evidence=step.evidence,
            )
            for step in steps
        ],
        killed=patient.killed,
        receipt=await receipt_of(call, key),
    )


def normal_shapes(normals: tuple[Normal, ...]) -> list[w.NormalShape]:
    return [
        w.NormalShape(
            vital=normal.name,
            samples=normal.samples,
            mean=normal.mean,
            deviation=normal.deviation,
            highest=normal.highest,
        )
        for normal in normals
    ]


def agent_key(call: Call) -> AgentKey:
    agent_id = AgentId(call.parameters["agent_id"])
    if len(agent_id) > NAME_CHARS_MAX or not agent_id.isprintable():
        raise AgentUnknown(agent_id=agent_id[:NAME_CHARS_MAX], project=call.project)
    return (call.project, agent_id)


# --- incidents -----------------------------------------------------------------------------------------------


@routes.taking("GET", "/v1/immune/incidents", w.IncidentsQuery, gives=w.IncidentsPage)
async def list_incidents(call: Call, query: w.IncidentsQuery) -> w.IncidentsPage:
    """Incidents with their evidence, hypotheses and treatments, newest first."""
    store, agent_id = call.system.immune.store, None if query.agent_id is None else AgentId(query.agent_id)

    async def read(before: IncidentId | None, limit: int) -> list[w.IncidentShape]:
        found = await store.incidents(call.project, agent_id=agent_id, before=before, limit=limit)
        return [await _standing(call, one) for one in found]

    found, following = await sifted(
        asked(call, "incidents", query.q),
        read,
        lambda one: IncidentId(one.incident_id),
        cursor=None if query.cursor is None else IncidentId(query.cursor),
        limit=query.limit,
    )
    return w.IncidentsPage(incidents=found, next_cursor=following)


@routes.plain("GET", "/v1/immune/incidents/{incident_id}", gives=w.IncidentShape, errors=(IncidentUnknown,))
async def read_incident(call: Call) -> w.IncidentShape:
    """One incident."""
    incident_id = IncidentId(word_of(call, "incident_id"))
    found = await call.system.immune.store.incident(call.project, incident_id)
    if found is None:
        raise IncidentUnknown(incident_id=incident_id)
    return await _standing(call, found)


def word_of(call: Call, name: str) -> str:
    """A name out of the path; what cannot be one is as good as unknown."""
    word = call.parameters[name][:NAME_CHARS_MAX]
    return word if word.isprintable() else "?"


async def _standing(call: Call, incident: Incident) -> w.IncidentShape:
    """An incident as it stands. What was held is counted when its agent is let out; until then it is what waits now."""
    agent_id = incident.agent_id
    if agent_id is None or incident.closed_at_ms is not None:
        return _incident(incident)
    key = (incident.project, agent_id)
    if call.system.immune.phase_of(key) in RUNS:
        return _incident(incident)
    return _incident(replace(incident, held=await call.system.immune.enforcement.waiting(key)))


def _incident(incident: Incident) -> w.IncidentShape:
    return w.IncidentShape(
        incident_id=incident.incident_id,
        agent_id=incident.agent_id,
        opened_at=rfc3339(incident.opened_at_ms),
        closed_at=instant(incident.closed_at_ms),
        spread=incident.spread,
        cohort=incident.cohort,
        agents=incident.agents,
        sigma=incident.sigma,
        evidence=[
            w.EvidenceShape(
                kind=one.kind,
                sigma=one.sigma,
                at=rfc3339(one.at_ms),
                why=one.why,
                vital=one.vital,
                value=one.value,
                expected=one.expected,
                source=one.source,
            )
            for one in incident.evidence
        ],
        hypotheses=[
            w.HypothesisShape(diagnosis=one.diagnosis, confidence=one.confidence, because=one.because)
            for one in incident.hypotheses
        ],
        treatments=[
            w.TreatmentShape(
                action=one.action,
                diagnosis=one.diagnosis,
                applied=one.applied,
                note=one.note,
                at=rfc3339(one.at_ms),
                cured=one.cured,
                approval_id=one.approval_id,
            )
            for one in incident.treatments
        ],
        passed_over=incident.passed_over,
        outcome=incident.outcome,
        held=incident.held,
        resumed=incident.resumed,
        lost=incident.lost,
    )
