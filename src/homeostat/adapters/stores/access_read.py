"""Keys, logins, the audit log and long work, in words that every engine's statements answer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId
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
from homeostat.core.records.operation import Operation
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.webhook import Delivery, Webhook

Row = Sequence[Any]
LATEST: Final = 1 << 62

_encoder = msgspec.json.Encoder()
_keys = msgspec.json.Decoder(ApiKey)
_acts = msgspec.json.Decoder(Act)
_webhooks = msgspec.json.Decoder(Webhook)
_deliveries = msgspec.json.Decoder(Delivery)
_operations = msgspec.json.Decoder(Operation)


class AccessReading(ABC):
    """A keeper says how to run one statement."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that only reads."""

    @abstractmethod
    async def _write(self, name: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that writes; durable when it returns."""

    async def put_key(self, key: ApiKey) -> None:
        record = _encoder.encode(replace(key, last_used_ms=None)).decode()
        await self._write("key_put", key.key_id, key.digest, key.old_digest, key.last_used_ms, record)

    async def key(self, key_id: KeyId) -> ApiKey | None:
        found = await self._all("key_get", key_id)
        return _read_key(found[0]) if found else None

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        found = await self._all("key_by_digest", digest)
        return _read_key(found[0]) if found else None

    async def keys(self) -> list[ApiKey]:
        return [_read_key(row) for row in await self._all("keys_all")]

    async def touch_key(self, key_id: KeyId, at: Millis) -> None:
        await self._write("key_touch", key_id, at)

    async def put_login(self, login: Login) -> None:
        await self._write("login_put", login.digest, login.kind.value, login.data, login.expires_at_ms)

    async def login(self, kind: LoginKind, digest: str, now: Millis) -> Login | None:
        return _read_login(await self._all("login_get", kind.value, digest, now))

    async def take_login(self, kind: LoginKind, digest: str, now: Millis) -> Login | None:
        return _read_login(await self._write("login_take", kind.value, digest, now))

    async def forget_logins(self, now: Millis) -> None:
        await self._write("logins_forget", now)

    async def audit(self, *, before: int | None, limit: int) -> list[AuditEntry]:
        found = await self._all("audit_list", LATEST if before is None else before, limit)
        return [_read_entry(row) for row in found]

    async def audit_from(self, after: int, limit: int) -> list[AuditEntry]:
        return [_read_entry(row) for row in await self._all("audit_from", after, limit)]

    async def claim(self, request: Request, now: Millis, abandoned: Millis) -> Repeat | None:
        named = (request.project, request.actor, request.key)
        while True:
            if await self._write("repeat_claim", *named, request.fingerprint, now, abandoned):
                return None
            if found := await self._all("repeat_get", *named):
                fingerprint, answer = found[0]
                return Repeat(fingerprint, None if answer is None else Json(answer))

    async def keep_answer(self, request: Request, answer: Json) -> None:
        await self._write("repeat_put", request.project, request.actor, request.key, answer)

    async def drop_claim(self, request: Request) -> None:
        await self._write("repeat_drop", request.project, request.actor, request.key)

    async def forget_repeats(self, until: Millis) -> None:
        await self._write("repeats_forget", until)

    async def put_cordon(self, cordon: Cordon) -> None:
        await self._write("cordon_put", cordon.project, cordon.agent_id, cordon.reason, cordon.actor, cordon.at_ms)

    async def cordon(self, agent: AgentKey) -> Cordon | None:
        found = await self._all("cordon_get", *agent)
        if not found:
            return None
        reason, actor, at_ms = found[0]
        return Cordon(project=agent[0], agent_id=agent[1], reason=reason, actor=actor, at_ms=Millis(at_ms))

    async def drop_cordon(self, agent: AgentKey) -> bool:
        return bool(await self._write("cordon_drop", *agent))

    # --- alerts --------------------------------------------------------------------------------------------

    async def put_webhook(self, webhook: Webhook) -> None:
        await self._write("webhook_put", webhook.project, webhook.name, _encoder.encode(webhook).decode())

    async def webhooks(self) -> list[Webhook]:
        return [_webhooks.decode(row[0]) for row in await self._all("webhooks_all")]

    async def drop_webhook(self, project: ProjectId, name: str) -> bool:
        return bool(await self._write("webhook_drop", project, name))

    async def put_delivery(self, delivery: Delivery) -> None:
        record = _encoder.encode(delivery).decode()
        named = (delivery.delivery_id, delivery.project, delivery.webhook, delivery.created_at_ms)
        await self._write("delivery_put", *named, delivery.next_at_ms, record)

    async def take_delivery(self, delivery: Delivery, until: Millis) -> bool:
        return bool(await self._write("delivery_take", delivery.delivery_id, delivery.next_at_ms, until))

    async def settle_delivery(self, delivery: Delivery) -> None:
        record = _encoder.encode(delivery).decode()
        await self._write("delivery_done", delivery.delivery_id, delivery.next_at_ms, record)

    async def due_deliveries(self, now: Millis, limit: int) -> list[Delivery]:
        return [_read_delivery(row) for row in await self._all("deliveries_due", now, limit)]

    async def deliveries(
        self, project: ProjectId, name: str, *, before: tuple[Millis, str] | None, limit: int
    ) -> list[Delivery]:
        found = await self._all("deliveries_list", project, name, *(before or (LATEST, "")), limit)
        return [_read_delivery(row) for row in found]

    async def forget_deliveries(self, before: Millis) -> None:
        await self._write("deliveries_forget", before)

    # --- long work -----------------------------------------------------------------------------------------

    async def put_operation(self, operation: Operation) -> None:
        named = (operation.operation_id, operation.project, operation.owner, operation.held_until_ms)
        await self._write("operation_put", *named, _encoder.encode(operation).decode())

    async def settle_operation(self, operation: Operation) -> None:
        record = _encoder.encode(replace(operation, held_until_ms=None)).decode()
        await self._write("operation_settle", operation.project, operation.operation_id, record)

    async def hold_operations(self, owner: str, until: Millis) -> None:
        await self._write("operations_hold", owner, until)

    async def abandon_operations(self, since: Millis) -> None:
        await self._write("operations_abandon", since)

    async def operation(self, project: ProjectId, operation_id: str) -> Operation | None:
        found = await self._all("operation_get", project, operation_id)
        return _read_operation(found[0]) if found else None

    async def operations(self, project: ProjectId, *, before: str | None, limit: int) -> list[Operation]:
        found = await self._all("operations_list", project, "~" if before is None else before, limit)
        return [_read_operation(row) for row in found]

    async def forget_operations(self, before: str, now: Millis) -> None:
        await self._write("operations_forget", before, now)


def _read_operation(row: Row) -> Operation:
    return replace(_operations.decode(row[1]), held_until_ms=None if row[0] is None else Millis(row[0]))


def _read_delivery(row: Row) -> Delivery:
    return replace(_deliveries.decode(row[1]), next_at_ms=None if row[0] is None else Millis(row[0]))


def write_entry(entry: AuditEntry) -> tuple[object, ...]:
    return (entry.seq, _encoder.encode(entry.act).decode(), entry.previous, entry.digest)


def _read_key(row: Row) -> ApiKey:
    return replace(_keys.decode(row[0]), last_used_ms=None if row[1] is None else Millis(row[1]))


def _read_login(found: Sequence[Row]) -> Login | None:
    if not found:
        return None
    digest, kind, data, expires_at_ms = found[0]
    return Login(digest=digest, kind=LoginKind(kind), data=Json(data), expires_at_ms=Millis(expires_at_ms))


def _read_entry(row: Row) -> AuditEntry:
    return AuditEntry(seq=row[0], act=_acts.decode(row[1]), previous=row[2], digest=row[3])
