"""Ledgers are read alike from every engine, and so is what turns left behind."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresLedger, PostgresTurns
from homeostat.adapters.stores.postgres.ledger import put_entries as put_in_postgres
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteLedger, SqliteTurns
from homeostat.adapters.stores.sqlite.ledger import put_entries as put_in_sqlite
from homeostat.core.ids import RunId
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.provenance import Chain, Entry, EntryKind
from homeostat.core.records.recording import RECORDING
from homeostat.testing.suites import turn_records as a

RUN = RunId("run_1")


@dataclass
class Desk:
    """A ledger, the turns beside it, and a way to append."""

    ledger: LedgerStore
    turns: TurnStore
    put: Callable[[Sequence[Entry]], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """What keeps it; for PostgreSQL the URL of a database."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param


@pytest.fixture
async def desk(kind: str, tmp_path: Path) -> AsyncGenerator[Desk]:
    if kind not in {"memory", "sqlite"}:
        postgres = PostgresEngine(kind)
        await postgres.open()

        async def put(entries: Sequence[Entry]) -> None:
            await postgres.transact(lambda transaction: put_in_postgres(transaction, entries))

        yield Desk(PostgresLedger(postgres), PostgresTurns(postgres), put)
        await postgres.close()
        return
    engine = SqliteEngine(tmp_path / "ledger.db" if kind == "sqlite" else None)
    await engine.open()

    async def put_rows(entries: Sequence[Entry]) -> None:
        await engine.write(lambda connection: put_in_sqlite(connection, entries))

    yield Desk(SqliteLedger(engine), SqliteTurns(engine), put_rows)
    await engine.close()


async def test_entries_come_back_in_order_and_by_pages(desk: Desk) -> None:
    chain, other = Chain(a.PROJECT, RUN), Chain(a.PROJECT, RunId("run_2"))
    for number in range(12):
        chain.add(EntryKind.STEP, {"n": number, "text": "\u0001 ✓ \U0001f600"}, at_ms=a.NOW)
    other.add(EntryKind.STEP, {}, at_ms=a.NOW)
    await desk.put(chain.entries)
    await desk.put(other.entries)
    assert await desk.ledger.entries(a.PROJECT, RUN, after=0, limit=100) == chain.entries
    assert await desk.ledger.entries(a.PROJECT, RUN, after=3, limit=4) == chain.entries[3:7]
    assert await desk.ledger.entries(a.PROJECT, RUN, after=12, limit=4) == []
    assert await desk.ledger.entries(a.ELSEWHERE, RUN, after=0, limit=4) == []


async def test_a_number_is_given_once(desk: Desk) -> None:
    chain = Chain(a.PROJECT, RUN)
    chain.add(EntryKind.STEP, {}, at_ms=a.NOW)
    await desk.put(chain.entries)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await desk.put(chain.entries)


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
