"""Work that takes longer than a request should, as it is kept."""

from dataclasses import dataclass
from enum import StrEnum

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId


class OperationStatus(StrEnum):
    """Where an operation stands. `lost` is what a process took with it when it ended: look at the object itself."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of work: what came of it is `result`, or why nothing did is `error`.

    While it goes on its owner renews `held_until_ms`; what nobody has settled by then is lost.
    """

    operation_id: str
    project: ProjectId
    verb: str
    object: str
    actor: str
    owner: str
    started_at_ms: Millis
    held_until_ms: Millis | None
    status: OperationStatus = OperationStatus.RUNNING
    ended_at_ms: Millis | None = None
    result: Json | None = None
    error: Json | None = None
