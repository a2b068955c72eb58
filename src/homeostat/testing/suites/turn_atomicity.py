"""What a turn store promises about a save that fails, in whichever way it does: not one of its rows is kept."""

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.errors import Unavailable
from homeostat.core.ids import AgentId, BoxId, Scope, WorkerId, scope_of
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import OpenTurn, WaitStatus
from homeostat.core.records.writes import Writes
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore


async def a_save_that_fails_changes_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    seed = await _seed(store)
    before = await _everything(store)
    rows = _one_of_each(seed)
    stale = a.swap(replace(seed.head, version=seed.head.version))
    assert not (await store.save(replace(rows, heads=stale))).ok
    assert await _everything(store) == before
    taken = {(a.PROJECT, "taken"): a.answer("taken", '"second"')}
    assert (await store.save(replace(rows, answers={**rows.answers, **taken}))).answered
    assert await _everything(store) == before
    assert (await store.save(replace(rows, box_owners={**rows.box_owners, BoxId("box_taken"): seed.head.key}))).answered
    assert await _everything(store) == before
    assert (await store.save(replace(rows, new_heads={**rows.new_heads, seed.other.key: a.idle("other")}))).answered
    assert await _everything(store) == before
    await _refused(store, replace(rows, cards=[*rows.cards, a.card(seed.scope, 1, '"again"')]))
    assert await _everything(store) == before
    await _refused(store, replace(rows, turns={**rows.turns, **a.by_id([seed.turn])}))
    assert await _everything(store) == before
    await a.put(store, **{name: getattr(rows, name) for name in Writes.__struct_fields__})
    assert await _everything(store) != before


class _Seed:
    """A store with one of everything, so that a failing save has something to run into."""

    def __init__(self) -> None:
        self.turn = a.turn(1)
        self.scope = scope_of(self.turn.turn_id)
        self.head = a.holding(a.idle(), self.turn)
        self.other = a.idle("other")
        self.waiting = a.wait(self.turn, "call")


async def _seed(store: TurnStore) -> _Seed:
    seed = _Seed()
    await a.register(store, a.idle(), seed.other)
    await a.put(
        store,
        heads=a.swap(seed.head),
        turns=a.by_id([seed.turn, a.turn(2)]),
        inbox_put=a.in_line(OpenTurn(a.turn(2))),
        new_waits=a.waits_of(seed.waiting),
        cards=[a.card(seed.scope, 1)],
        steps=[a.step(seed.turn, "s")],
        box_owners={BoxId("box_taken"): seed.other.key},
        leases={a.WORKER: a.NOW, WorkerId("wrk_2"): a.NOW},
        answers={(a.PROJECT, "taken"): a.answer("taken")},
        outbox=a.announcement(1),
    )
    return seed


def _one_of_each(seed: _Seed) -> Writes:
    """A save that touches every table in every way there is."""
    fresh = a.turn(3)
    return Writes(
        heads=a.swap(a.moved(seed.head, tail_seq=5)),
        new_heads={(a.PROJECT, AgentId("third")): a.idle("third")},
        turns=a.by_id([fresh]),
        turn_boxes=a.by_id([replace(seed.turn, context_box_id=BoxId("box_n"))]),
        inbox_put=a.in_line(OpenTurn(fresh)),
        inbox_drop={(a.PROJECT, a.AGENT, 2)},
        new_waits=a.waits_of(a.wait(seed.turn, "new")),
        waits=a.waits_of(replace(seed.waiting, status=WaitStatus.ERROR)),
        cards=[a.card(seed.scope, 2)],
        steps=[a.step(seed.turn, "t")],
        box_owners={BoxId("box_new"): seed.head.key},
        leases={a.WORKER: Millis(a.NOW + 1)},
        leases_ended={WorkerId("wrk_2"): None},
        answers={(a.PROJECT, "new"): a.answer("new")},
        outbox=a.announcement(2),
        outbox_drop={a.announcement(1).outbox_id},
    )


async def _everything(store: TurnStore) -> list[object]:
    """All a save of `_one_of_each` could leave a trace in."""
    keys = [(a.PROJECT, AgentId(name)) for name in (a.AGENT, "other", "third")]
    fresh, seed = a.turn(3), a.turn(1)
    return [
        await store.load(keys),
        await store.turn(a.PROJECT, fresh.turn_id),
        await store.turn(a.PROJECT, seed.turn_id),
        await _line(store),
        await store.box(a.PROJECT, a.own_box(seed), after=-1, limit=10),
        (await store.hydrate(seed, fresh=False)).steps,
        [await store.box_owner(a.PROJECT, BoxId(name)) for name in ("box_taken", "box_new")],
        [await store.lease(WorkerId(name)) for name in ("wrk_1", "wrk_2")],
        await store.recall([(a.PROJECT, "taken"), (a.PROJECT, "new")]),
        await store.outbox(Scope("f" * 24), 10),
    ]


async def _refused(store: TurnStore, writes: Writes) -> None:
    """A save that no kernel should ask for is refused, and not as if the store were away."""
    try:
        saved = await store.save(writes)
    except Unavailable as error:
        raise AssertionError(f"the store blames itself for a bad save: {error}") from error
    except Exception:  # noqa: BLE001 - each driver has its own word for it
        return
    raise AssertionError(f"a row was written twice, and the store said {saved}")


async def _line(store: TurnStore) -> list[OpenTurn]:
    return await store.inbox(a.PROJECT, a.AGENT, after_seq=-1, limit=100)


CHECKS: tuple[Check, ...] = (a_save_that_fails_changes_nothing,)
