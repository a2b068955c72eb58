"""Long work over HTTP: 202 with an operation, where to look at it, and fire drills, which are nothing else."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from homeostat.app.operations import OperationUnknown
from homeostat.core.clock import rfc3339
from homeostat.core.codec import Json
from homeostat.core.errors import AgentUnknown, Forbidden, HomeostatError, Overloaded, Unauthenticated
from homeostat.core.records.operation import Operation, OperationStatus
from homeostat.core.wire import operations as w
from homeostat.immune.drill import FAULTS, Drill
from homeostat.immune.errors import DrillRefused
from homeostat.server import names
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.problems import problem
from homeostat.server.render import instant

routes = Routes("operations")

LONG: Final = frozenset({"replay_run", "verify_run", "verify_audit", "approve_all", "press_button"})
"""What answers with an operation where the caller prefers it (`Prefer: respond-async`)."""

_encode = msgspec.json.Encoder().encode


@routes.taking("GET", "/v1/operations", w.OperationsQuery, gives=w.OperationsPage, errors=(Forbidden, Unauthenticated))
async def list_operations(call: Call, query: w.OperationsQuery) -> w.OperationsPage:
    """Long work, newest first, whichever server does it: what goes on, and what ended within a day."""
    found = await call.system.operations.all(call.project, before=query.cursor, limit=query.limit)
    following = found[-1].operation_id if len(found) == query.limit else None
    return w.OperationsPage(operations=[_operation(one) for one in found], next_cursor=following)


@routes.plain(
    "GET",
    "/v1/operations/{operation_id}",
    gives=w.OperationShape,
    errors=(OperationUnknown, Forbidden, Unauthenticated),
)
async def read_operation(call: Call) -> Answer:
    """One operation. While it goes on, `Retry-After` says when to look again."""
    found = await call.system.operations.get(call.project, call.parameters["operation_id"])
    headers = ((b"retry-after", b"1"),) if found.status is OperationStatus.RUNNING else ()
    return Answer(200, _encode(_operation(found)), headers=headers)


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/drill",
    w.DrillBody,
    gives=w.OperationShape,
    status=202,
    errors=(AgentUnknown, DrillRefused, Overloaded, Forbidden, Unauthenticated),
    examples={"costs": {"kind": "cost_overrun", "reason": "the monthly drill", "actor": "ann"}},
)
async def drill_agent(call: Call, body: w.DrillBody) -> Answer:
    """Hold a fire drill: pretend a fault of an agent, down the real path, and measure how soon it is noticed and held.

    Nothing is treated and nothing is learned. The agent is isolated for some seconds, in which its messages wait, and
    is let out again whatever happens. The operation's `result` has what was measured.
    """
    key = names.agent_key(call)
    drills = call.system.immune.drills
    await drills.check(key, body.kind)
    actor = call.actor(body.actor)

    async def work() -> w.DrillShape:
        return _drill(await drills.hold(key, body.kind, actor=actor, seconds=body.seconds))

    return await accepted(call, "drill_agent", work, actor=actor)


async def accepted(call: Call, verb: str, work: Callable[[], Awaitable[Any]], *, actor: str) -> Answer:
    """202, and where to look."""

    def explain(error: HomeostatError) -> Json:
        return Json(problem(error, call.trace_id or "").body.decode())

    operation = await call.system.operations.begin(
        call.project, verb, names.object_of(call), work, actor=actor, explain=explain
    )
    place = f"/v1/operations/{operation.operation_id}".encode()
    return Answer(202, _encode(_operation(operation)), headers=((b"location", place), (b"retry-after", b"1")))


def _drill(drill: Drill) -> w.DrillShape:
    return w.DrillShape(
        agent_id=drill.agent[1],
        kind=drill.kind,
        pretended=FAULTS[drill.kind],
        detected_after_seconds=_rounded(drill.detected_after),
        contained_after_seconds=_rounded(drill.contained_after),
        recovered_after_seconds=_rounded(drill.recovered_after),
        first_hypothesis=drill.first_hypothesis,
        incident_id=drill.incident_id,
        sigma=round(drill.sigma, 2),
        released=drill.released,
        problem=drill.problem,
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def _operation(one: Operation) -> w.OperationShape:
    return w.OperationShape(
        operation_id=one.operation_id,
        verb=one.verb,
        object=one.object,
        actor=one.actor,
        status=one.status,
        started_at=rfc3339(one.started_at_ms),
        ended_at=instant(one.ended_at_ms),
        result=_raw(one.result),
        error=_raw(one.error),
    )


def _raw(text: Json | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
