"""What every keeper of keys, logins and the audit log promises."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from homeostat.core.chain import FIRST, Verifier
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.ports.access import AccessKeeper, AccessStore
from homeostat.core.records.access import (
    Act,
    ApiKey,
    AuditOutcome,
    Cordon,
    KeyId,
    Login,
    LoginKind,
    Repeat,
    Request,
    Role,
)
from homeostat.core.records.operation import Operation, OperationStatus
from homeostat.core.records.webhook import Delivery, DeliveryStatus, Webhook

Check = Callable[[AccessKeeper], Awaitable[None]]

NOW: Final = Millis(1_000)


def key(number: int = 1, digest: str = "d1") -> ApiKey:
    return ApiKey(
        key_id=KeyId(f"key_{number:03d}"),
        name="ann",
        role=Role.OPERATOR,
        project=ProjectId("default"),
        digest=digest,
        created_at_ms=NOW,
        created_by="bob",
        expires_at_ms=Millis(9_000),
    )


def act(number: int = 1) -> Act:
    return Act(
        at_ms=Millis(NOW + number),
        actor="ann",
        verb="quarantine_agent",
        object="/v1/agents/x/quarantine",
        project=ProjectId("default"),
        outcome=AuditOutcome.REQUESTED,
        reason=f"reason {number}",
        changes=Json('{"phase":["healthy","draining"]}'),
    )


def login(kind: LoginKind = LoginKind.SESSION, until: int = 2_000) -> Login:
    return Login(digest="secret", kind=kind, data=Json('{"a":1}'), expires_at_ms=Millis(until))


async def a_key_is_found_by_its_digest_and_by_the_one_before(store: AccessStore) -> None:
    assert await store.key_by_digest("d1") is None
    await store.put_key(key())
    assert await store.key_by_digest("d1") == key()
    rotated = replace(key(), digest="d2", old_digest="d1", old_until_ms=Millis(2_000))
    await store.put_key(rotated)
    assert await store.key_by_digest("d1") == rotated
    assert await store.key_by_digest("d2") == rotated
    assert await store.key(KeyId("key_001")) == rotated
    assert await store.key(KeyId("key_002")) is None


async def keys_are_listed_oldest_first(store: AccessStore) -> None:
    await store.put_key(key(2, "d2"))
    await store.put_key(key(1, "d1"))
    assert await store.keys() == [key(1, "d1"), key(2, "d2")]


async def the_last_use_of_a_key_only_moves_on(store: AccessStore) -> None:
    await store.put_key(key())
    await store.touch_key(key().key_id, Millis(5_000))
    await store.touch_key(key().key_id, Millis(4_000))
    assert await store.key(key().key_id) == replace(key(), last_used_ms=Millis(5_000))
    await store.put_key(replace(key(), revoked_at_ms=Millis(6_000)))
    assert await store.key(key().key_id) == replace(key(), last_used_ms=Millis(5_000), revoked_at_ms=Millis(6_000)), (
        "writing a key does not forget when it was used"
    )


async def a_login_runs_out(store: AccessStore) -> None:
    await store.put_login(login())
    assert await store.login(LoginKind.SESSION, "secret", Millis(1_999)) == login()
    assert await store.login(LoginKind.TICKET, "secret", Millis(1_999)) is None
    assert await store.login(LoginKind.SESSION, "secret", Millis(2_000)) is None
    await store.forget_logins(Millis(2_000))
    assert await store.login(LoginKind.SESSION, "secret", Millis(1)) is None


async def a_ticket_is_taken_once(store: AccessStore) -> None:
    await store.put_login(login(LoginKind.TICKET))
    takers = [store.take_login(LoginKind.TICKET, "secret", NOW) for _ in range(5)]
    taken = await asyncio.gather(*takers)
    assert [one for one in taken if one is not None] == [login(LoginKind.TICKET)]


async def acts_form_one_chain_however_many_write(store: AccessStore) -> None:
    entries = await asyncio.gather(*(store.append(act(number)) for number in range(1, 21)))
    assert sorted(entry.seq for entry in entries) == list(range(1, 21))
    read = await store.audit_from(0, 100)
    assert sorted(read, key=lambda entry: entry.seq) == read
    assert read[0].previous == FIRST
    verifier = Verifier()
    verifier.add(read)
    assert verifier.verdict.broken_at is None
    assert verifier.verdict.entries == 20
    assert {entry.act.reason for entry in read} == {f"reason {number}" for number in range(1, 21)}


async def the_log_is_paged_from_both_ends(store: AccessStore) -> None:
    for number in range(1, 6):
        await store.append(act(number))
    assert [entry.seq for entry in await store.audit(before=None, limit=2)] == [5, 4]
    assert [entry.seq for entry in await store.audit(before=4, limit=9)] == [3, 2, 1]
    assert [entry.seq for entry in await store.audit_from(3, 9)] == [4, 5]


async def one_request_begins_under_a_key(store: AccessStore) -> None:
    asked = Request(project=ProjectId("default"), actor="ann", key="k", fingerprint="f")
    begun = await asyncio.gather(*(store.claim(asked, NOW, Millis(0)) for _ in range(5)))
    assert begun.count(None) == 1
    assert begun.count(Repeat("f", None)) == 4
    other = replace(asked, fingerprint="g")
    assert await store.claim(other, Millis(5_000), NOW) == Repeat("f", None), "another request, however late"
    assert await store.claim(asked, Millis(5_000), NOW) is None, "whoever had it is gone"
    await store.keep_answer(asked, Json('{"a":1}'))
    assert await store.claim(asked, Millis(9_000), Millis(8_000)) == Repeat("f", Json('{"a":1}'))
    assert await store.claim(replace(asked, actor="bob"), NOW, Millis(0)) is None, "keys are whose they are"
    await store.drop_claim(replace(asked, actor="bob"))
    assert await store.claim(replace(asked, actor="bob"), NOW, Millis(0)) is None
    await store.forget_repeats(Millis(5_000))
    assert await store.claim(asked, NOW, Millis(0)) is None


async def a_cordon_stands_until_it_is_lifted(store: AccessStore) -> None:
    cordon = Cordon(
        project=ProjectId("default"), agent_id=AgentId("ann"), reason="a new release", actor="bob", at_ms=NOW
    )
    agent = (cordon.project, cordon.agent_id)
    assert await store.cordon(agent) is None
    await store.put_cordon(cordon)
    await store.put_cordon(replace(cordon, reason="still"))
    assert await store.cordon(agent) == replace(cordon, reason="still")
    assert await store.drop_cordon(agent)
    assert not await store.drop_cordon(agent)
    assert await store.cordon(agent) is None


def delivery(number: int = 1) -> Delivery:
    return Delivery(
        delivery_id=f"whd_{number}",
        project=ProjectId("default"),
        webhook="on-call",
        kind="alert",
        body=Json("{}"),
        created_at_ms=Millis(NOW + number),
        next_at_ms=Millis(NOW + number),
    )


async def an_alert_is_kept_once_taken_once_and_settled(store: AccessKeeper) -> None:
    place = Webhook(
        project=ProjectId("default"),
        name="on-call",
        url="https://example.com",
        secret=f"whsec_{4 * chr(65)}",
        kinds=("alert",),
        allow_private=False,
        created_at_ms=NOW,
    )
    await store.put_webhook(place)
    assert await store.webhooks() == [place]
    for _ in range(2):
        await store.put_delivery(delivery(1))
    await store.put_delivery(delivery(2))
    assert await store.due_deliveries(Millis(NOW + 1), 9) == [delivery(1)]
    assert await store.due_deliveries(Millis(9_000), 9) == [delivery(1), delivery(2)]
    taken = await asyncio.gather(*(store.take_delivery(delivery(1), Millis(5_000)) for _ in range(5)))
    assert taken.count(True) == 1
    assert await store.due_deliveries(Millis(4_000), 9) == [delivery(2)], "whoever took it has time to send it"
    done = replace(delivery(1), status=DeliveryStatus.DELIVERED, attempts=1, next_at_ms=None)
    await store.settle_delivery(done)
    assert await store.due_deliveries(Millis(9_000), 9) == [delivery(2)]
    project = ProjectId("default")
    assert await store.deliveries(project, "on-call", before=None, limit=9) == [delivery(2), done]
    assert await store.deliveries(project, "on-call", before=(Millis(NOW + 2), ""), limit=9) == [done]
    await store.forget_deliveries(Millis(9_000))
    assert await store.deliveries(project, "on-call", before=None, limit=9) == [delivery(2)], "it is still to be sent"
    assert await store.drop_webhook(project, "on-call")
    assert not await store.drop_webhook(project, "on-call")


def operation(number: int = 1, *, owner: str = "one", until: int = 5_000) -> Operation:
    return Operation(
        operation_id=f"op_{number:024x}",
        project=ProjectId("default"),
        verb="verify_audit",
        object="/v1/audit/verify",
        actor="ann",
        owner=owner,
        started_at_ms=Millis(NOW + number),
        held_until_ms=Millis(until),
    )


async def long_work_is_held_by_its_owner_and_settled_once(store: AccessKeeper) -> None:
    project = ProjectId("default")
    ours, theirs, third = operation(1), operation(2, owner="two"), operation(3)
    for one in (ours, theirs, third):
        await store.put_operation(one)
    assert await store.operation(project, ours.operation_id) == ours
    assert await store.operation(ProjectId("other"), ours.operation_id) is None
    assert await store.operations(project, before=None, limit=9) == [third, theirs, ours]
    assert await store.operations(project, before=third.operation_id, limit=1) == [theirs]
    done = replace(
        ours, status=OperationStatus.SUCCEEDED, ended_at_ms=Millis(NOW + 9), result=Json("[1]"), held_until_ms=None
    )
    await store.settle_operation(done)
    await store.settle_operation(replace(ours, status=OperationStatus.LOST))
    assert await store.operation(project, ours.operation_id) == done, "what was settled stays so"
    await store.hold_operations("one", Millis(7_000))
    assert await store.operation(project, third.operation_id) == replace(third, held_until_ms=Millis(7_000))
    assert await store.operation(project, theirs.operation_id) == theirs, "nobody renews for others"
    assert await store.operation(project, ours.operation_id) == done
    await store.forget_operations(third.operation_id, Millis(4_000))
    assert await store.operations(project, before=None, limit=9) == [
        replace(third, held_until_ms=Millis(7_000)),
        theirs,
    ], "somebody is still at it"
    await store.abandon_operations(Millis(3_000))
    assert await store.operations(project, before=None, limit=9) == [
        replace(one, held_until_ms=Millis(3_000)) for one in (third, theirs)
    ]
    await store.forget_operations(f"op_{4:024x}", Millis(4_000))
    assert await store.operations(project, before=None, limit=9) == []


CHECKS: Final[tuple[Check, ...]] = (
    a_key_is_found_by_its_digest_and_by_the_one_before,
    keys_are_listed_oldest_first,
    the_last_use_of_a_key_only_moves_on,
    a_login_runs_out,
    a_ticket_is_taken_once,
    acts_form_one_chain_however_many_write,
    the_log_is_paged_from_both_ends,
    one_request_begins_under_a_key,
    a_cordon_stands_until_it_is_lifted,
    an_alert_is_kept_once_taken_once_and_settled,
    long_work_is_held_by_its_owner_and_settled_once,
)
