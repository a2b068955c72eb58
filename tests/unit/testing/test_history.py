"""The history check finds nothing in an honest history, and each promise that is broken on purpose."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from dataclasses import replace as retold
from pathlib import Path

import pytest
from msgspec.structs import replace

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, CardId, ProjectId, Scope, ToolCallId, TurnId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey, MessageType, ToolCall, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.core.records.writes import OutboxRow, Writes
from homeostat.kernel.commands import Deliver, Enqueue, Suspend
from homeostat.kernel.kernel import Kernel
from homeostat.testing.history import Acknowledged, Effect, Violation, check

PROJECT = ProjectId("p")
ANN: AgentKey = (PROJECT, AgentId("ann"))
BOB: AgentKey = (PROJECT, AgentId("bob"))
CALL = ToolCallId("call-1")


@dataclass
class Past:
    """A finished history, and everything that is known of it besides."""

    path: Path
    store: SqliteTurns
    heard: list[Event]
    told: Acknowledged
    effects: list[Effect]
    first: TurnId
    last: TurnId

    async def violations(self, **changes: object) -> list[Violation]:
        known = {"heard": self.heard, "acknowledged": self.told, "effects": self.effects, **changes}
        return await check(self.store, [PROJECT], **known)  # pyright: ignore[reportArgumentType]


@pytest.fixture
async def past(tmp_path: Path) -> AsyncGenerator[Past]:
    path = tmp_path / "turns.db"
    engine = SqliteEngine(path)
    await engine.open()
    kernel = Kernel(store=SqliteTurns(engine), bus=LocalBus())
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    await kernel.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), hear)
    loops = [asyncio.ensure_future(run()) for _, run in kernel.loops]
    try:
        told, effects = await live(kernel)
        for _ in range(500):
            if len(heard) == len(told.ends) and not await kernel.store.outbox(Scope("f" * 24), 1):
                break
            await asyncio.sleep(0.01)
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
    turns = list(told.turns)
    yield Past(path, SqliteTurns(engine), heard, told, effects, turns[0], turns[-1])
    await engine.close()


async def live(kernel: Kernel) -> tuple[Acknowledged, list[Effect]]:
    """Three turns of one agent, the middle one with a step and a tool call, and one of another."""
    told, effects = Acknowledged(), list[Effect]()
    for key in (ANN, BOB):
        await kernel.register(key)
    worker = await kernel.open_worker([ANN, BOB], lambda _: None)
    for number, key in enumerate((ANN, ANN, ANN, BOB)):
        payload = Json(f'{{"n":{number}}}')
        accepted = await kernel.enqueue(Enqueue(key=key, type=MessageType.TURN, payload=payload))
        told.turns[accepted.turn_id] = payload
        (grant,) = await kernel.claim(worker, 1, 5.0)
        if number == 1:
            outcome = Json(f'{{"epoch":{grant.epoch},"token":"t"}}')
            await kernel.step(fence_of(grant), "step", outcome)
            told.steps[accepted.turn_id, "step"] = outcome
            effects.append(Effect(accepted.turn_id, "step", grant.epoch, "t"))
            await kernel.suspend(Suspend(fence=fence_of(grant), calls=(ToolCall(CALL, "echo", Json("{}")),)))
            reported = await kernel.report(PROJECT, accepted.turn_id, CALL, status=WaitStatus.SUCCESS, result=Json("1"))
            assert reported.result_card_id is not None
            told.results[accepted.turn_id, CALL] = reported.result_card_id
            (grant,) = await kernel.claim(worker, 1, 5.0)
        delivered = await kernel.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=Json('"done"')))
        told.ends[accepted.turn_id] = delivered.card_id
    return told, effects


def promises(violations: list[Violation]) -> set[str]:
    return {violation.promise for violation in violations}


async def test_an_honest_history_breaks_no_promise(past: Past) -> None:
    assert await past.violations() == []
    assert await past.violations(heard=[*past.heard, *past.heard]) == [], "a repeat is allowed"
    assert await past.violations(heard=None, acknowledged=None, effects=()) == []


@pytest.mark.parametrize(
    ("statement", "promise"),
    [
        ("DELETE FROM cards WHERE scope = substr(:last, 6)", "always_every_turn_is_in_one_place"),
        ("INSERT INTO inbox VALUES ('p', 'ann', 9, :first, 0, 0, 0)", "always_every_turn_is_in_one_place"),
        ("UPDATE heads SET queued = 1 WHERE agent_id = 'bob'", "always_every_turn_is_in_one_place"),
        ("UPDATE waits SET status = 'pending'", "always_the_finished_wait_for_nothing"),
        ("UPDATE turns SET seq = 7 WHERE turn_id = :first", "always_an_unbroken_line"),
        ("UPDATE heads SET tail_seq = 9 WHERE agent_id = 'ann'", "always_an_unbroken_line"),
        ("DELETE FROM turns WHERE turn_id = :second", "always_what_was_acknowledged_is_kept"),
        ("UPDATE heads SET epoch = 1 WHERE agent_id = 'ann'", "always_growing_epochs"),
        (
            "UPDATE cards SET content = replace(content, 'epoch\":1', 'epoch\":9') WHERE scope = substr(:first, 6)",
            "always_growing_epochs",
        ),
        (
            "UPDATE cards SET content = replace(content, 'done', 'undone') WHERE scope = substr(:first, 6)",
            "always_true_cards",
        ),
        ("UPDATE turns SET payload = '{}' WHERE turn_id = :first", "always_what_was_acknowledged_is_kept"),
        ("UPDATE cards SET digest = 'x' WHERE scope = substr(:first, 6)", "always_what_was_acknowledged_is_kept"),
        ("UPDATE waits SET result_card_id = NULL", "always_what_was_acknowledged_is_kept"),
        ("DELETE FROM steps", "always_what_was_acknowledged_is_kept"),
        ("UPDATE steps SET outcome = replace(outcome, '\"t\"', '\"u\"')", "always_a_stored_step_ran_once"),
        (
            "UPDATE heads SET status = 'dispatched', turn_id = :first WHERE agent_id = 'ann'",
            "finally_every_turn_has_a_deliverable",
        ),
    ],
)
async def test_a_store_that_was_tampered_with_is_found_out(past: Past, statement: str, promise: str) -> None:
    ids = list(past.told.turns)
    with sqlite3.connect(past.path) as connection:
        changed = connection.execute(statement, {"first": ids[0], "second": ids[1], "last": ids[-1]})
        assert changed.rowcount > 0
    connection.close()
    assert promise in promises(await past.violations())


async def test_an_event_that_was_not_heard_or_heard_in_other_words_is_found_out(past: Past) -> None:
    first, *others = past.heard
    assert promises(await past.violations(heard=others)) == {"finally_every_end_is_announced"}
    other_words = replace(first, payload=Json(first.payload.replace("success", "failed")))
    other_id = replace(first, event_id=f"{first.event_id}-again")
    unknown = replace(first, event_id="turn_zz", payload=Json('{"agent_turn_id":"turn_zz"}'))
    malformed = replace(first, event_id="turn_zz", payload=Json("[]"))
    for odd in (other_words, other_id, unknown, malformed):
        assert promises(await past.violations(heard=[*past.heard, odd])) == {"always_one_terminal_event"}
    assert promises(await past.violations(heard=[other_words, *others])) == {"always_one_terminal_event"}


async def test_an_announcement_that_was_never_made_is_found_out(past: Past) -> None:
    await past.store.save(Writes(outbox=OutboxRow(Scope("0" * 24), (past.heard[0],))))
    assert promises(await past.violations()) == {"finally_everything_is_announced"}
    assert await past.violations(at_rest=False) == []


async def test_without_a_bus_every_end_stands_in_the_outbox_once(past: Past) -> None:
    def rows(*events: Event) -> list[OutboxRow]:
        return [OutboxRow(Scope(f"{number:024x}"), (event,)) for number, event in enumerate(events)]

    async def violations(*events: Event) -> set[str]:
        before = await past.store.outbox(Scope("f" * 24), 99)
        await past.store.save(Writes(outbox_drop={row.outbox_id for row in before}))
        for row in rows(*events):
            await past.store.save(Writes(outbox=row))
        return promises(await past.violations(heard=None, announced=False))

    first, *others = past.heard
    assert await violations(first, *others) == set()
    assert await violations(*others) == {"finally_every_end_is_announced"}
    assert await violations() == {"finally_every_end_is_announced"}
    assert await violations(first, *past.heard) == {"always_one_terminal_event"}
    other_words = replace(first, payload=Json(first.payload.replace("success", "failed")))
    assert await violations(other_words, *others) == {"always_one_terminal_event"}


async def test_events_of_other_projects_and_of_forgotten_turns_say_nothing(past: Past) -> None:
    first = past.heard[0]
    elsewhere = replace(first, project=ProjectId("q"), payload=Json("{}"))
    forgotten = replace(first, event_id="turn_0", payload=Json('{"agent_turn_id":"turn_0"}'))
    assert await past.violations(heard=[*past.heard, elsewhere, forgotten]) == []


async def test_a_promise_that_was_not_kept_is_found_out(past: Past) -> None:
    lost = retold(past.told, turns={**past.told.turns, TurnId("turn_zz"): Json("{}")})
    assert promises(await past.violations(acknowledged=lost)) == {"always_what_was_acknowledged_is_kept"}
    twice = retold(past.told, contradictions=["one thing, and another"])
    assert promises(await past.violations(acknowledged=twice)) == {"always_what_was_acknowledged_is_kept"}
    changed = retold(past.told, ends={**past.told.ends, past.first: CardId("card_0_0_0")})
    assert promises(await past.violations(acknowledged=changed)) == {"always_what_was_acknowledged_is_kept"}


async def test_a_step_that_ran_again_is_found_out_unless_it_had_lost_the_turn(past: Past) -> None:
    (ran,) = past.effects
    again = retold(ran, epoch=ran.epoch + 1, token="again")  # noqa: S106 — it marks one run of a step
    twice = retold(ran, token="twice")  # noqa: S106
    fenced_off = retold(ran, epoch=ran.epoch - 1, token="late")  # noqa: S106
    assert promises(await past.violations(effects=[ran, again])) == {"always_a_stored_step_ran_once"}
    assert promises(await past.violations(effects=[ran, twice])) == {"always_a_stored_step_ran_once"}
    assert await past.violations(effects=[ran, fenced_off]) == []


async def test_work_that_goes_on_breaks_no_promise_that_must_always_hold(past: Past) -> None:
    engine = SqliteEngine(past.path)
    await engine.open()
    kernel = Kernel(store=SqliteTurns(engine), bus=LocalBus())
    running = asyncio.ensure_future(kernel.flusher.run())
    for _ in range(3):
        await kernel.enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=Json("{}")))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await engine.close()
    assert await past.violations(at_rest=False) == []
    assert promises(await past.violations()) == {"finally_every_turn_has_a_deliverable"}
