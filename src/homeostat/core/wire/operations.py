"""Operations and fire drills as they travel."""

from typing import Annotated, Any

import msgspec

from homeostat.core.limits import DRILL_SECONDS_MAX, PAGE_MAX
from homeostat.core.records.immune import Diagnosis
from homeostat.core.wire.bodies import Cursor, Limit
from homeostat.core.wire.fields import Body, Instant, Name, Shape
from homeostat.core.wire.orders import Reason


class DrillBody(Body, frozen=True, kw_only=True):
    """Which fault to pretend, why, and how long it may take until the agent is isolated."""

    kind: Diagnosis
    reason: Reason
    actor: Name = "operator"
    seconds: Annotated[float, msgspec.Meta(ge=1, le=DRILL_SECONDS_MAX)] = 60.0


class DrillShape(Shape, frozen=True, kw_only=True):
    """What a drill measured, in seconds since it began; null is what did not happen in time."""

    agent_id: str
    kind: Diagnosis
    pretended: str
    detected_after_seconds: float | None
    contained_after_seconds: float | None
    recovered_after_seconds: float | None
    first_hypothesis: str | None
    incident_id: str | None
    sigma: float
    released: bool
    problem: str


class OperationShape(Shape, frozen=True, kw_only=True):
    """Work that goes on: `result` is what the request would have been answered with, `error` why it was not done.

    `lost` belongs to a process that has ended: how far it came is shown by the object itself.
    """

    operation_id: str
    verb: str
    object: str
    actor: str
    status: str
    started_at: Instant
    ended_at: Instant | None
    result: Any
    error: Any


class OperationsPage(Shape, frozen=True, kw_only=True):
    """Operations, newest first."""

    operations: list[OperationShape]
    next_cursor: str | None


class OperationsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the operations."""

    limit: Limit = PAGE_MAX
    cursor: Cursor | None = None
