"""What a worker holds: each turn under one epoch, until it is given back, taken away, or the lease is over."""

from msgspec.structs import replace

from homeostat.core.holdings import Holdings
from homeostat.core.records.work import Fence, fence_of
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk

LEASE_SECONDS = 9.0


def holdings(clock: ManualClock, told: list[Fence]) -> Holdings:
    return Holdings(clock=clock, lease_seconds=LEASE_SECONDS, on_revoke=told.append)


def test_an_answer_that_arrived_twice_is_one_turn() -> None:
    grant = Desk("a").begin("a")
    held = holdings(ManualClock(), [])
    assert held.take(grant)
    assert not held.take(grant)
    assert held.fences == (fence_of(grant),)


def test_a_revocation_is_told_once_and_only_for_the_epoch_that_is_held() -> None:
    grant = Desk("a").begin("a")
    told: list[Fence] = []
    held = holdings(ManualClock(), told)
    held.take(grant)
    held.revoke(replace(fence_of(grant), epoch=grant.epoch - 1))
    assert told == []
    held.revoke(fence_of(grant))
    held.revoke(fence_of(grant))
    assert told == [fence_of(grant)]
    assert len(held) == 0


def test_the_end_of_an_old_attempt_leaves_the_new_one_held() -> None:
    first = Desk("a").begin("a")
    second = replace(first, epoch=first.epoch + 1)
    held = holdings(ManualClock(), [])
    held.take(first)
    held.take(second)  # recovered from this worker, and granted to it again
    held.drop(first)
    assert held.fences == (fence_of(second),)
    held.drop(second)
    assert held.fences == ()


def test_a_whole_lease_without_a_beat_takes_everything() -> None:
    grant = Desk("a").begin("a")
    clock = ManualClock()
    told: list[Fence] = []
    held = holdings(clock, told)
    held.take(grant)
    clock.advance(LEASE_SECONDS - 0.1)
    held.missed()
    assert told == []
    held.beaten()
    clock.advance(LEASE_SECONDS + 0.1)
    clock.jump(-86_400)
    held.missed()
    assert told == [fence_of(grant)]


def test_a_claim_is_a_beat_for_whoever_held_nothing() -> None:
    """A worker that holds nothing does not beat: the time it was idle for is not one of missed beats."""
    grant = Desk("a").begin("a")
    clock = ManualClock()
    for adopted in (False, True):
        told: list[Fence] = []
        held = holdings(clock, told)
        clock.advance(3_600)
        if adopted:
            held.adopt(fence_of(grant))
        else:
            held.take(grant)
        clock.advance(LEASE_SECONDS - 0.1)
        held.missed()
        assert told == []
        clock.advance(0.2)
        held.missed()
        assert told == [fence_of(grant)]


def test_what_is_claimed_between_missed_beats_does_not_stand_in_for_one() -> None:
    desk = Desk("a", "b")
    first, second = desk.begin("a"), desk.begin("b")
    clock = ManualClock()
    told: list[Fence] = []
    held = holdings(clock, told)
    held.take(first)
    clock.advance(LEASE_SECONDS - 0.1)
    held.take(second)
    clock.advance(0.2)
    held.missed()
    assert set(told) == {fence_of(first), fence_of(second)}
