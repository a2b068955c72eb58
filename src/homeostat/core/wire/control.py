"""Orders to an agent as they are sent and signed: what is to be done, by whose key, when, and only once."""

import hashlib
from typing import Annotated, Final

import msgspec

from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.wire.fields import Body, Name, Shape

PATHS: Final = {
    RemedyAction.RESET_MEMORY: "/control/reset-memory",
    RemedyAction.ROLLBACK_PROMPT: "/control/rollback-prompt",
    RemedyAction.REDUCE_AUTONOMY: "/control/reduce-autonomy",
    RemedyAction.REVOKE_TOOLS: "/control/revoke-tools",
}
ACTIONS: Final = {path: action for action, path in PATHS.items()}

TIMESTAMP: Final = "x-homeostat-timestamp"
NONCE: Final = "x-homeostat-nonce"
SIGNATURE: Final = "x-homeostat-signature"
ORDER_BYTES_MAX: Final = 16 << 10
ORDER_AGE_SECONDS_MAX: Final = 60.0


class OrderBody(Body, frozen=True, kw_only=True):
    """Whom an order is for, and why it is given."""

    project: Name
    agent_id: Name
    reason: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class OrderAnswer(Shape, frozen=True, kw_only=True):
    """What became of an order."""

    applied: Applied
    note: str


class ControlBody(Body, frozen=True, kw_only=True):
    """Where an agent takes orders, on an operator's word; `private` allows an address of one's own network."""

    url: Annotated[str, msgspec.Meta(max_length=500, pattern=r"^https?://")]
    private: bool = False
    actor: Name = "operator"


class ControlShape(Shape, frozen=True, kw_only=True):
    """Where an agent takes orders, and who said so."""

    agent_id: str
    url: str
    private: bool
    by: str


def signed_text(path: str, timestamp: str, nonce: str, body: bytes) -> bytes:
    """What is signed: everything that makes an order this order."""
    return "\n".join(("homeostat-order-1", path, timestamp, nonce, hashlib.sha256(body).hexdigest())).encode()
