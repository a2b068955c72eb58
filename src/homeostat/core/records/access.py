"""Who may do what: roles, keys, logins, the principal behind a request, and what operators did."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId

KeyId = NewType("KeyId", str)


class Role(StrEnum):
    """What a person or a program may do here; agents have no role."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


class PrincipalKind(StrEnum):
    """How somebody came to be known."""

    NOBODY = "nobody"
    LOCAL = "local"
    KEY = "key"
    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling. Without a project it may act in all of them."""

    kind: PrincipalKind
    name: str
    role: Role | None = None
    project: ProjectId | None = None
    agent_id: AgentId | None = None
    key_id: KeyId | None = None


NOBODY = Principal(kind=PrincipalKind.NOBODY, name="nobody")
LOCAL = Principal(kind=PrincipalKind.LOCAL, name="local", role=Role.ADMIN)
"""Whoever sits at this machine, where no login is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is kept: digests only. After a rotation the old secret opens until `old_until_ms`."""

    key_id: KeyId
    name: str
    role: Role
    project: ProjectId | None
    digest: str
    created_at_ms: Millis
    created_by: str
    expires_at_ms: Millis | None = None
    last_used_ms: Millis | None = None
    revoked_at_ms: Millis | None = None
    old_digest: str | None = None
    old_until_ms: Millis | None = None

    def opens(self, digest: str, now: Millis) -> bool:
        """Whether a secret with this digest opens anything at this moment."""
        if self.revoked_at_ms is not None or (self.expires_at_ms is not None and self.expires_at_ms <= now):
            return False
        if digest == self.digest:
            return True
        return digest == self.old_digest and self.old_until_ms is not None and now < self.old_until_ms


class LoginKind(StrEnum):
    """What a stored login is good for: a session many times, the others once."""

    SESSION = "session"
    TICKET = "ticket"
    OIDC = "oidc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Something a browser holds the secret of; `data` is what the server wants to know when it comes back."""

    digest: str
    kind: LoginKind
    data: Json
    expires_at_ms: Millis


class AuditOutcome(StrEnum):
    """An act is written down before it is tried, and again when its end is known."""

    REQUESTED = "requested"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request under an Idempotency-Key: whose, and what was asked."""

    project: ProjectId
    actor: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """What is known of a request that began before; no answer yet means that it is under way."""

    fingerprint: str
    answer: Json | None


CORDONED: Final = "cordoned by "
"""How the reason begins for which the gate of a cordoned agent is shut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Why an agent gets no new turns, and on whose word."""

    project: ProjectId
    agent_id: AgentId
    reason: str
    actor: str
    at_ms: Millis


NO_CHANGES = Json("{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody did: who, what, to which object, why, and what changed by it."""

    at_ms: Millis
    actor: str
    verb: str
    object: str
    project: ProjectId
    outcome: AuditOutcome
    reason: str = ""
    changes: Json = NO_CHANGES
    trace_id: str = ""
    of_seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An act in the chain: its digest covers the act and the digest before it."""

    seq: int
    act: Act
    previous: str
    digest: str
