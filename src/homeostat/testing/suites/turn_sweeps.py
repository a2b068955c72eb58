"""What a turn store promises the watchdog: everything late is found, a bounded number at a time, and nothing else."""

from itertools import product
from typing import cast

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import BoxId, Scope, ToolCallId, TurnId, WorkerId, scope_floor, scope_of
from homeostat.core.limits import MISDATED_ROWS_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import OpenTurn, Turn, WaitStatus
from homeostat.core.records.view import Due
from homeostat.core.records.work import Fence
from homeostat.core.records.writes import OutboxRow
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore

LEASE_MS = 10_000


async def _due(store: TurnStore, *, now: int = a.NOW, unclaimed: tuple[int, int] = (0, 0), limit: int = 100) -> Due:
    span = (Millis(unclaimed[0]), Millis(unclaimed[1]))
    return await store.due(Millis(now), unclaimed=span, lease_ms=LEASE_MS, limit=limit)


async def _hold(store: TurnStore, names: list[str], worker: str) -> list[Head]:
    """Agents that run a turn under a worker."""
    turns = [a.turn(1, agent_id=name) for name in names]
    heads = [
        a.holding(a.idle(one.agent_id), one, worker_id=WorkerId(worker), epoch=n)
        for n, one in enumerate(turns, start=3)
    ]
    await a.put(store, new_heads={head.key: head for head in heads}, turns=a.by_id(turns))
    return heads


async def nothing_is_due_in_an_empty_store(open_store: OpenStore) -> None:
    store = await open_store()
    assert await _due(store) == Due()
    await a.register(store, a.idle())
    assert await _due(store, unclaimed=(0, a.NOW)) == Due()


async def the_turns_of_a_dead_worker_are_lost(open_store: OpenStore) -> None:
    store = await open_store()
    dead = await _hold(store, ["a", "b"], "wrk_dead")
    await _hold(store, ["c"], "wrk_live")
    await a.put(store, leases={WorkerId("wrk_dead"): a.NOW, WorkerId("wrk_live"): Millis(a.NOW + 1)})
    due = await _due(store)
    assert due.dead_workers == (("wrk_dead", a.NOW),)
    assert sorted(due.lost) == [(head.key, head.turn_id, head.epoch, "wrk_dead") for head in dead]
    assert due.next_ms == a.NOW
    assert await _due(store, now=a.NOW - 1) == Due(next_ms=a.NOW)


async def a_lease_beyond_every_clock_is_dead(open_store: OpenStore) -> None:
    """A clock that ran far ahead must not hold turns for years once it is set right."""
    store = await open_store()
    (head,) = await _hold(store, ["a"], "wrk_ahead")
    await a.put(store, leases={WorkerId("wrk_ahead"): Millis(a.NOW + 2 * LEASE_MS + 1)})
    due = await _due(store)
    assert [worker for worker, _ in due.dead_workers] == ["wrk_ahead"]
    assert due.lost == ((head.key, head.turn_id, head.epoch, "wrk_ahead"),)
    assert (await _due(store, now=a.NOW + 1)).dead_workers == ()


async def a_turn_whose_worker_has_no_lease_is_lost(open_store: OpenStore) -> None:
    store = await open_store()
    (head,) = await _hold(store, ["a"], "wrk_none")
    await _hold(store, ["b"], "wrk_live")
    await a.put(store, leases={WorkerId("wrk_live"): Millis(a.NOW + 1)})
    for _ in range(2):
        due = await _due(store)
        assert due.dead_workers == ()
        assert due.lost == ((head.key, head.turn_id, head.epoch, "wrk_none"),)


async def waits_are_due_at_their_deadline(open_store: OpenStore) -> None:
    store = await open_store()
    waiting = a.turn()
    waits = [a.wait(waiting, name, deadline=a.NOW + n) for n, name in enumerate("dcba")]
    answered = [
        a.wait(waiting, status, status=status, deadline=a.NOW - 9)
        for status in WaitStatus
        if status is not WaitStatus.PENDING
    ]
    await a.put(store, turns=a.by_id([waiting]), new_waits=a.waits_of(*waits, *answered))
    assert (await _due(store, now=a.NOW + 2)).timeouts == tuple(waits[:3])
    assert (await _due(store, now=a.NOW + 2, limit=2)).timeouts == tuple(waits[:2])
    assert (await _due(store, now=a.NOW - 1)) == Due(next_ms=a.NOW)
    await a.put(store, waits=a.waits_of(replace(waits[0], status=WaitStatus.CANCELLED)))
    assert (await _due(store, now=a.NOW)) == Due(next_ms=Millis(a.NOW + 1))


async def calls_that_began_in_the_future_are_found(open_store: OpenStore) -> None:
    """Their deadline may be a day away, though nobody's clock is: a clock was wrong when it was written."""
    store = await open_store()
    waiting = a.turn()
    day = 24 * 3600 * 1000
    far = a.wait(waiting, "far", created_at_ms=Millis(a.NOW + LEASE_MS + 1), deadline=a.NOW + day)
    near = a.wait(waiting, "near", created_at_ms=Millis(a.NOW + LEASE_MS), deadline=a.NOW + day)
    patient = a.wait(waiting, "patient", deadline=a.NOW + 2 * day)
    answered = replace(far, call_id=ToolCallId("answered"), status=WaitStatus.SUCCESS)
    await a.put(store, turns=a.by_id([waiting]), new_waits=a.waits_of(far, near, patient, answered))
    for _ in range(2):
        assert (await _due(store)).misdated == (far,)
    assert (await _due(store, now=a.NOW + 1)).misdated == ()
    await a.put(store, waits=a.waits_of(replace(far, status=WaitStatus.TIMEOUT)))
    assert (await _due(store)).misdated == ()


async def calls_that_began_in_the_future_are_looked_for_in_rounds(open_store: OpenStore) -> None:
    """However many calls are open, and however many of them have one deadline, each has its turn."""
    store = await open_store()
    waiting = a.turn()
    others = [
        a.wait(waiting, f"call-{n:04d}", deadline=a.NOW + 3600_000 + n // 100) for n in range(MISDATED_ROWS_MAX + 5)
    ]
    late = replace(others[-1], call_id=ToolCallId("last"), created_at_ms=Millis(a.NOW + LEASE_MS + 1))
    await a.put(store, turns=a.by_id([waiting]), new_waits=a.waits_of(*others, late))
    rounds = [(await _due(store)).misdated for _ in range(3)]
    assert (late,) in rounds


async def the_next_look_is_for_what_comes_first(open_store: OpenStore) -> None:
    store = await open_store()
    waiting = a.turn()
    await a.put(store, leases={a.WORKER: Millis(a.NOW + 7)}, turns=a.by_id([waiting]))
    assert (await _due(store)).next_ms == a.NOW + 7
    await a.put(store, new_waits=a.waits_of(a.wait(waiting, "w", deadline=a.NOW + 3)))
    assert (await _due(store)).next_ms == a.NOW + 3


async def whom_nobody_came_for_is_found(open_store: OpenStore) -> None:
    """A turn nobody entered, or a line nobody dispatched, unless the gate keeps it so."""
    store = await open_store()
    heads = [
        _standing(gate, status, queued, since=a.NOW - number)
        for number, (gate, status, queued) in enumerate(product(Gate, HeadStatus, (0, 1)))
    ]
    turns = [a.turn(1, agent_id=head.agent_id) for head in heads]
    await a.put(store, new_heads={head.key: head for head in heads}, turns=a.by_id(turns))
    await a.put(store, leases={a.WORKER: Millis(a.NOW + 1)})
    stranded = {h.key for h in heads if h.status is HeadStatus.IDLE and h.queued and h.gate is Gate.OPEN}
    unclaimed = [
        (head.key, head.since_ms)
        for head in reversed(heads)
        if head.status is HeadStatus.DISPATCHED and head.gate is not Gate.CLOSED
    ]
    due = await _due(store, unclaimed=(0, a.NOW))
    assert due.unclaimed == tuple(unclaimed)
    assert set(due.stranded) == stranded
    assert len(due.stranded) == len(stranded)
    assert (await _due(store, unclaimed=(0, a.NOW), limit=2)).unclaimed == tuple(unclaimed[:2])
    assert (await _due(store, unclaimed=(unclaimed[0][1], unclaimed[2][1]))).unclaimed == tuple(unclaimed[1:3])
    assert (await _due(store, unclaimed=(0, unclaimed[0][1] - 1))).unclaimed == ()
    entered = next(head for head in heads if head.key == unclaimed[0][0])
    helped = next(head for head in heads if head.key in stranded)
    await a.put(store, heads=a.swap(a.moved(entered, status=HeadStatus.SUSPENDED), a.moved(helped, queued=0)))
    due = await _due(store, unclaimed=(0, a.NOW))
    assert due.unclaimed == tuple(unclaimed[1:])
    assert set(due.stranded) == stranded - {helped.key}


def _standing(gate: Gate, status: HeadStatus, queued: int, *, since: int) -> Head:
    name = f"{gate}-{status}-{queued}"
    head = a.idle(name, gate=gate, queued=queued, since_ms=Millis(since))
    return head if status is HeadStatus.IDLE else a.holding(head, a.turn(1, agent_id=name), status)


async def what_a_worker_holds_is_known(open_store: OpenStore) -> None:
    """Only while it holds it, and of nobody else."""
    store = await open_store()
    ours, theirs = await _hold(store, ["a", "b"], "wrk_1"), await _hold(store, ["c"], "wrk_2")
    fences = [(Fence(head.key, cast("TurnId", head.turn_id), head.epoch, a.WORKER), head.since_ms) for head in ours]
    assert sorted(await store.held(a.WORKER), key=lambda one: one[0].key) == fences
    assert await store.held(WorkerId("wrk_3")) == []
    ended = a.moved(ours[0], status=HeadStatus.IDLE, turn_id=None, worker_id=None)
    taken = a.moved(ours[1], worker_id=WorkerId("wrk_2"))
    await a.put(store, heads=a.swap(ended, taken))
    assert await store.held(a.WORKER) == []
    assert {fence.key for fence, _ in await store.held(WorkerId("wrk_2"))} == {theirs[0].key, taken.key}
    await a.put(store, leases={a.WORKER: a.NOW, WorkerId("wrk_2"): Millis(a.NOW + 1)})
    due = await _due(store)
    assert (due.dead_workers, due.lost) == (((a.WORKER, a.NOW),), ()), "what a worker once held is not lost with it"
    again = a.moved(ended, status=HeadStatus.RUNNING, turn_id=ours[0].turn_id, worker_id=a.WORKER)
    await a.put(store, heads=a.swap(again))
    assert [fence.key for fence, _ in await store.held(a.WORKER)] == [again.key]


async def a_sweep_is_bounded(open_store: OpenStore) -> None:
    store = await open_store()
    await _hold(store, [f"held-{n}" for n in range(5)], "wrk_dead")
    await _hold(store, [f"orphan-{n}" for n in range(5)], "wrk_none")
    waiting = a.turn()
    waits = [a.wait(waiting, str(n)) for n in range(5)]
    leases = {WorkerId(f"wrk_{n}"): a.NOW for n in range(5)}
    stranded = [a.idle(f"stranded-{n}", queued=1) for n in range(5)]
    await a.register(store, *stranded)
    await a.put(store, turns=a.by_id([waiting]), new_waits=a.waits_of(*waits), leases=leases)
    await a.put(store, leases={WorkerId("wrk_dead"): a.NOW})
    due = await _due(store, now=a.NOW + 5000, limit=3)
    assert [len(due.dead_workers), len(due.timeouts), len(due.stranded)] == [3, 3, 3]
    assert 1 <= len(due.lost) <= 3


async def those_who_cannot_be_helped_hide_nobody(open_store: OpenStore) -> None:
    """Idle agents whose mail is of held runs stay as they are: the others come after them, and then they once more."""
    store = await open_store()
    stranded = [a.idle(f"stranded-{n}", queued=1) for n in range(5)]
    await a.register(store, *stranded)
    rounds = [(await _due(store, limit=2)).stranded for _ in range(6)]
    assert [len(found) for found in rounds] == [2, 2, 1, 2, 2, 1]
    assert {key for found in rounds[:3] for key in found} == {head.key for head in stranded}
    assert rounds[:3] == rounds[3:]


async def announcements_wait_until_they_are_made(open_store: OpenStore) -> None:
    store = await open_store()
    rows = [a.announcement(n, at=a.NOW + n, events=n) for n in range(1, 5)]
    for row in reversed(rows):
        await a.put(store, outbox=row)
    assert await store.outbox(Scope("f" * 24), 99) == rows
    assert await store.outbox(rows[2].outbox_id, 99) == rows[:2]
    assert await store.outbox(Scope("f" * 24), 3) == rows[:3]
    await a.put(store, outbox_drop={rows[0].outbox_id, rows[2].outbox_id, scope_floor(1)})
    assert await store.outbox(Scope("f" * 24), 99) == [rows[1], rows[3]]
    many = OutboxRow(a.scope_at(a.NOW), tuple(event for row in rows for event in row.events) * 100)
    await a.put(store, outbox=many)
    assert await store.outbox(scope_floor(a.NOW + 1), 9) == [many]


async def what_is_old_and_finished_is_forgotten(open_store: OpenStore) -> None:
    """With all that belongs to it, a bounded number at a time, the oldest first."""
    store = await open_store()
    turns = [a.turn(seq, at=a.NOW + seq) for seq in range(1, 6)]
    for one in turns:
        scope = scope_of(one.turn_id)
        await a.finished(store, one)
        await a.put(
            store,
            cards=[a.card(scope, 1), a.card(scope, 2)],
            steps=[a.step(one, "s")],
            new_waits=a.waits_of(a.wait(one, "w", status=WaitStatus.SUCCESS, answered_at_ms=a.NOW)),
        )
    before = scope_floor(a.NOW + 5)
    assert await store.swept() == ""
    assert await store.expire(before, 3) == 3
    assert await store.swept() == turns[2].turn_id
    assert [await _left(store, one) for one in turns] == [0, 0, 0, 5, 5]
    assert await store.expire(before, 3) == 1
    assert await store.expire(before, 3) == 0
    assert await store.swept() == turns[3].turn_id, "nothing to forget leaves it where it is"
    assert [await _left(store, one) for one in turns] == [0, 0, 0, 0, 5]
    await a.put(store, turns=a.by_id([turns[0]]))
    again = await store.turn(a.PROJECT, turns[0].turn_id)
    assert again is not None
    assert again.waits == (), "waits went with their turn"


async def every_project_forgets(open_store: OpenStore) -> None:
    """Within the same bound, whatever lives on in another."""
    store = await open_store()
    names = [a.PROJECT, "b", "c", a.ELSEWHERE]
    turns = [a.turn(seq, at=a.NOW + seq, project=name) for name in names for seq in (1, 2)]
    for one in turns:
        await (a.put(store, turns=a.by_id([one])) if one.project == "b" else a.finished(store, one))
    assert [await store.expire(scope_floor(a.NOW + 5), 5) for _ in range(3)] == [5, 1, 0]
    left = [one for one in turns if await store.turn(one.project, one.turn_id) is not None]
    assert {one.project for one in left} == {"b"}


async def a_turn_is_kept_from_its_end_on(open_store: OpenStore) -> None:
    """However long it took."""
    store = await open_store()
    long = a.turn()
    end = replace(a.deliverable(long), created_at_ms=Millis(a.NOW + 100))
    await a.put(store, turns=a.by_id([long]), cards=[end])
    assert await store.expire(scope_floor(a.NOW + 100), 9) == 0
    assert await _left(store, long) == 2
    assert await store.expire(scope_floor(a.NOW + 101), 9) == 1


async def a_card_that_a_box_refers_to_outlives_its_turn(open_store: OpenStore) -> None:
    store = await open_store()
    one, rolling = a.turn(), a.scope_at(a.NOW, 9)
    scope = scope_of(one.turn_id)
    kept = a.card(scope, 1)
    pointer = a.card(rolling, 1, "", digest=kept.digest, reference=kept.card_id)
    await a.finished(store, one)
    await a.put(store, cards=[kept, a.card(scope, 2), pointer])
    assert await store.expire(scope_floor(a.NOW + 1), 9) == 1
    assert await store.box(a.PROJECT, BoxId("box_" + rolling), after=-1, limit=9) == [
        replace(pointer, content=kept.content)
    ]
    assert await store.card(a.PROJECT, kept.card_id) == kept
    assert await store.box(a.PROJECT, a.own_box(one), after=-1, limit=9) == [kept]
    assert await store.turn(a.PROJECT, one.turn_id) is None


async def a_box_that_an_agent_writes_to_outlives_the_turn_it_was_born_with(open_store: OpenStore) -> None:
    """Whole, as boxes only grow: whoever was promised it up to a place finds that, and nothing else there."""
    store = await open_store()
    first, later, other = a.turn(1), a.turn(2, at=a.NOW + 9), a.turn(3)
    own, memory = scope_of(first.turn_id), a.own_box(first)
    written = a.card(scope_of(later.turn_id), 1)
    pointer = a.card(own, 2, "", digest=written.digest, reference=written.card_id)
    for one in (first, later, other):
        await a.finished(store, one)
    await a.put(store, cards=[a.card(own, 1), written, pointer], box_owners={memory: first.key})
    strangers = {a.own_box(other): (a.ELSEWHERE, other.agent_id)}
    await a.put(store, cards=[a.card(scope_of(other.turn_id), 1)], box_owners=strangers)
    held = await store.box(a.PROJECT, memory, after=-1, limit=9)
    assert held is not None
    assert [card.position for card in held] == [0, 1, 2]
    assert await store.expire(scope_floor(a.NOW + 1), 9) == 2
    assert await store.turn(a.PROJECT, first.turn_id) is None
    assert await store.box(a.PROJECT, memory, after=-1, limit=9) == held
    assert await store.box_until(a.PROJECT, memory) == 2
    assert await store.expire(scope_floor(a.NOW + 10), 9) == 1
    assert await store.box(a.PROJECT, memory, after=-1, limit=9) == held
    assert await store.box(a.PROJECT, a.own_box(later), after=-1, limit=9) == [written]
    assert await store.box(a.PROJECT, a.own_box(other), after=-1, limit=9) is None, "a box of that name elsewhere"


async def what_lives_is_kept_however_old_it_is(open_store: OpenStore) -> None:
    store = await open_store()
    active, queued = a.turn(1), a.turn(2)
    rolling = a.scope_at(a.NOW, 9)
    head = a.holding(a.idle(), active, queued=1)
    mailbox_rows = {"turns": a.by_id([active, queued]), "inbox_put": a.in_line(OpenTurn(queued, 1))}
    await a.register(store, a.idle())
    await a.put(store, heads=a.swap(head), **mailbox_rows, leases={a.WORKER: a.NOW})
    await a.put(
        store,
        new_waits=a.waits_of(a.wait(active, "w"), a.wait(queued, "w")),
        cards=[a.card(scope_of(active.turn_id), 1), a.card(rolling, 1), a.card(rolling, 0)],
        steps=[a.step(active, "s"), a.step(queued, "s")],
        box_owners={BoxId("box_" + rolling): head.key},
        answers={(a.PROJECT, name): a.answer(name, at=a.NOW + n) for n, name in enumerate("abc")},
        outbox=a.announcement(1),
    )
    before = await store.load([head.key])
    kept = [await _left(store, active), await _left(store, queued)]
    assert await store.expire(scope_floor(a.NOW + 2), 99) == 2, "two answers"
    assert await store.load([head.key]) == before
    assert [await _left(store, active), await _left(store, queued)] == kept
    assert await store.box_length(a.PROJECT, BoxId("box_" + rolling)) == 1
    assert await store.box_owner(a.PROJECT, BoxId("box_" + rolling)) == head.key
    assert await store.lease(a.WORKER) == a.NOW
    assert await store.outbox(Scope("f" * 24), 9) == [a.announcement(1)]
    assert set(await store.recall([(a.PROJECT, name) for name in "abc"])) == {(a.PROJECT, "c")}


async def forgotten_answers_are_bounded_too(open_store: OpenStore) -> None:
    store = await open_store()
    names = "abcde"
    await a.put(store, answers={(a.PROJECT, name): a.answer(name, at=a.NOW + n) for n, name in enumerate(names)})
    assert await store.expire(scope_floor(a.NOW + 4), 3) == 3, "whoever looks for more has to know that there is"
    assert len(await store.recall([(a.PROJECT, name) for name in names])) == 2
    await a.finished(store, a.turn())
    assert await store.expire(scope_floor(a.NOW + 4), 3) == 2, "an answer and a turn"
    assert set(await store.recall([(a.PROJECT, name) for name in names])) == {(a.PROJECT, "e")}
    assert await store.expire(scope_floor(a.NOW + 4), 3) == 0


async def _left(store: TurnStore, of: Turn) -> int:
    """How much there is of a turn: itself, its cards, its steps."""
    view = await store.turn(of.project, of.turn_id)
    hydrated = await store.hydrate(of, fresh=False)
    return (view is not None) + len(hydrated.output) + len(hydrated.steps)


CHECKS: tuple[Check, ...] = (
    nothing_is_due_in_an_empty_store,
    the_turns_of_a_dead_worker_are_lost,
    a_lease_beyond_every_clock_is_dead,
    a_turn_whose_worker_has_no_lease_is_lost,
    waits_are_due_at_their_deadline,
    calls_that_began_in_the_future_are_found,
    calls_that_began_in_the_future_are_looked_for_in_rounds,
    the_next_look_is_for_what_comes_first,
    whom_nobody_came_for_is_found,
    what_a_worker_holds_is_known,
    a_sweep_is_bounded,
    those_who_cannot_be_helped_hide_nobody,
    announcements_wait_until_they_are_made,
    what_is_old_and_finished_is_forgotten,
    every_project_forgets,
    a_turn_is_kept_from_its_end_on,
    a_card_that_a_box_refers_to_outlives_its_turn,
    a_box_that_an_agent_writes_to_outlives_the_turn_it_was_born_with,
    what_lives_is_kept_however_old_it_is,
    forgotten_answers_are_bounded_too,
)
