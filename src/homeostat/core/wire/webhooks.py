"""Webhooks and their deliveries as they travel."""

from typing import Annotated, Literal

import msgspec

from homeostat.core.limits import PAGE_MAX
from homeostat.core.records.webhook import DeliveryStatus
from homeostat.core.wire.fields import Body, Instant, Shape

DELIVERY_CURSOR = r"^[0-9]{1,15}\.\w*(?![\s\S])"
WebhookKind = Literal["alert", "approval", "phase", "budget"]
Address = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/@]+(/[^\s]*)?(?![\s\S])", max_length=2048)]


class WebhookBody(Body, frozen=True, kw_only=True):
    """Where to send, and what. Addresses inside the house have to be meant."""

    url: Address
    kinds: Annotated[tuple[WebhookKind, ...], msgspec.Meta(min_length=1)] = ("alert", "approval")
    allow_private: bool = False


class WebhookShape(Shape, frozen=True, kw_only=True):
    """A webhook. Its secret is there in the answer that made it, and never again."""

    name: str
    url: str
    kinds: tuple[str, ...]
    allow_private: bool
    created_at: Instant
    secret: str | None = None


class WebhooksShape(Shape, frozen=True, kw_only=True):
    """Every webhook of a project."""

    webhooks: list[WebhookShape]


class DeliveriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the log."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: (
        Annotated[
            str,
            msgspec.Meta(pattern=DELIVERY_CURSOR, max_length=100, description="`next_cursor` of the page before."),
        ]
        | None
    ) = None


class DeliveryShape(Shape, frozen=True, kw_only=True):
    """One alert to one place."""

    delivery_id: str
    kind: str
    status: DeliveryStatus
    attempts: int
    last_status: int | None
    last_problem: str
    created_at: Instant
    last_at: Instant | None
    next_at: Instant | None


class DeliveriesPage(Shape, frozen=True, kw_only=True):
    """Deliveries, newest first."""

    deliveries: list[DeliveryShape]
    next_cursor: str | None
