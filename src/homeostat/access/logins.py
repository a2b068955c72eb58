"""Logins of browsers: a session behind a cookie, with a token that only its own pages know."""

from dataclasses import dataclass
from typing import Final

import msgspec

from homeostat.access.keys import Keys
from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import Json, read_as
from homeostat.core.errors import Unauthenticated
from homeostat.core.ids import Ids, ProjectId, key_digest
from homeostat.core.ports.access import AccessStore
from homeostat.core.records.access import KeyId, Login, LoginKind, Principal, PrincipalKind, Role

SESSION_SECONDS: Final = 12 * 3600.0
TICKET_SECONDS: Final = 60.0
OIDC_SECONDS: Final = 600.0


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the server knows behind a session's cookie."""

    csrf: str
    key_id: str | None = None
    name: str = ""
    role: Role | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is logged in."""

    principal: Principal
    csrf: str
    expires_at_ms: Millis


@dataclass(frozen=True, slots=True)
class Begun:
    """A session and the secret that its cookie holds."""

    session: Session
    secret: str


class Logins:
    """Begins, recognises and ends sessions. One that a key opened ends with that key."""

    def __init__(self, *, store: AccessStore, keys: Keys, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock
        self._ids = ids

    async def begin(self, principal: Principal) -> Begun:
        """Log somebody in who has proven who they are."""
        now, secret, csrf = self._clock.now_ms(), self._ids.token(), self._ids.token()
        held = _Held(
            csrf=csrf,
            key_id=principal.key_id,
            name=principal.name,
            role=principal.role,
            project=principal.project,
        )
        login = self._login(LoginKind.SESSION, secret, held, SESSION_SECONDS)
        await self._store.forget_logins(now)
        await self._store.put_login(login)
        return Begun(Session(principal, csrf, login.expires_at_ms), secret)

    async def recognise(self, secret: str) -> Session:
        """The session behind a cookie."""
        login = await self._store.login(LoginKind.SESSION, key_digest(secret), self._clock.now_ms())
        if login is None:
            raise Unauthenticated
        held = read_as(_Held, login.data)
        if held.key_id is not None:
            principal = await self._keys.principal(KeyId(held.key_id))
        else:
            principal = Principal(
                kind=PrincipalKind.PERSON,
                name=held.name,
                role=held.role,
                project=None if held.project is None else ProjectId(held.project),
            )
        return Session(principal, held.csrf, login.expires_at_ms)

    async def end(self, secret: str) -> None:
        await self._store.take_login(LoginKind.SESSION, key_digest(secret), self._clock.now_ms())

    async def ticket(self, principal: Principal) -> str:
        """What opens one session, once, within a minute: for a browser that a command opens."""
        secret = self._ids.token()
        held = _Held(csrf="", key_id=principal.key_id, name=principal.name, role=principal.role)
        await self._store.put_login(self._login(LoginKind.TICKET, secret, held, TICKET_SECONDS))
        return secret

    async def redeem(self, secret: str) -> Begun:
        """Turn a ticket into a session."""
        login = await self._store.take_login(LoginKind.TICKET, key_digest(secret), self._clock.now_ms())
        held = None if login is None else read_as(_Held, login.data)
        if held is None or held.key_id is None:
            raise Unauthenticated
        return await self.begin(await self._keys.principal(KeyId(held.key_id)))

    async def remember(self, secret: str, data: object) -> None:
        """Keep what a login at a provider will need when the browser comes back."""
        await self._store.put_login(self._login(LoginKind.OIDC, secret, data, OIDC_SECONDS))

    async def recall(self, secret: str) -> Json:
        """What was kept, once."""
        login = await self._store.take_login(LoginKind.OIDC, key_digest(secret), self._clock.now_ms())
        if login is None:
            raise Unauthenticated
        return login.data

    def _login(self, kind: LoginKind, secret: str, data: object, seconds: float) -> Login:
        return Login(
            digest=key_digest(secret),
            kind=kind,
            data=Json(msgspec.json.encode(data).decode()),
            expires_at_ms=Millis(self._clock.now_ms() + int(seconds * 1000)),
        )
