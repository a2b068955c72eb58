"""A worker's lease: when it is written, and who has the last word on it."""

import pytest

from homeostat.core.clock import Millis
from homeostat.core.ids import WorkerId
from homeostat.kernel.commands import Claim, Command, EndLease, Renew
from homeostat.testing.desk import LEASE_MS, Desk, key_of

ONE = WorkerId("wrk_1")
SEEN = Millis(1)


def claimed_with(known_end_ms: int | None) -> dict[WorkerId, Millis]:
    """The lease a claim writes, when memory has this of the worker's last one."""
    desk = Desk("a")
    desk.enqueue("a")
    if known_end_ms is not None:
        desk.leases[ONE] = Millis(desk.clock.now_ms() + known_end_ms)
    desk.decide(Claim(key=key_of("a"), worker_id=ONE))
    return desk.writes.leases


@pytest.mark.parametrize("known_end_ms", [None, -1, 0, LEASE_MS // 2, LEASE_MS + 1, 86_400_000])
def test_a_claim_writes_a_lease_unless_one_was_renewed_just_now(known_end_ms: int | None) -> None:
    assert list(claimed_with(known_end_ms)) == [ONE]


def test_a_plain_turn_writes_no_lease() -> None:
    assert claimed_with(LEASE_MS - LEASE_MS // 10) == {}


@pytest.mark.parametrize(
    ("commands", "alive"),
    [
        ((EndLease(worker_id=ONE), Renew(worker_id=ONE)), True),
        ((Renew(worker_id=ONE), EndLease(worker_id=ONE)), False),
        ((EndLease(worker_id=ONE), Claim(key=key_of("a"), worker_id=ONE)), True),
        ((Claim(key=key_of("a"), worker_id=ONE), EndLease(worker_id=ONE)), False),
        ((Renew(worker_id=ONE), EndLease(worker_id=ONE, over=SEEN)), True),
        ((EndLease(worker_id=ONE, over=SEEN), Renew(worker_id=ONE)), True),
        ((EndLease(worker_id=ONE), EndLease(worker_id=ONE, over=SEEN)), False),
        ((EndLease(worker_id=ONE, over=SEEN), EndLease(worker_id=ONE)), False),
    ],
)
def test_in_one_batch_the_last_word_counts(commands: tuple[Command, ...], *, alive: bool) -> None:
    desk = Desk("a")
    desk.enqueue("a")
    desk.leases[ONE] = Millis(desk.clock.now_ms() + LEASE_MS)
    desk.all(*commands)
    assert (ONE in desk.store.leases) == alive
