"""What keeps alerts until they are delivered, and what carries them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.records.webhook import Delivery, Webhook


class WebhookStore(Protocol):
    """Durable when a call returns."""

    async def put_webhook(self, webhook: Webhook) -> None: ...

    async def webhooks(self) -> list[Webhook]: ...

    async def drop_webhook(self, project: ProjectId, name: str) -> bool: ...

    async def put_delivery(self, delivery: Delivery) -> None:
        """Written once under its id."""
        ...

    async def take_delivery(self, delivery: Delivery, until: Millis) -> bool:
        """Whether it is ours to send until then; of several who try, one gets it."""
        ...

    async def settle_delivery(self, delivery: Delivery) -> None: ...

    async def due_deliveries(self, now: Millis, limit: int) -> list[Delivery]: ...

    async def deliveries(
        self, project: ProjectId, name: str, *, before: tuple[Millis, str] | None, limit: int
    ) -> list[Delivery]:
        """What was sent to a place, newest first, behind the one of a moment and an id: several may share a moment."""
        ...

    async def forget_deliveries(self, before: Millis) -> None:
        """Drop what was settled and is older."""
        ...


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of an attempt: a status, or the reason why there is none."""

    status: int | None
    problem: str = ""


class Courier(Protocol):
    """Carries a body to an address; says what came of it and raises nothing."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool) -> Posted: ...

    async def close(self) -> None: ...
