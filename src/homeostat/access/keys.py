"""Keys of people and programs: shown once, kept as digests, expiring, rotated without a gap, revoked at once."""

from dataclasses import dataclass, replace
from typing import Final

from homeostat.access.errors import KeyUnknown
from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import Unauthenticated
from homeostat.core.ids import Ids, ProjectId, key_digest
from homeostat.core.ports.access import AccessStore
from homeostat.core.records.access import ApiKey, KeyId, Principal, PrincipalKind, Role

CACHE_SECONDS: Final = 2.0  # how long another process may take to hear that a key was revoked
TOUCH_SECONDS: Final = 60.0  # a key's last use is noted this often, not with every request
CACHED_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class Issued:
    """A key and its secret, which is told this once."""

    key: ApiKey
    secret: str


class Keys:
    """Issues keys and knows whose a secret is."""

    def __init__(self, *, store: AccessStore, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._cache: dict[str, tuple[float, ApiKey]] = {}

    async def create(
        self, *, name: str, role: Role, project: ProjectId | None, expires_in_seconds: float | None, by: str
    ) -> Issued:
        """A new key. Only its digest is kept."""
        now, secret = self._clock.now_ms(), self._ids.operator_key()
        key = ApiKey(
            key_id=KeyId(f"key_{self._ids.scope()}"),
            name=name,
            role=role,
            project=project,
            digest=key_digest(secret),
            created_at_ms=now,
            created_by=by,
            expires_at_ms=_later(now, expires_in_seconds),
        )
        await self._store.put_key(key)
        return Issued(key, secret)

    async def create_first(self) -> Issued | None:
        """The key of the first admin; None once there is any key."""
        if any(key.revoked_at_ms is None for key in await self._store.keys()):
            return None
        return await self.create(
            name="first admin", role=Role.ADMIN, project=None, expires_in_seconds=None, by="homeostat up"
        )

    async def rotate(self, key_id: KeyId, *, overlap_seconds: float) -> Issued:
        """A new secret for a key; the old one opens a while longer, so that nobody is locked out meanwhile."""
        now, secret = self._clock.now_ms(), self._ids.operator_key()
        key = await self.get(key_id)
        if key.revoked_at_ms is not None:
            raise KeyUnknown(key_id=key_id)
        rotated = replace(
            key, digest=key_digest(secret), old_digest=key.digest, old_until_ms=_later(now, overlap_seconds)
        )
        await self._store.put_key(rotated)
        self._cache.clear()
        return Issued(rotated, secret)

    async def revoke(self, key_id: KeyId) -> ApiKey:
        """End a key, now: here at once, in other processes within two seconds."""
        key = await self.get(key_id)
        if key.revoked_at_ms is None:
            key = replace(key, revoked_at_ms=self._clock.now_ms())
            await self._store.put_key(key)
        self._cache.clear()
        return key

    async def get(self, key_id: KeyId) -> ApiKey:
        key = await self._store.key(key_id)
        if key is None:
            raise KeyUnknown(key_id=key_id)
        return key

    async def all(self) -> list[ApiKey]:
        return await self._store.keys()

    async def identify(self, secret: str) -> Principal:
        """Whose secret this is; a false, expired or revoked one is nobody's."""
        digest, moment = key_digest(secret), self._clock.monotonic()
        cached = self._cache.get(digest)
        if cached is not None and moment - cached[0] < CACHE_SECONDS:
            key = cached[1]
        else:
            found = await self._store.key_by_digest(digest)
            if found is None:
                raise Unauthenticated
            key = found
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            self._cache[digest] = (moment, key)
        now = self._clock.now_ms()
        if not key.opens(digest, now):
            raise Unauthenticated
        if key.last_used_ms is None or now - key.last_used_ms >= TOUCH_SECONDS * 1000:
            self._cache[digest] = (moment, replace(key, last_used_ms=now))
            await self._store.touch_key(key.key_id, now)
        return principal_of(key)

    async def principal(self, key_id: KeyId) -> Principal:
        """Whoever a key belongs to, as long as it opens anything."""
        key = await self._store.key(key_id)
        if key is None or not key.opens(key.digest, self._clock.now_ms()):
            raise Unauthenticated
        return principal_of(key)


def principal_of(key: ApiKey) -> Principal:
    return Principal(kind=PrincipalKind.KEY, name=key.name, role=key.role, project=key.project, key_id=key.key_id)


def _later(now: Millis, seconds: float | None) -> Millis | None:
    return None if seconds is None else Millis(now + int(seconds * 1000))
