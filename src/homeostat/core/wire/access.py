"""Keys, logins and the audit log as they travel."""

from typing import Annotated

import msgspec

from homeostat.core.limits import CURSOR_MAX, PAGE_MAX
from homeostat.core.records.access import AuditOutcome, PrincipalKind, Role
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape, Value

Seconds = Annotated[float, msgspec.Meta(gt=0, le=10 * 365 * 86_400)]
Overlap = Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)]


class KeyBody(Body, frozen=True, kw_only=True):
    """A key to be made. Without a project it is good for all of them."""

    name: Name
    role: Role
    project: Name | None = None
    expires_in_seconds: Seconds | None = None


class RotationBody(Body, frozen=True, kw_only=True):
    """How long the old secret stays good."""

    overlap_seconds: Overlap = 3600.0


class RevocationBody(Body, frozen=True, kw_only=True):
    """Why a key ends."""

    reason: Annotated[str, msgspec.Meta(max_length=1024)] = ""


class KeyShape(Shape, frozen=True, kw_only=True):
    """A key; its secret is not in it."""

    key_id: str
    name: str
    role: Role
    project: str | None
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None
    old_secret_until: Instant | None


class IssuedShape(Shape, frozen=True, kw_only=True):
    """A key with its secret, which is shown this once."""

    key: KeyShape
    secret: str


class KeysShape(Shape, frozen=True, kw_only=True):
    """Every key, oldest first."""

    keys: list[KeyShape]


class LoginBody(Body, frozen=True, kw_only=True):
    """The key that proves who logs in."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class TicketQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket, and nothing else."""

    ticket: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = "none"


class OidcAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser brings back from the provider."""

    state: Annotated[str, msgspec.Meta(max_length=256)] = ""
    code: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    error: Annotated[str, msgspec.Meta(max_length=256)] = ""


class TicketShape(Shape, frozen=True, kw_only=True):
    """A path that logs a browser in, once, within a minute."""

    path: str


class SessionShape(Shape, frozen=True, kw_only=True):
    """Who is asking, as the server sees it. A page that is logged in sends the token with whatever it changes."""

    kind: PrincipalKind
    name: str
    role: Role | None
    project: str | None
    agent_id: str | None
    login_required: bool
    oidc: bool
    csrf_token: str | None = None
    expires_at: Instant | None = None


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the log."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: Annotated[int, msgspec.Meta(ge=1, le=CURSOR_MAX)] | None = None
    q: FilterText | None = None


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go on."""

    after: Annotated[int, msgspec.Meta(ge=0, le=CURSOR_MAX)] = 0


class ActShape(Shape, frozen=True, kw_only=True):
    """One act. `changes` has what was otherwise before and after, by name."""

    seq: int
    at: Instant
    actor: str
    verb: str
    object: str
    project: str
    outcome: AuditOutcome
    reason: str
    changes: Value
    trace_id: str
    of_seq: int | None
    previous: str
    digest: str


class AuditPage(Shape, frozen=True, kw_only=True):
    """Acts, newest first."""

    items: list[ActShape]
    next_cursor: int | None


class VerdictShape(Shape, frozen=True, kw_only=True):
    """Whether the log is as it was written; if not, from which entry on it is not."""

    valid: bool
    entries: int
    head: str
    broken_at: int | None
    problem: str
