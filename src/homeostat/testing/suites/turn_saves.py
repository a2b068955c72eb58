"""What a turn store promises about saving: all or nothing, one winner, and nothing lost on the way."""

import asyncio
from typing import Any

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, BoxId, CardId, RunId, ToolCallId, TraceId, TurnId, WorkerId, scope_of
from homeostat.core.limits import PAYLOAD_BYTES_MAX, QUEUE_FRONT
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.turn import AfterExecution, MessageType, OpenTurn, WaitStatus
from homeostat.core.records.writes import Saved, Writes
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore

HOSTILE = (
    "plain",
    "",
    " ",
    "%_\\'\"`;--/*$1?1:x",
    "\u202eright-to-left \u00e9 e\u0301 \u4e2d\u6587 \U0001f9ec\u200d\U0001f680",
    "line\r\nbreak\ttab\u2028\x01\x7f\uffff",
    '"}]; DROP TABLE turns; --',
    "x" * 200,
)


async def an_agent_nobody_registered_is_missing(open_store: OpenStore) -> None:
    store = await open_store()
    assert await store.load([]) == {}
    assert await store.load([(a.PROJECT, a.AGENT)]) == {}
    await a.register(store, a.idle("known"))
    assert set(await store.load([(a.PROJECT, AgentId("known")), (a.PROJECT, a.AGENT)])) == {(a.PROJECT, "known")}


async def a_mailbox_is_loaded_as_it_was_saved(open_store: OpenStore) -> None:
    """Every field of every record, through another instance."""
    store = await open_store()
    active = a.turn(
        4,
        type=MessageType.JOIN_REQUEST,
        correlation_id="c",
        source=AgentId("asker"),
        parent_turn_id=TurnId("turn_parent"),
        parent_step_id="step",
        reply_call_id=ToolCallId("call"),
        trace_id=TraceId("f" * 32),
        depth=3,
        run_id=RunId("run_1"),
        context_box_id=BoxId("box_c"),
        output_box_id=BoxId("box_o"),
        result_fields=Json('[{"name":"x"}]'),
        previous_turn_id=TurnId("turn_before"),
    )
    waits = (
        a.wait(active, "b", created_at_ms=Millis(a.NOW - 1), after_execution=AfterExecution.TERMINATE, step_id="s"),
        a.wait(active, "a", call_card_id=CardId("card_x"), status=WaitStatus.ERROR, answered_at_ms=a.NOW),
        a.wait(active, "c", result_card_id=CardId("card_y")),
    )
    head = replace(
        a.holding(a.idle(), active, HeadStatus.SUSPENDED),
        starts=2,
        losses=1,
        cards=5,
        gate=Gate.DRAINING,
        gate_reason="why",
        queued=2,
        tail_seq=9,
        waiting=2,
        deadline_ms=a.NOW,
    )
    begun, fresh = a.turn(8), a.turn(9)
    line = (OpenTurn(begun, 1, 2, 3, (a.wait(begun, "z"),)), OpenTurn(fresh))
    idle = a.idle("quiet", gate=Gate.CLOSED)
    await a.register(store, a.idle(), idle)
    await a.put(
        store,
        heads=a.swap(head),
        turns=a.by_id([active, begun, fresh]),
        inbox_put=a.in_line(*line),
        new_waits=a.waits_of(*waits, *line[0].waits),
    )
    found = await (await open_store()).load([head.key, idle.key, head.key])
    assert found == {head.key: Mailbox(head, OpenTurn(active, 2, 1, 5, waits), line), idle.key: Mailbox(idle)}


async def a_mailbox_holds_the_front_of_the_line_in_order(open_store: OpenStore) -> None:
    store = await open_store()
    turns = [a.turn(seq) for seq in range(1, QUEUE_FRONT + 5)]
    line = [OpenTurn(one) for one in turns]
    head = a.idle(queued=len(line), tail_seq=len(line))
    await a.register(store, head, a.idle("other"))
    await a.put(store, turns=a.by_id(turns), inbox_put=a.in_line(*reversed(line)))
    assert await store.load([head.key]) == {head.key: Mailbox(head, None, tuple(line[:QUEUE_FRONT]))}


async def a_head_is_swapped_only_from_the_version_it_was_read_at(open_store: OpenStore) -> None:
    store = await open_store()
    heads = [a.idle(f"agent-{n}") for n in range(3)]
    await a.register(store, *heads)
    once = a.moved(heads[1], tail_seq=7)
    await a.put(store, heads=a.swap(once))
    late = [a.moved(head, tail_seq=99) for head in heads]
    missing = a.moved(a.idle("nobody"))
    assert await store.save(Writes(heads=a.swap(*late))) == Saved(stale=frozenset({once.key}))
    assert await store.save(Writes(heads=a.swap(late[1]))) == Saved(stale=frozenset({once.key}))
    assert await store.save(Writes(heads=a.swap(missing, late[0]))) == Saved(stale=frozenset({missing.key}))
    assert await _heads(store, *heads) == [heads[0], once, heads[2]]
    await a.put(store, heads=a.swap(late[0], a.moved(once), late[2]))
    assert await _heads(store, *heads) == [late[0], a.moved(once), late[2]]


async def exactly_one_of_two_rivals_wins(open_store: OpenStore) -> None:
    """Two instances decide on the same mailbox at the same time."""
    ours, theirs = await open_store(), await open_store()
    head = a.idle()
    await a.register(ours, head)
    for number in range(12):
        turns = [a.turn(2 * number + 1, payload=Json('"ours"')), a.turn(2 * number + 2, payload=Json('"theirs"'))]
        moves = [a.moved(head, last_turn_id=one.turn_id) for one in turns]
        outcomes = await asyncio.gather(
            *(
                store.save(Writes(heads=a.swap(move), turns=a.by_id([one])))
                for store, move, one in zip((ours, theirs), moves, turns, strict=True)
            )
        )
        assert sorted(saved.ok for saved in outcomes) == [False, True], "one rival wins, one loses"
        won = 0 if outcomes[0].ok else 1
        assert outcomes[1 - won] == Saved(stale=frozenset({head.key}))
        head = moves[won]
        assert await _heads(theirs, head) == [head]
        assert [await ours.turn(a.PROJECT, one.turn_id) is not None for one in turns] == [won == 0, won == 1]


async def rivals_over_many_heads_never_wait_for_each_other_for_ever(open_store: OpenStore) -> None:
    """Each names the same heads in another order; whoever loses is told which heads had moved, and goes again."""
    stores = [await open_store(), await open_store()]
    keys = [(a.PROJECT, AgentId(f"agent-{n}")) for n in range(6)]
    await a.register(stores[0], *(a.idle(key[1]) for key in keys))

    async def rival(store: TurnStore, order: list[Any]) -> int:
        won = 0
        while won < 10:
            heads = [mailbox.head for mailbox in (await store.load(keys)).values()]
            moves = {head.key: a.moved(head, tail_seq=head.tail_seq + 1) for head in heads}
            saved = await store.save(Writes(heads={key: (moves[key].version - 1, moves[key]) for key in order}))
            assert saved.ok or (saved.stale and saved.stale <= set(keys))
            won += saved.ok
        return won

    wins = await asyncio.wait_for(asyncio.gather(rival(stores[0], keys), rival(stores[1], keys[::-1])), timeout=30)
    heads = await _heads(stores[0], *(a.idle(key[1]) for key in keys))
    assert [head and head.tail_seq for head in heads] == [sum(wins)] * 6


async def a_key_is_answered_once(open_store: OpenStore) -> None:
    ours, theirs = await open_store(), await open_store()
    for number in range(6):
        answers = [a.answer(f"k{number}", f'"{name}"') for name in ("ours", "theirs")]
        outcomes = await asyncio.gather(
            *(
                store.save(Writes(answers={(a.PROJECT, f"k{number}"): one}))
                for store, one in zip((ours, theirs), answers, strict=True)
            )
        )
        assert sorted(saved.answered for saved in outcomes) == [False, True]
        first = answers[0] if outcomes[0].ok else answers[1]
        key = (a.PROJECT, f"k{number}")
        assert await theirs.recall([key, (a.PROJECT, "never")]) == {key: first}
    assert await ours.recall([]) == {}


async def a_place_in_line_is_put_noted_and_dropped(open_store: OpenStore) -> None:
    store = await open_store()
    one, two = a.turn(1), a.turn(2)
    await a.put(store, turns=a.by_id([one, two]), inbox_put=a.in_line(OpenTurn(one), OpenTurn(two)))
    await a.put(store, inbox_put=a.in_line(OpenTurn(one, 4, 5, 6)))
    assert await _line(store) == [OpenTurn(one, 4, 5, 6), OpenTurn(two)]
    await a.put(store, inbox_drop={(a.PROJECT, a.AGENT, 1), (a.PROJECT, a.AGENT, 77)})
    assert await _line(store) == [OpenTurn(two)]


async def the_first_outcome_of_a_step_stays(open_store: OpenStore) -> None:
    store = await open_store()
    done, other = a.turn(1), a.turn(2)
    await a.put(store, turns=a.by_id([done, other]), steps=[a.step(done, "s", '"first"'), a.step(done, "s", '"twin"')])
    await a.put(store, steps=[a.step(done, "s", '"late"'), a.step(done, "t"), a.step(other, "s", '"other"')])
    assert (await store.hydrate(done, fresh=False)).steps == {"s": '"first"', "t": '"done"'}
    assert (await store.hydrate(other, fresh=False)).steps == {"s": '"other"'}


async def a_wait_is_answered_in_place(open_store: OpenStore) -> None:
    store = await open_store()
    waiting = a.turn()
    opened = [a.wait(waiting, "a", step_id="s"), a.wait(waiting, "b")]
    answered = replace(
        opened[0],
        status=WaitStatus.SUCCESS,
        after_execution=AfterExecution.TERMINATE,
        result_card_id=CardId("card_r"),
        answered_at_ms=Millis(a.NOW + 5),
    )
    await a.put(store, turns=a.by_id([waiting]), new_waits=a.waits_of(*opened))
    await a.put(store, waits=a.waits_of(answered))
    view = await store.turn(a.PROJECT, waiting.turn_id)
    assert view is not None
    assert view.waits == (answered, opened[1])


async def the_boxes_of_a_turn_are_replaced(open_store: OpenStore) -> None:
    store = await open_store()
    before, other = a.turn(1, context_box_id=BoxId("box_1")), a.turn(2)
    after = replace(before, context_box_id=BoxId("box_2"), output_box_id=BoxId("box_3"))
    await a.put(store, turns=a.by_id([before, other]))
    await a.put(store, turn_boxes=a.by_id([after]))
    views = [await store.turn(a.PROJECT, one.turn_id) for one in (before, other)]
    assert [view and view.turn for view in views] == [after, other]


async def a_lease_runs_on_until_it_is_ended(open_store: OpenStore) -> None:
    store = await open_store()
    assert await store.lease(a.WORKER) is None
    await a.put(store, leases={a.WORKER: a.NOW, WorkerId("wrk_2"): a.NOW})
    await a.put(store, leases={a.WORKER: Millis(a.NOW + 10)})
    assert [await store.lease(WorkerId(name)) for name in ("wrk_1", "wrk_2")] == [a.NOW + 10, a.NOW]
    await a.put(store, leases_ended={a.WORKER: None, WorkerId("wrk_never"): None})
    assert [await store.lease(WorkerId(name)) for name in ("wrk_1", "wrk_2")] == [None, a.NOW]


async def a_lease_that_was_renewed_meanwhile_does_not_end(open_store: OpenStore) -> None:
    """Of two that saw a worker dead, the later one must not end the lease the worker has by then."""
    store = await open_store()
    ended, renewed, left = (WorkerId(f"wrk_{n}") for n in range(3))
    await a.put(store, leases={ended: a.NOW, renewed: Millis(a.NOW + 10), left: Millis(a.NOW + 10)})
    await a.put(store, leases_ended={ended: a.NOW, renewed: a.NOW, left: None, WorkerId("wrk_never"): a.NOW})
    assert [await store.lease(worker) for worker in (ended, renewed, left)] == [None, a.NOW + 10, None]
    await a.put(store, leases_ended={renewed: a.NOW})
    assert await store.lease(renewed) == a.NOW + 10
    await a.put(store, leases_ended={renewed: Millis(a.NOW + 10)})
    assert await store.lease(renewed) is None


async def text_comes_back_as_it_went_in(open_store: OpenStore) -> None:
    """Names and contents are the agents' own, and agents are not to be trusted."""
    store = await open_store()
    for number, text in enumerate(HOSTILE):
        name = f"{number}{text}"
        content = Json('{"nul":"\\u0000","text":"' + "\U0001f9ec" * number + '"}')
        one = a.turn(number, agent_id=name, payload=content, correlation_id=text, parent_step_id=text)
        head = a.holding(a.idle(name, gate_reason=text), one, HeadStatus.DISPATCHED)
        waiting = a.wait(one, name, tool=text, step_id=text)
        note = a.card(scope_of(one.turn_id), 1, content, type=text, author=AgentId(name))
        reply = a.answer(name, content)
        await a.register(store, a.idle(name, gate_reason=text))
        await a.put(
            store,
            heads=a.swap(head),
            turns=a.by_id([one]),
            new_waits=a.waits_of(waiting),
            cards=[note],
            steps=[a.step(one, text, content)],
            answers={(a.PROJECT, name): reply},
            box_owners={BoxId(f"box_{name}"): head.key},
            leases={WorkerId(name): a.NOW},
        )
        assert await store.load([head.key]) == {head.key: Mailbox(head, OpenTurn(one, waits=(waiting,)))}
        assert await store.card(a.PROJECT, note.card_id) == note
        assert (await store.hydrate(one, fresh=False)).steps == {text: content}
        assert await store.recall([(a.PROJECT, name)]) == {(a.PROJECT, name): reply}
        assert await store.box_owner(a.PROJECT, BoxId(f"box_{name}")) == head.key
        assert await store.lease(WorkerId(name)) == a.NOW
        assert await store.dispatched([head.key], 1) == [head.key]
    assert len(await store.heads(a.PROJECT, after=None, limit=100)) == len(HOSTILE)


async def the_largest_payload_fits(open_store: OpenStore) -> None:
    store = await open_store()
    payload = Json('"' + "é" * ((PAYLOAD_BYTES_MAX - 2) // 2) + '"')
    one = a.turn(payload=payload)
    note = a.card(scope_of(one.turn_id), 1, payload)
    await a.put(store, turns=a.by_id([one]), cards=[note], steps=[a.step(one, "s", payload)])
    view = await store.turn(a.PROJECT, one.turn_id)
    assert view is not None
    assert view.turn == one
    assert await store.card(a.PROJECT, note.card_id) == note
    assert (await store.hydrate(one, fresh=False)).steps == {"s": payload}


async def nothing_to_save_is_saved(open_store: OpenStore) -> None:
    assert await (await open_store()).save(Writes()) == Saved()


async def _heads(store: TurnStore, *like: Head) -> list[Head | None]:
    found = await store.load([head.key for head in like])
    return [found[head.key].head if head.key in found else None for head in like]


async def _line(store: TurnStore) -> list[OpenTurn]:
    return await store.inbox(a.PROJECT, a.AGENT, after_seq=-1, limit=100)


CHECKS: tuple[Check, ...] = (
    an_agent_nobody_registered_is_missing,
    a_mailbox_is_loaded_as_it_was_saved,
    a_mailbox_holds_the_front_of_the_line_in_order,
    a_head_is_swapped_only_from_the_version_it_was_read_at,
    exactly_one_of_two_rivals_wins,
    rivals_over_many_heads_never_wait_for_each_other_for_ever,
    a_key_is_answered_once,
    a_place_in_line_is_put_noted_and_dropped,
    the_first_outcome_of_a_step_stays,
    a_wait_is_answered_in_place,
    the_boxes_of_a_turn_are_replaced,
    a_lease_runs_on_until_it_is_ended,
    a_lease_that_was_renewed_meanwhile_does_not_end,
    text_comes_back_as_it_went_in,
    the_largest_payload_fits,
    nothing_to_save_is_saved,
)
