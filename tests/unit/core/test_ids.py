"""Ids: unique, sortable by time, and larger than the last one whatever the clock does."""

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.ids import (
    AgentId,
    BoxId,
    Chance,
    Ids,
    ProjectId,
    Scope,
    TurnId,
    box_of,
    card_of,
    digest_of,
    inbox_of,
    is_within,
    key_digest,
    mark_in,
    mark_of,
    same_digest,
    scope_floor,
    scope_of,
    turn_of,
)
from homeostat.testing.clock import EPOCH_MS, ManualClock


def minted(seed: int = 1) -> tuple[Ids, ManualClock]:
    clock = ManualClock()
    return Ids(clock=clock, entropy=Chance(seed)), clock


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), max_size=30), st.integers(0, 1 << 32))
def test_scopes_increase_strictly_whatever_the_clock_does(jumps: list[float], seed: int) -> None:
    ids, clock = minted(seed)
    scopes = [ids.scope()]
    for seconds in jumps:
        clock.jump(seconds)
        scopes += [ids.scope(), ids.scope()]
    assert scopes == sorted(set(scopes))
    assert {len(scope) for scope in scopes} == {24}


def test_scopes_of_different_processes_differ_and_sort_by_time() -> None:
    (one, clock), (two, later) = minted(1), minted(2)
    later.advance(0.001)
    first, second = [one.scope() for _ in range(100)], [two.scope() for _ in range(100)]
    assert not set(first) & set(second)
    assert max(first) < min(second)
    assert clock.now_ms() == EPOCH_MS


def test_a_floor_lies_below_everything_minted_from_its_instant_on() -> None:
    ids, clock = minted()
    before = ids.scope()
    clock.advance(1)
    floor = scope_floor(clock.now_ms())
    assert before < floor <= ids.scope()
    assert scope_floor(-5) == scope_floor(0)


def test_a_turn_its_message_and_its_box_share_a_scope() -> None:
    scope = minted()[0].scope()
    turn_id = turn_of(scope)
    assert {scope_of(turn_id), scope_of(inbox_of(turn_id)), scope_of(box_of(turn_id))} == {scope}
    assert (turn_id, box_of(turn_id)) == (TurnId(f"turn_{scope}"), BoxId(f"box_{scope}"))


def test_a_card_is_addressed_by_birthplace_and_digest() -> None:
    assert card_of(Scope("ab"), 3, digest_of("x")) == f"card_ab_3_{digest_of('x')}"
    assert digest_of("x") != digest_of("y")
    assert len(digest_of("")) == 32


def test_kinds_have_prefixes_and_secrets_are_not_stored() -> None:
    ids, _ = minted()
    assert ids.worker().startswith("wrk_")
    assert ids.run().startswith("run_")
    assert ids.agent("researcher-with-a-long-name").startswith("researcher-with-")
    assert len(ids.trace()) == 32
    secret = ids.secret()
    assert secret.startswith("hs_")
    assert secret not in key_digest(secret)
    assert same_digest(key_digest(secret), key_digest(secret))
    assert not same_digest(key_digest(secret), key_digest(ids.secret()))


def test_a_workers_id_says_whom_it_was_minted_for() -> None:
    ids, _ = minted()
    here, there = ProjectId("here"), ProjectId("there")
    ann, bob = AgentId("ann"), AgentId("bob")
    assert mark_in(ids.worker()) == mark_in("wrk_1") == mark_in("wrk_1_" + mark_of(here)) == ""
    of_ann, of_here = mark_of(here, ann), mark_of(here)
    assert [mark_in(ids.worker(mark)) for mark in (of_ann, of_here)] == [of_ann, of_here]
    assert len({of_ann, of_here, mark_of(here, bob), mark_of(there, ann), mark_of(there)}) == 5
    asked = [(here, ann), (here, bob), (there, ann)]
    assert [is_within(of_ann, *key) for key in asked] == [True, False, False]
    assert [is_within(of_here, *key) for key in asked] == [True, True, False]
    assert all(is_within("", *key) for key in asked)


def test_chance_repeats_and_jitter_stays_within_bounds() -> None:
    assert [Chance(7).random() for _ in range(2)] == [Chance(7).random()] * 2
    ids, _ = minted()
    assert all(2.0 <= ids.uniform(2.0, 3.0) <= 3.0 for _ in range(100))
