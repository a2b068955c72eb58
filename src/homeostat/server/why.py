"""Why anything is as it is, in one paragraph: cause, evidence, decision, effect. Every surface shows this text."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from homeostat.core.errors import AgentUnknown, TurnUnknown
from homeostat.core.ids import AgentId
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.immune import IMMUNE_ACTOR, ApprovalStatus, Diagnosis
from homeostat.core.records.run import TaskStanding
from homeostat.core.run_errors import RunUnknown
from homeostat.core.wire.answers import TurnShape
from homeostat.core.wire.gateway import CallShape
from homeostat.core.wire.immune import ApprovalShape, HealthShape, IncidentShape, StepShape
from homeostat.core.wire.runs import RunShape, TaskShape, TasksPage, TasksQuery
from homeostat.core.wire.why import WhyShape
from homeostat.gateway.errors import CallUnknown
from homeostat.immune.errors import ApprovalUnknown, IncidentUnknown
from homeostat.server import gateway, immune, immune_approvals, runs, turns
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

T = TypeVar("T")

routes = Routes("why")

NONE_SHUT: Final[Mapping[str, Head]] = {}
SEEN_MAX = 3
TOLD_CHARS_MAX = 200
TASKS_LOOKED_AT = 200


@routes.plain("GET", "/v1/why/agents/{agent_id}", gives=WhyShape, errors=(AgentUnknown,))
async def explain_agent(call: Call) -> WhyShape:
    """Why an agent's health is what it is."""
    return of_agent(_as(HealthShape, await immune.read_health(call)))


@routes.plain("GET", "/v1/why/incidents/{incident_id}", gives=WhyShape, errors=(IncidentUnknown,))
async def explain_incident(call: Call) -> WhyShape:
    """Why there was an incident, and what was done about it."""
    return of_incident(_as(IncidentShape, await immune.read_incident(call)))


@routes.plain("GET", "/v1/why/approvals/{approval_id}", gives=WhyShape, errors=(ApprovalUnknown,))
async def explain_approval(call: Call) -> WhyShape:
    """Why somebody is asked, and what came of it."""
    return of_approval(_as(ApprovalShape, await immune_approvals.read_approval(call)))


@routes.plain("GET", "/v1/why/runs/{run_id}", gives=WhyShape, errors=(RunUnknown,))
async def explain_run(call: Call) -> WhyShape:
    """Why a run stands where it stands."""
    run = _as(RunShape, await runs.read_run(call))
    first = _as(TasksPage, await runs.list_tasks(call, TasksQuery(limit=TASKS_LOOKED_AT)))
    in_line = _as(TasksPage, await runs.list_tasks(call, TasksQuery(status=TaskStanding.QUEUED, limit=TASKS_LOOKED_AT)))
    tasks = [task for task in first.tasks if task.status is not TaskStanding.QUEUED] + in_line.tasks
    waited_for = {task.agent_id for task in in_line.tasks if task.agent_id}
    return of_run(run, tasks, left=await _left(call, waited_for), shut=await _shut(call, waited_for))


@routes.plain("GET", "/v1/why/turns/{turn_id}", gives=WhyShape, errors=(TurnUnknown,))
async def explain_turn(call: Call) -> WhyShape:
    """Why a turn is where it is: who asked, who works on it, what it waits for, how it ended."""
    turn = _as(TurnShape, await turns.read_turn(call))
    waited_for = [turn.agent_id] if turn.deliverable is None and turn.worker_id is None else []
    shut = await _shut(call, waited_for)
    return of_turn(turn, left=bool(await _left(call, waited_for)), shut=shut.get(turn.agent_id))


@routes.plain("GET", "/v1/why/calls/{call_id}", gives=WhyShape, errors=(CallUnknown,))
async def explain_call(call: Call) -> WhyShape:
    """Why a model call ended as it did, and what it cost."""
    return of_call(_as(CallShape, await gateway.read_call(call)))


def _as(kind: type[T], given: object) -> T:
    """What another route shows; a route may answer with anything, these answer with one shape."""
    assert isinstance(given, kind)
    return given


async def _left(call: Call, agent_ids: Collection[str]) -> set[str]:
    """Those of some agents that left the fleet. One that was never in it may be at work all the same."""
    fleet = call.system.fleet
    return {one for one in agent_ids if await fleet.has_left(AgentId(one), call.project)}


async def _shut(call: Call, agent_ids: Collection[str]) -> dict[str, Head]:
    """Those of some agents that are given no turns, with their heads; agents may not know why others are held."""
    if call.principal.kind is PrincipalKind.AGENT:
        return {}
    keys = [(call.project, AgentId(one)) for one in agent_ids]
    found = await call.system.kernel.store.load(keys) if keys else {}
    return {key[1]: mailbox.head for key, mailbox in found.items() if mailbox.head.gate is not Gate.OPEN}


# --- in words ------------------------------------------------------------------------------------------------------


def _why(
    noun: str,
    thing: str,
    *,
    cause: str,
    evidence: str = "",
    decision: str = "",
    effect: str = "",
    waits_for: Sequence[str] = (),
) -> WhyShape:
    return WhyShape(
        noun=noun,
        id=thing,
        cause=cause,
        evidence=evidence,
        decision=decision,
        effect=effect,
        text=" ".join(part for part in (cause, evidence, decision, effect) if part),
        waits_for=tuple(waits_for),
    )


def of_agent(health: HealthShape) -> WhyShape:
    incident = health.incident
    known = set[str]() if incident is None else {one.why for one in incident.evidence}
    # What was measured is told as the evidence, and once.
    reason = "" if _measured(health.cause, known) else health.cause
    said = f", by {health.actor}" if health.cause else ""
    said += f": {reason}." if reason else "."
    effect = "" if incident is None else _kept(incident)
    if way := _way(health.history, told=known | {health.cause}):
        effect = f"{effect} It came to this by {way}.".strip()
    return _why(
        "agent",
        health.agent_id,
        cause=f"{health.agent_id} is {health.phase} since {_at(health.since)}{said}",
        evidence="" if incident is None else _evidence(incident),
        decision="" if incident is None else _decision(incident),
        effect=effect,
    )


def _measured(cause: str, known: Collection[str]) -> bool:
    """Whether a cause is nothing but measurements that are among the evidence, which may have semicolons in them."""
    left = cause
    for one in sorted(filter(None, known), key=len, reverse=True):
        left = left.replace(one, "")
    return bool(cause) and not left.strip("; ")


def _way(history: Sequence[StepShape], *, told: Collection[str]) -> str:
    """The last steps, oldest first; a reason that was given before is not given again."""
    steps: list[str] = []
    for step in reversed(history[:5]):
        new = step.cause and step.cause not in told and not _measured(step.cause, told)
        by = "" if step.actor == IMMUNE_ACTOR else f" by {step.actor}"
        steps.append(f"{step.target}{by}{f' ({step.cause})' if new else ''}")
    return " → ".join(steps) if len(steps) > 1 else ""


def of_incident(incident: IncidentShape) -> WhyShape:
    whom = incident.agent_id or f"{len(incident.agents)} agents of {incident.cohort}"
    state = f"ended at {_at(incident.closed_at)}" if incident.closed_at else "is open"
    outcome = f" as {_words(incident.outcome)}" if incident.outcome and incident.closed_at else ""
    return _why(
        "incident",
        incident.incident_id,
        cause=f"{incident.incident_id} of {whom} began at {_at(incident.opened_at)} and {state}{outcome}.",
        evidence=_evidence(incident),
        decision=_decision(incident) or "Nothing was done about it yet.",
        effect=_kept(incident),
    )


def _evidence(incident: IncidentShape) -> str:
    strongest: dict[str, str] = {}
    for one in sorted(incident.evidence, key=lambda one: -one.sigma):
        strongest.setdefault(one.kind, one.why)
    seen = list(dict.fromkeys(strongest.values()))[:SEEN_MAX]
    noticed = f"It was noticed because {'; '.join(seen)} ({incident.sigma:.1f} sigma at worst)." if seen else ""
    likely = [
        f"{_words(one.diagnosis)} ({one.confidence:.0%})"
        for one in incident.hypotheses[:SEEN_MAX]
        if one.diagnosis != Diagnosis.UNKNOWN
    ]
    guess = f"It may be {', or '.join(likely)}." if likely else "Nobody knows the cause yet."
    return f"{noticed} {guess}".strip() if incident.hypotheses else noticed


def _decision(incident: IncidentShape) -> str:
    told = [f"{one}." for one in incident.passed_over]
    for one in incident.treatments:
        result = {True: "it helped", False: "it did not help", None: "probation will tell"}[one.cured]
        told.append(f"{_words(one.action)} was {_words(one.applied)} ({one.note}); {result}.")
    return " ".join(told)


def _kept(incident: IncidentShape) -> str:
    held = "1 message" if incident.held == 1 else f"{incident.held} messages"
    if incident.closed_at is None and not incident.resumed:
        return f"{held} waiting, {incident.lost} lost."
    return f"{held} held, {incident.resumed} resumed, {incident.lost} lost."


def of_approval(approval: ApprovalShape) -> WhyShape:
    if approval.answered_at is not None:
        reason = f": {approval.reason}" if approval.reason else ""
        decision = f"It was {approval.status} by {approval.answered_by} at {_at(approval.answered_at)}{reason}."
    elif approval.status is ApprovalStatus.PENDING:
        decision = f"Nobody has answered; it can be answered until {_at(approval.expires_at)}."
    else:
        decision = f"It is {approval.status}."
    effects = {
        ApprovalStatus.PENDING: "Until then the agent stays isolated, and its messages wait.",
        ApprovalStatus.APPROVED: "It is tried once, on this evidence; probation shows whether it helped.",
        ApprovalStatus.REJECTED: "The agent stays isolated until somebody heals or releases it.",
    }
    asked = f"{_words(approval.action)} of {approval.agent_id} was proposed at {_at(approval.asked_at)}"
    return _why(
        "approval",
        approval.approval_id,
        cause=f"{asked}, against {_words(approval.diagnosis)}.",
        evidence=f"The reason given is: {approval.why} (incident {approval.incident_id}).",
        decision=decision,
        effect=effects.get(approval.status, "The agent stays as it is."),
    )


def of_run(
    run: RunShape, tasks: Sequence[TaskShape], *, left: Collection[str] = (), shut: Mapping[str, Head] = NONE_SHUT
) -> WhyShape:
    moved, budget = run.moved, run.budget
    counted = ", ".join(f"{count:,} {word}" for word, count in run.tasks.items()) or "none yet"
    held = [task for task in tasks if task.status is TaskStanding.HELD]
    failed = [task for task in tasks if task.status is TaskStanding.FAILED]
    queued = [task for task in tasks if task.status is TaskStanding.QUEUED]
    stuck = [task for task in queued if task.agent_id in left]
    held_up = Counter(task.agent_id for task in queued if task.agent_id in shut and task.agent_id not in left)
    handed = [task for task in queued if run.status == "paused" and not run.at_rest and task.agent_id not in left]
    seen = [f"Its tasks: {counted}; it has spent ${budget.usd_spent:.2f} and {budget.tokens_spent:,} tokens."]
    seen += [f"Task {one.name} failed: {_brief(one.error)}." for one in failed[:SEEN_MAX]]
    seen += [f"Task {one.name} waits to be approved." for one in held[:SEEN_MAX] if one.approval]
    seen += [
        f"Task {one.name} waits for {one.agent_id}, which has left the fleet: it is carried out once that registers "
        f"again, and fails if somebody stops {one.turn_id}."
        for one in stuck[:SEEN_MAX]
    ]
    seen += [
        f"{'1 task waits' if count == 1 else f'{count} tasks wait'} at {_gate(shut[agent_id])}."
        for agent_id, count in held_up.most_common(SEEN_MAX)
        if agent_id is not None
    ]
    seen += [
        f"Task {one.name} was handed to {one.agent_id} before, and is carried out when its turn comes: "
        f"homeostat pause {run.run_id} --force holds it back."
        for one in handed[:SEEN_MAX]
    ]
    if run.error is not None and _brief(run.error) != "null":
        seen.append(f"Its error is {_brief(run.error)}.")
    reason = f": {moved.reason}" if moved.reason else ""
    after = {
        "paused": f"No task begins; homeostat resume {run.run_id} goes on, kill ends it.",
        "planned": f"It waits to be carried out: homeostat apply {run.run_id}.",
        "applying": f"It goes on; {budget.forecast}." if budget.forecast else "It goes on.",
    }
    if run.waits_for:
        after["applying"] = "It stands still until these agents can work."
    ended = "It is over, and nothing of it runs." if run.at_rest else "It is being brought to rest."
    held_by = f" (held by {run.paused_by})" if run.paused_by is not None else ""
    return _why(
        "run",
        run.run_id,
        cause=f"{run.run_id} ({_cut(run.goal)}) was begun by {run.created_by} at {_at(run.created_at)}.",
        evidence=" ".join(seen),
        decision=f"It is {run.status}{held_by} since {_at(moved.at)}, by {moved.actor}{reason}.",
        effect=after.get(run.status, ended),
        waits_for=run.waits_for,
    )


def of_turn(turn: TurnShape, *, left: bool = False, shut: Head | None = None) -> WhyShape:
    asked = f"by {turn.source_agent_id}" if turn.source_agent_id else "from outside"
    seen: list[str] = []
    if turn.starts:
        started = "once" if turn.starts == 1 else f"{turn.starts} times"
        lost = {0: "", 1: ", and lost once"}.get(turn.losses, f", and lost {turn.losses} times")
        seen.append(f"It was started {started}, is at epoch {turn.epoch}{lost}.")
    if turn.worker_id and turn.lease_expires_at:
        seen.append(f"{turn.worker_id} works on it; its lease holds until {_at(turn.lease_expires_at)}.")
    seen += [
        f"It waits for {wait.tool} ({wait.tool_call_id}) until {_at(wait.deadline_at)}."
        for wait in turn.waits
        if wait.status == "pending"
    ]
    ended, effect = turn.deliverable, ""
    if ended is not None:
        told = ended.result if bytes(ended.error) == b"null" else ended.error
        effect = f"It ended at {_at(ended.finished_at)} as {ended.status}: {_brief(told)}."
    elif left:
        effect = f"{turn.agent_id} has left the fleet: the turn is kept until it registers again, or somebody stops it."
    elif shut is not None:
        effect = f"It waits at {_gate(shut)}."
    elif turn.status == "queued":
        effect = f"It waits for its place in the line; `homeostat describe head {turn.agent_id}` shows the gate."
    return _why(
        "turn",
        turn.turn_id,
        cause=f"{turn.turn_id} of {turn.agent_id} is {turn.status}, asked for {asked} at {_at(turn.created_at)}.",
        evidence=" ".join(seen),
        effect=effect,
    )


def of_call(call: CallShape) -> WhyShape:
    cost = "an unknown price" if call.cost_usd is None else f"${call.cost_usd:.6f}"
    paid = f", for run {call.run_id}" if call.run_id else ""
    decision = f"The gateway let it through; {call.upstream} answered with HTTP {call.status}."
    if call.policy_id:
        decision = f"Policy {call.policy_id} acted on it: {call.code or call.outcome}."
    elif call.code:
        decision = f"It was answered with HTTP {call.status}: {call.code}."
    tools = list(dict.fromkeys(one.name for one in call.tool_calls))[:SEEN_MAX]
    tokens = f"{call.tokens_in} tokens in and {call.tokens_out} out"
    seen = f"It took {call.latency_ms:.0f} ms, {tokens}, {call.retries} retries."
    if tools:
        seen += f" The model asked for {', '.join(tools)}."
    return _why(
        "call",
        call.call_id,
        cause=f"{call.agent_id} asked {call.model} at {_at(call.started_at)}{paid}.",
        evidence=seen,
        decision=decision,
        effect=f"It ended as {call.outcome} and cost {cost} ({call.metered}, {call.priced}).",
    )


def _gate(head: Head) -> str:
    """Whose gate keeps turns, and why; the agent's own why says who could open it."""
    reason = f" ({_cut(head.gate_reason)})" if head.gate_reason else ""
    return f"the gate of {head.agent_id}, which is {head.gate}{reason}: homeostat why {head.agent_id}"


def _at(instant: str) -> str:
    """An instant as people say it; the shapes it comes from have it to the millisecond."""
    day, _, time = instant.partition("T")
    return f"{time[:8]} UTC on {day}"


def _words(name: str) -> str:
    """A name out of one of our own tables, as people say it."""
    return name.replace("_", " ")


def _brief(value: object) -> str:
    if isinstance(value, msgspec.Raw):
        return _cut(bytes(value).decode())
    return _cut(value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= TOLD_CHARS_MAX else text[: TOLD_CHARS_MAX - 1] + "…"
