"""A worker's lease, in the flush that ends it and renews it at once."""

from homeostat.core.clock import Millis
from homeostat.core.ids import WorkerId
from homeostat.kernel.commands import EndLease, Renew
from homeostat.kernel.plan import Plan
from homeostat.testing.desk import LEASE_MS, Desk

NOW = Millis(1_000_000)
WORKER = WorkerId("wrk_1")


def test_a_worker_that_beats_after_it_was_given_up_lives() -> None:
    desk = Desk("a")
    desk.do(Renew(worker_id=WORKER))
    desk.all(EndLease(worker_id=WORKER), Renew(worker_id=WORKER))
    assert WORKER in desk.store.leases


def test_a_worker_that_is_given_up_after_its_beat_is_gone() -> None:
    desk = Desk("a")
    desk.all(Renew(worker_id=WORKER), EndLease(worker_id=WORKER))
    assert WORKER not in desk.store.leases


def test_no_turn_is_held_without_a_lease() -> None:
    """A claim renews the lease that this very flush ends, however fresh it was."""
    desk = Desk("a")
    plan = Plan(now=NOW, ids=desk.ids, lease_ms=LEASE_MS, leases={WORKER: Millis(NOW + LEASE_MS)})
    plan.lease(WORKER)
    assert plan.writes.leases == {}, "a fresh lease is left alone"
    plan.writes.leases_ended.add(WORKER)
    plan.lease(WORKER)
    assert (plan.writes.leases, plan.writes.leases_ended) == ({WORKER: NOW + LEASE_MS}, set())
