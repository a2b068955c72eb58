"""What every source of turns must do, wherever its workers run."""

import asyncio
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import BoxUnknown
from homeostat.core.ids import AgentId, BoxId, ProjectId, ToolCallId, box_of, scope_floor
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.records.card import CardDraft
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import Grant, MessageType, ToolCall, WaitStatus
from homeostat.core.records.work import Ask
from homeostat.kernel.commands import Enqueue
from homeostat.testing.suites import turn_endings as e
from homeostat.testing.suites.turn_world import DONE, PATIENCE_SECONDS, Check, World, deliver, is_stale, one, soon

# --- granting ------------------------------------------------------------------------------------------------


async def a_grant_carries_the_whole_message(world: World) -> None:
    session = await world.worker()
    box_id = await world.kernel.create_box(world.project, [CardDraft("note", Json('"remember"'))], None)
    payload = {"text": 'ü "quoted" \\ 東京', "big": 2**60, "none": None, "deep": [[["x"]]]}
    turn_id = await world.send(
        payload=payload,
        correlation_id="corr-1",
        context_box_id=box_id,
        result_fields=to_json([{"name": "answer", "required": False}]),
        depth=3,
    )
    grant = await one(session)
    view = await world.kernel.store.turn(world.project, turn_id)
    assert view is not None
    assert grant.turn == replace(view.turn, context_until=grant.turn.context_until), (
        "how far a context goes, a server knows"
    )
    assert from_json(grant.turn.payload) == payload
    assert (grant.worker_id, grant.epoch, grant.fresh, grant.waits) == (session.worker_id, view.epoch, True, ())


async def a_waiting_claim_is_answered_when_a_message_comes(world: World) -> None:
    session = await world.worker()
    claim = asyncio.create_task(session.claim(1, PATIENCE_SECONDS))
    for _ in range(3):
        await asyncio.sleep(0)
    turn_id = await world.send()
    assert [grant.turn.turn_id for grant in await soon(claim)] == [turn_id]


async def a_claim_ends_empty_when_its_time_is_over(world: World) -> None:
    session = await world.worker()
    assert await soon(session.claim(4, 0.05)) == []
    assert await soon(session.claim(4, 0.0)) == []


async def only_hosted_agents_are_granted(world: World) -> None:
    ann = await world.worker("ann")
    await world.source.register([world.key("bob")])
    turn_id = await world.send("bob")
    assert await ann.claim(4, 0.05) == []
    await ann.host([world.key("bob")])
    assert (await one(ann)).turn.turn_id == turn_id


async def an_agent_of_another_project_is_another_agent(world: World) -> None:
    session = await world.worker("ann")
    other = (ProjectId(world.project + "-b"), AgentId("ann"))
    await world.kernel.register(other)
    await world.kernel.enqueue(Enqueue(key=other, type=MessageType.TURN, payload=Json("1")))
    assert await session.claim(4, 0.05) == []
    await session.host([other])
    grant = await one(session)
    assert grant.turn.key == other
    await deliver(session, grant)
    assert await world.kernel.deliverables.get(other[0], grant.turn.turn_id) is not None


async def an_agent_has_one_turn_at_a_time_in_order(world: World) -> None:
    session = await world.worker("ann", "bob")
    sent = [await world.send("ann", payload=number) for number in range(4)]
    lone = await world.send("bob")
    grants = await soon(session.claim(8, PATIENCE_SECONDS))
    while len(grants) < 2:
        grants += await soon(session.claim(8, PATIENCE_SECONDS))
    assert {grant.turn.turn_id for grant in grants} == {sent[0], lone}
    grant = next(grant for grant in grants if grant.turn.agent_id == "ann")
    seen = [grant.turn.turn_id]
    for _ in sent[1:]:
        await deliver(session, grant)
        grant = await one(session)
        seen.append(grant.turn.turn_id)
    assert seen == sent


async def a_cancelled_claim_loses_no_turn(world: World) -> None:
    session = await world.worker("ann")
    for pause in range(24):
        claim = asyncio.create_task(session.claim(1, PATIENCE_SECONDS))
        sending = asyncio.create_task(world.send())
        if pause % 2:
            await sending  # half of the time the turn is there already, and on its way to the claim
        for _ in range(pause):
            await asyncio.sleep(0)
        claim.cancel()
        turn_id = await sending
        grants: list[Grant] = []
        with suppress(asyncio.CancelledError):
            grants = await claim
        grant = grants[0] if grants else await one(session)
        assert grant.turn.turn_id == turn_id
        await deliver(session, grant)


# --- progress ------------------------------------------------------------------------------------------------


async def steps_and_cards_outlive_the_worker_that_wrote_them(world: World) -> None:
    session = await world.worker()
    turn_id = await world.send()
    grant = await one(session)
    await session.step(grant, "look up", to_json({"population": 545_000}))
    await session.step(grant, "look up", to_json("a second outcome is not kept"))
    ids = await session.write(grant, (CardDraft("note", Json('"one"')), CardDraft("note", Json('{"two":2}'))))
    assert len(set(ids)) == 2
    await session.release(grant)

    again = await one(await world.worker())
    assert (again.turn.turn_id, again.fresh) == (turn_id, False)
    assert again.epoch > grant.epoch
    hydration = await world.sessions[-1].hydrate(again)
    assert {name: from_json(outcome) for name, outcome in hydration.steps.items()} == {
        "look up": {"population": 545_000}
    }
    assert [card.card_id for card in hydration.output] == list(ids)
    assert [card.value for card in hydration.output] == ["one", {"two": 2}]
    card = await world.sessions[-1].card(again, ids[1])
    assert card == hydration.output[1]
    assert card is not None
    assert card.author == "ann"


async def a_card_that_does_not_exist_is_none(world: World) -> None:
    session = await world.worker()
    await world.send()
    grant = await one(session)
    (card_id,) = await session.write(grant, (CardDraft("note", Json("1")),))
    assert await session.card(grant, type(card_id)(card_id[:-1] + ("0" if card_id[-1] != "0" else "1"))) is None


async def context_is_there_from_the_beginning(world: World) -> None:
    session = await world.worker()
    drafts = [CardDraft("note", to_json(number)) for number in range(3)]
    box_id = await world.kernel.create_box(world.project, drafts, AgentId("librarian"))
    await world.send(context_box_id=box_id)
    hydration = await session.hydrate(await one(session))
    assert [(card.type, card.value, card.author) for card in hydration.context] == [
        ("note", number, "librarian") for number in range(3)
    ]
    assert (hydration.steps, hydration.output) == ({}, ())


async def a_context_is_what_it_was_when_it_was_sent(world: World) -> None:
    """Whatever another agent writes to the box until the turn begins, or begins again."""
    writer, reader = await world.worker("bob"), await world.worker("ann")
    memory = await world.kernel.create_box(world.project, [CardDraft("note", Json("1"))], None)

    async def written(number: int) -> None:
        await world.send("bob", output_box_id=memory)
        grant = await one(writer)
        await writer.write(grant, (CardDraft("note", to_json(number)),))
        await deliver(writer, grant)

    async def read(session: WorkerSession, grant: Grant) -> list[object]:
        return [card.value for card in (await session.hydrate(grant)).context if card.type == "note"]

    await world.send("ann", context_box_id=memory)
    await written(2)
    grant = await one(reader)
    assert await read(reader, grant) == [1]
    asked = await world.worker("cid")
    ask = Ask(call_id=ToolCallId("c"), agent_id=AgentId("cid"), payload=DONE, context_box_id=memory)
    await reader.suspend(grant, asks=(ask,))
    await written(3)
    child = await one(asked)
    assert await read(asked, child) == [1, 2]
    await deliver(asked, child)
    grant = await one(reader)
    assert await read(reader, grant) == [1]
    await reader.swap_boxes(grant, context_box_id=memory)
    await written(4)
    await reader.release(grant)
    assert await read(reader, await one(reader)) == [1, 2, 3]


async def a_context_that_was_forgotten_is_not_taken_for_an_empty_one(world: World) -> None:
    session = await world.worker()
    ended = await world.send()
    await deliver(session, await one(session))
    kept = await world.kernel.create_box(world.project, (), None)
    await world.send(context_box_id=box_of(ended))
    await world.send(context_box_id=kept)
    assert await world.kernel.store.expire(scope_floor(world.kernel.clock.now_ms() + 1), 100) > 0
    for gone in (True, False):
        grant = await one(session)
        hydration = await session.hydrate(grant)
        assert (hydration.context, hydration.context_gone) == ((), gone)
        await deliver(session, grant)


async def a_turn_can_be_pointed_at_other_boxes(world: World) -> None:
    session = await world.worker()
    turn_id = await world.send()
    grant = await one(session)
    context = await world.kernel.create_box(world.project, [CardDraft("summary", Json('"short"'))], None)
    memory = await world.kernel.create_box(world.project, [], None)
    await session.swap_boxes(grant, context_box_id=context, output_box_id=memory)
    try:
        await session.swap_boxes(grant, context_box_id=BoxId("box_" + "0" * 24))
    except BoxUnknown:
        pass
    else:
        raise AssertionError("a box that does not exist was accepted")
    view = await world.kernel.store.turn(world.project, turn_id)
    assert view is not None
    assert (view.turn.context_box_id, view.turn.output_box) == (context, memory)
    await session.release(grant)
    again = await one(session)
    assert (again.turn.context_box_id, again.turn.output_box_id) == (context, memory)
    assert [card.value for card in (await session.hydrate(again)).context] == ["short"]


async def a_chunk_reaches_whoever_listens(world: World) -> None:
    heard: asyncio.Queue[Event] = asyncio.Queue()
    await world.kernel.bus.subscribe(subject(world.project, Channel.STR, "agent", "ann", "chunk"), heard.put)
    session = await world.worker()
    await world.send()
    grant = await one(session)
    await session.emit(grant, to_json({"text": "Lis"}))
    event = await soon(heard.get())
    assert (event.event_id, from_json(event.payload)) == (grant.turn.turn_id, {"text": "Lis"})


# --- waiting -------------------------------------------------------------------------------------------------


async def a_suspended_turn_comes_back_with_its_results(world: World) -> None:
    session = await world.worker()
    turn_id = await world.send()
    grant = await one(session)
    calls = tuple(ToolCall(ToolCallId(f"call_{n}"), "search", to_json({"n": n}), step_id="s1") for n in range(2))
    suspended = await session.suspend(grant, calls, cards=(CardDraft("thought", Json('"I will look it up"')),))
    assert (suspended.ready, [wait.call_id for wait in suspended.waits]) == (False, ["call_0", "call_1"])
    assert {wait.status for wait in suspended.waits} == {WaitStatus.PENDING}
    assert await is_stale(session.step(grant, "too late", DONE))
    await world.kernel.report(
        world.project, turn_id, ToolCallId("call_1"), status=WaitStatus.ERROR, result=to_json("no such page")
    )
    assert await session.claim(1, 0.05) == []
    await world.kernel.report(
        world.project, turn_id, ToolCallId("call_0"), status=WaitStatus.SUCCESS, result=to_json([1, 2])
    )
    again = await one(session)
    assert (again.turn.turn_id, again.fresh) == (turn_id, False)
    results = {wait.call_id: wait for wait in again.waits}
    assert {call_id: wait.status for call_id, wait in results.items()} == {
        "call_0": WaitStatus.SUCCESS,
        "call_1": WaitStatus.ERROR,
    }
    card_id = results[ToolCallId("call_0")].result_card_id
    assert card_id is not None
    card = await session.card(again, card_id)
    assert card is not None
    assert card.value == {"tool_call_id": "call_0", "status": "success", "result": [1, 2]}
    assert card in (await session.hydrate(again)).output
    replayed = await session.suspend(again, calls)
    assert (replayed.ready, replayed.waits) == (True, again.waits)
    await deliver(session, again)


async def a_turn_that_asks_another_agent_gets_its_answer(world: World) -> None:
    session = await world.worker("ann", "bob")
    parent_id = await world.send("ann")
    parent = await one(session)
    ask = Ask(call_id=ToolCallId("ask_1"), agent_id=AgentId("bob"), payload=to_json({"sum": [1, 2]}), step_id="s9")
    assert not (await session.suspend(parent, asks=(ask,))).ready
    child = await one(session)
    assert (child.turn.agent_id, child.turn.type) == ("bob", MessageType.JOIN_REQUEST)
    assert (child.turn.source, child.turn.parent_turn_id, child.turn.parent_step_id) == ("ann", parent_id, "s9")
    assert (child.turn.depth, child.turn.trace_id) == (parent.turn.depth + 1, parent.turn.trace_id)
    assert from_json(child.turn.payload) == {"sum": [1, 2]}
    await deliver(session, child, 3)
    again = await one(session)
    assert again.turn.turn_id == parent_id
    card_id = again.waits[0].result_card_id
    assert card_id is not None
    card = await session.card(again, card_id)
    assert card is not None
    assert card.value["result"]["result"] == 3


CHECKS: Final[tuple[Check, ...]] = (
    a_grant_carries_the_whole_message,
    a_waiting_claim_is_answered_when_a_message_comes,
    a_claim_ends_empty_when_its_time_is_over,
    only_hosted_agents_are_granted,
    an_agent_of_another_project_is_another_agent,
    an_agent_has_one_turn_at_a_time_in_order,
    a_cancelled_claim_loses_no_turn,
    steps_and_cards_outlive_the_worker_that_wrote_them,
    a_card_that_does_not_exist_is_none,
    context_is_there_from_the_beginning,
    a_context_is_what_it_was_when_it_was_sent,
    a_context_that_was_forgotten_is_not_taken_for_an_empty_one,
    a_turn_can_be_pointed_at_other_boxes,
    a_chunk_reaches_whoever_listens,
    a_suspended_turn_comes_back_with_its_results,
    a_turn_that_asks_another_agent_gets_its_answer,
    e.a_delivery_ends_the_turn_and_brings_the_next,
    e.a_repeated_delivery_is_the_same_and_another_one_is_stale,
    e.a_deliverable_must_cover_what_was_asked_for,
    e.a_stopped_turn_is_revoked_at_once,
    e.a_preempted_turn_is_revoked_and_granted_anew,
    e.a_silent_worker_loses_its_turn_to_another,
    e.a_worker_that_was_silent_can_have_its_turn_back,
    e.a_worker_that_renews_keeps_its_turn,
    e.a_leaving_worker_hands_back_what_it_had_not_collected,
    e.a_leaving_worker_hands_back_what_it_holds,
    e.a_released_turn_costs_no_attempt,
)
