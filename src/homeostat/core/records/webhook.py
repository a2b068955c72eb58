"""Where alerts go, and each alert on its way."""

from dataclasses import dataclass, field
from enum import StrEnum

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId


class DeliveryStatus(StrEnum):
    """How far an alert is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A place that wants to hear of some kinds of event. Its secret signs what is sent, and is never shown again."""

    project: ProjectId
    name: str
    url: str
    secret: str = field(repr=False)
    kinds: tuple[str, ...]
    allow_private: bool
    created_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One alert to one place, and what became of each attempt."""

    delivery_id: str
    project: ProjectId
    webhook: str
    kind: str
    body: Json
    created_at_ms: Millis
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    last_status: int | None = None
    last_problem: str = ""
    last_at_ms: Millis | None = None
    next_at_ms: Millis | None = None
