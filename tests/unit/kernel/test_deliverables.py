"""Waiting for the end of a turn."""

import asyncio
from collections.abc import Collection
from typing import NoReturn

import pytest

from homeostat.core.errors import AgentUnknown, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, ProjectId, Scope, TurnId, scope_of, turn_of
from homeostat.core.records.view import Deliverable
from homeostat.kernel import deliverables as module
from homeostat.kernel.deliverables import Deliverables
from homeostat.kernel.rounds import Rounds
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel


async def test_a_deliverable_reads_the_same_from_memory_and_from_the_store() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        memory = await kernel.create_box(DEFAULT_PROJECT, (), None)
        for box in (None, memory):
            accepted = await kernel.enqueue(desk.message("a", output_box_id=box))
            await kernel.stop(DEFAULT_PROJECT, accepted.turn_id, reason="enough", actor="ann")
            at_hand = await kernel.deliverables.get(DEFAULT_PROJECT, accepted.turn_id)
            stored = desk.deliverable(accepted.turn_id)
            assert at_hand is not None
            assert at_hand == stored
            assert box is None or at_hand.output_box_id == box


async def test_whoever_waits_is_woken_by_the_commit() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        accepted = await kernel.enqueue(desk.message("a"))
        waiting = asyncio.ensure_future(kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 60.0))
        await asyncio.sleep(0)
        await kernel.stop(DEFAULT_PROJECT, accepted.turn_id, reason="enough", actor="ann")
        found = await asyncio.wait_for(waiting, 5.0)
        assert isinstance(found, Deliverable)
        assert found.turn_id == accepted.turn_id


async def test_nobody_waits_beyond_their_time() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        accepted = await kernel.enqueue(desk.message("a"))
        assert await kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 0.0) is None
        assert await kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 0.01) is None


async def test_the_first_card_of_an_empty_box_is_nobody_s_deliverable() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        box = await kernel.create_box(DEFAULT_PROJECT, (), None)
        assert await kernel.deliverables.get(DEFAULT_PROJECT, turn_of(scope_of(box))) is None
        fresh = Deliverables(store=desk.store)
        assert await fresh.get(DEFAULT_PROJECT, turn_of(scope_of(box))) is None


async def test_a_wait_that_looks_often_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAFETY_POLL_SECONDS", 0.001)
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        accepted = await kernel.enqueue(desk.message("a"))
        assert await kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 0.02) is None
        assert kernel.deliverables._waiters == {}


async def test_an_end_between_a_false_alarm_and_the_look_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        accepted = await kernel.enqueue(desk.message("a"))
        look = kernel.deliverables.get
        looks = 0

        async def slow(project: ProjectId, turn_id: TurnId) -> Deliverable | None:
            nonlocal looks
            looks += 1
            if looks == 2:  # what it saw is old by the time it is told
                await kernel.stop(project, turn_id, reason="enough", actor="ann")
                return None
            return await look(project, turn_id)

        monkeypatch.setattr(kernel.deliverables, "get", slow)
        waiting = asyncio.ensure_future(kernel.deliverables.wait(DEFAULT_PROJECT, accepted.turn_id, 600.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        kernel.deliverables.ended(accepted.turn_id)
        assert await asyncio.wait_for(waiting, 5.0) is not None


async def test_whoever_asks_is_told_of_the_end_and_of_the_message() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        asking = asyncio.ensure_future(kernel.ask(desk.message("a"), 60.0))
        while (view := await desk.store.head(*key_of("a"))) is None or view.head.turn_id is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await kernel.stop(DEFAULT_PROJECT, view.head.turn_id, reason="enough", actor="ann")
        accepted, end = await asyncio.wait_for(asking, 5.0)
        assert end is not None
        assert accepted.turn_id == end.turn_id == view.head.turn_id
        assert end == desk.deliverable(accepted.turn_id)
        assert kernel.deliverables._waiters == {}


async def test_whoever_asks_nobody_is_told_so_and_leaves_nothing_behind() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        with pytest.raises(AgentUnknown):
            await kernel.ask(desk.message("nobody"), 60.0)
        assert kernel.deliverables._waiters == {}


async def test_whoever_asks_in_vain_has_the_message_accepted_all_the_same() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        accepted, end = await kernel.ask(desk.message("a"), 0.0)  # over before the flush
        assert end is None
        assert (await desk.store.turn(DEFAULT_PROJECT, accepted.turn_id)) is not None
        assert kernel.deliverables._waiters == {}


async def test_whoever_asks_nobody_in_no_time_is_told_so_and_leaves_nothing_behind() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        with pytest.raises(AgentUnknown):
            await kernel.ask(desk.message("nobody"), 0.0)  # over before the flush
        assert kernel.deliverables._waiters == {}


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "failed"])
async def test_whoever_asks_is_told_what_went_wrong_in_the_moment_their_time_was_over(
    monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        ending = kernel.deliverables.watch(TurnId("turn_x"))
        asked = kernel.flusher.ask(desk.message("nobody" if refused else "a"), ending)
        ending.set_result(None)
        if not refused:
            monkeypatch.setattr(desk.store, "load", away)
        await kernel.flusher.tick()
        with pytest.raises(AgentUnknown if refused else StoreUnavailable):
            await asyncio.wait_for(asked.settlement(), 5.0)


async def away(*_: object) -> NoReturn:
    raise StoreUnavailable(problem="it is down")


async def test_an_end_that_nobody_announced_is_found_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAFETY_POLL_SECONDS", 0.01)
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        monkeypatch.setattr(kernel.deliverables, "committed", lambda _: None)
        asking = asyncio.ensure_future(kernel.ask(desk.message("a"), 60.0))
        while (view := await desk.store.head(*key_of("a"))) is None or view.head.turn_id is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await kernel.stop(DEFAULT_PROJECT, view.head.turn_id, reason="enough", actor="ann")
        accepted, end = await asyncio.wait_for(asking, 5.0)
        assert end is not None
        assert end.turn_id == accepted.turn_id


async def test_many_who_look_at_once_ask_the_store_once_in_each_project(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        ended = [(await kernel.enqueue(desk.message("a"))).turn_id for _ in range(3)]
        for turn_id in ended[:2]:
            await kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="ann")
    asked: list[tuple[ProjectId, set[TurnId]]] = []
    read = desk.store.deliverables

    async def counted(project: ProjectId, turns: Collection[TurnId]) -> dict[TurnId, Deliverable]:
        asked.append((project, set(turns)))
        return await read(project, turns)

    monkeypatch.setattr(desk.store, "deliverables", counted)
    fresh, elsewhere = Deliverables(store=desk.store), ProjectId("elsewhere")
    gone = asyncio.ensure_future(fresh.get(DEFAULT_PROJECT, ended[0]))
    looks = [asyncio.ensure_future(fresh.get(DEFAULT_PROJECT, turn_id)) for turn_id in ended]
    other = asyncio.ensure_future(fresh.get(elsewhere, ended[0]))
    await asyncio.sleep(0)
    gone.cancel()
    found = await asyncio.gather(*looks)
    assert [end.turn_id if end else None for end in found] == [*ended[:2], None]
    assert await other is None
    assert asked == [(DEFAULT_PROJECT, set(ended)), (elsewhere, {ended[0]})]

    monkeypatch.setattr(module, "DELIVERABLES_READ_MAX", 2)
    asked.clear()
    await asyncio.gather(*(fresh.get(DEFAULT_PROJECT, turn_id) for turn_id in ended))
    assert [len(turns) for _, turns in asked] == [2, 1]


async def test_everybody_who_looks_hears_that_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a")

    async def away(*_: object) -> dict[TurnId, Deliverable]:
        raise StoreUnavailable(problem="away")

    monkeypatch.setattr(desk.store, "deliverables", away)
    fresh = Deliverables(store=desk.store)
    looks = [fresh.get(DEFAULT_PROJECT, turn_of(Scope(f"{number:024x}"))) for number in range(3)]
    heard = await asyncio.gather(*looks, return_exceptions=True)
    assert [type(problem) for problem in heard] == [StoreUnavailable] * 3


async def test_rounds_wake_those_who_waited_long_and_nobody_who_left() -> None:
    rounds = Rounds(0.01)
    loop = asyncio.get_running_loop()
    early, gone, late, soon = (loop.create_future() for _ in range(4))
    leaving = asyncio.ensure_future(rounds.arrival(gone, 60))
    waiting = asyncio.ensure_future(rounds.arrival(early, 60))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await waiting is None
    assert gone.cancelled()
    assert await rounds.arrival(late, 60) is None
    assert await rounds.arrival(soon, 0.001) is None
