"""Ledgers are read alike from every engine, and so is what turns left behind."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from homeostat.adapters.stores.postgres.ledger import put_lines as put_in_postgres
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.ledger import put_lines as put_in_sqlite
from homeostat.app.stores import ledger_store, turn_store
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.provenance import Chain, Entry, EntryKind, Tip
from homeostat.core.records.recording import RECORDING
from homeostat.testing.suites import turn_records as a
from tests.conformance.engines import Engine

RUN = RunId("run_1")


@dataclass
class Desk:
    """A ledger, the turns beside it, and a way to append."""

    ledger: LedgerStore
    turns: TurnStore
    put: Callable[[Chain], Awaitable[None]]


@pytest.fixture
def desk(engine: Engine) -> Desk:
    async def put(chain: Chain) -> None:
        if isinstance(engine, SqliteEngine):
            await engine.write(lambda connection: put_in_sqlite(connection, *written(chain)))
        else:
            await engine.transact(lambda transaction: put_in_postgres(transaction, *written(chain)))

    return Desk(ledger_store(engine), turn_store(engine), put)


def written(chain: Chain) -> tuple[ProjectId, RunId, int, list[str]]:
    return (chain.project, chain.run_id, chain.tip.next_seq - len(chain.lines), chain.lines)


async def test_entries_come_back_in_order_and_by_pages(desk: Desk) -> None:
    chain, other = Chain(a.PROJECT, RUN), Chain(a.PROJECT, RunId("run_2"))
    for number in range(12):
        chain.add(EntryKind.STEP, {"n": number, "text": "\u0001 ✓ \U0001f600"}, at_ms=a.NOW)
    other.add(EntryKind.STEP, {}, at_ms=a.NOW)
    await desk.put(chain)
    await desk.put(other)
    assert await desk.ledger.entries(a.PROJECT, RUN, after=0, limit=100) == chain.entries
    assert await desk.ledger.entries(a.PROJECT, RUN, after=3, limit=4) == chain.entries[3:7]
    assert await desk.ledger.entries(a.PROJECT, RUN, after=12, limit=4) == []
    assert await desk.ledger.entries(a.ELSEWHERE, RUN, after=0, limit=4) == []


async def test_entries_of_several_rows_are_one_ledger(desk: Desk) -> None:
    chain, entries = Chain(a.PROJECT, RUN), list[Entry]()
    for size in (1, 5, 2, 1, 7):
        for number in range(size):
            chain.add(EntryKind.STEP, {"n": number}, at_ms=a.NOW)
        entries += chain.entries
        await desk.put(chain)
        chain = Chain(a.PROJECT, RUN, chain.tip)
    for after in range(17):
        for limit in range(1, 18):
            found = await desk.ledger.entries(a.PROJECT, RUN, after=after, limit=limit)
            assert found == entries[after : after + limit], (after, limit)
    blocks = await desk.ledger.blocks(a.PROJECT, RUN, after=3, limit=4)
    assert [block[:2] for block in blocks] == [(2, 6), (7, 8)]


async def test_what_is_missing_hides_nothing_behind_it(desk: Desk) -> None:
    early, late = Chain(a.PROJECT, RUN), Chain(a.PROJECT, RUN, Tip(500, "f" * 64))
    early.add(EntryKind.STEP, {}, at_ms=a.NOW)
    late.add(EntryKind.STEP, {}, at_ms=a.NOW)
    await desk.put(early)
    await desk.put(late)
    assert await desk.ledger.entries(a.PROJECT, RUN, after=0, limit=10) == early.entries
    assert await desk.ledger.entries(a.PROJECT, RUN, after=1, limit=10) == late.entries
    assert await desk.ledger.entries(a.PROJECT, RUN, after=500, limit=10) == []


async def test_a_number_is_given_once(desk: Desk) -> None:
    chain = Chain(a.PROJECT, RUN)
    chain.add(EntryKind.STEP, {}, at_ms=a.NOW)
    await desk.put(chain)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await desk.put(chain)


async def test_a_turn_comes_with_what_it_left_behind_and_with_the_turns_it_asked_for(desk: Desk) -> None:
    parent = a.turn(1, run_id=RUN)
    child = a.turn(2, agent_id="agent-2", parent_turn_id=parent.turn_id, depth=1, run_id=RUN)
    grandchild = a.turn(3, agent_id="agent-3", parent_turn_id=child.turn_id, depth=2, run_id=RUN)
    stranger = a.turn(4, agent_id="agent-4")
    call = a.wait(parent, "call_1")
    cards = [
        a.card(a.scope_of(parent.turn_id), 1),
        a.deliverable(child),
        a.deliverable(grandchild),
        a.deliverable(stranger),
    ]
    await a.put(
        desk.turns,
        turns=a.by_id([parent, child, grandchild, stranger]),
        cards=cards,
        steps=[a.step(parent, "one"), a.step(child, "two"), a.step(stranger, "three")],
        new_waits=a.waits_of(call),
    )
    worked = await desk.ledger.worked(a.PROJECT, [parent.turn_id])
    assert [one.turn for one in worked] == [parent, child, grandchild]
    assert worked[0].steps == (a.step(parent, "one"),)
    assert worked[0].waits == (call,)
    assert worked[0].cards == (cards[0],)
    assert worked[1].steps == (a.step(child, "two"),)
    assert worked[1].cards == (cards[1],)
    assert await desk.ledger.worked(a.ELSEWHERE, [parent.turn_id]) == []
    assert await desk.ledger.worked(a.PROJECT, []) == []


async def test_turns_that_took_steps_or_asked_others_are_told_from_those_that_did_neither(desk: Desk) -> None:
    parent, stepping, recorded, quiet = a.turn(1), a.turn(3), a.turn(4), a.turn(5)
    child = a.turn(2, agent_id="agent-2", parent_turn_id=parent.turn_id, depth=1)
    turns = [parent, child, stepping, recorded, quiet]
    steps = [a.step(stepping, RECORDING), a.step(stepping, "one"), a.step(recorded, RECORDING)]
    await a.put(desk.turns, turns=a.by_id(turns), steps=steps)
    assert await desk.ledger.busy([turn.turn_id for turn in turns]) == {parent.turn_id, stepping.turn_id}
    assert await desk.ledger.busy([]) == set()
