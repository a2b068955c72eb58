"""What keeps keys, logins and the audit log."""

from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ports.operations import OperationStore
from homeostat.core.ports.webhook import WebhookStore
from homeostat.core.records.access import (
    Act,
    ApiKey,
    AuditEntry,
    Cordon,
    KeyId,
    Login,
    LoginKind,
    Repeat,
    Request,
)
from homeostat.core.records.turn import AgentKey


class AccessStore(Protocol):
    """Durable when a call returns."""

    async def put_key(self, key: ApiKey) -> None:
        """Write a key as it now is."""
        ...

    async def key(self, key_id: KeyId) -> ApiKey | None: ...

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        """The key that has this digest now, or had it before its last rotation."""
        ...

    async def keys(self) -> list[ApiKey]:
        """Every key there is, oldest first; revoked ones too."""
        ...

    async def touch_key(self, key_id: KeyId, at: Millis) -> None:
        """Note that a key was used; an older note never overwrites a newer one."""
        ...

    async def put_login(self, login: Login) -> None: ...

    async def login(self, kind: LoginKind, digest: str, now: Millis) -> Login | None:
        """A login that has not run out."""
        ...

    async def take_login(self, kind: LoginKind, digest: str, now: Millis) -> Login | None:
        """As `login`, and it is gone: of several who ask, one gets it."""
        ...

    async def forget_logins(self, now: Millis) -> None:
        """Drop what has run out."""
        ...

    async def append(self, act: Act) -> AuditEntry:
        """Add an act to the chain; concurrent ones stand behind each other."""
        ...

    async def audit(self, *, before: int | None, limit: int) -> list[AuditEntry]:
        """Entries, newest first."""
        ...

    async def audit_from(self, after: int, limit: int) -> list[AuditEntry]:
        """Entries, oldest first, for whoever reads all of them."""
        ...

    async def claim(self, request: Request, now: Millis, abandoned: Millis) -> Repeat | None:
        """Begin a request under its key; of several one gets None, the others what is known of it.

        One that began before `abandoned` and has no answer is begun again.
        """
        ...

    async def keep_answer(self, request: Request, answer: Json) -> None: ...

    async def drop_claim(self, request: Request) -> None:
        """The request did nothing, and may be made again."""
        ...

    async def forget_repeats(self, until: Millis) -> None: ...

    async def put_cordon(self, cordon: Cordon) -> None: ...

    async def cordon(self, agent: AgentKey) -> Cordon | None: ...

    async def drop_cordon(self, agent: AgentKey) -> bool:
        """Whether there was one."""
        ...


class AccessKeeper(AccessStore, WebhookStore, OperationStore, Protocol):
    """One keeper of all three: they share an engine, and little else."""
