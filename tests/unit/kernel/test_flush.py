"""Group flush: what shares a commit, what is tried again, and who is told what."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
from msgspec.structs import replace

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.codec import NULL, Json
from homeostat.core.errors import AgentBusy, AgentUnknown, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, BoxId, RunId, Scope, digest_of
from homeostat.core.limits import FLUSH_CONFLICTS_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import Card
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.core.records.writes import Saved, Writes
from homeostat.core.run_errors import RunHeld
from homeostat.core.urgency import is_urgent, urgent_context
from homeostat.kernel.commands import Deliver, Dispatch, Enqueue, Enqueued, Preempt, PutCards, SetGate
from homeostat.kernel.kernel import Kernel
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns, PlaceTaken


class Watched(MemoryTurns):
    """A store that counts saves and can be made to misbehave."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[Writes] = []
        self.before: Callable[[Writes], None] | None = None
        self.after: Callable[[Writes], None] | None = None

    async def save(self, writes: Writes) -> Saved:
        self.saves.append(writes)
        if self.before is not None:
            self.before(writes)
        saved = await super().save(writes)
        if self.after is not None:
            self.after(writes)
        return saved


class Slow(MemoryTurns):
    """A store with one writer, that can be kept waiting."""

    lanes = 1

    def __init__(self) -> None:
        super().__init__()
        self.saving = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()

    async def save(self, writes: Writes) -> Saved:
        self.saving.set()
        await self.free.wait()
        return await super().save(writes)


def turn(agent: str, payload: str = "{}", **changes: Any) -> Enqueue:
    said: dict[str, Any] = {"type": MessageType.TURN, **changes}
    return Enqueue(key=key_of(agent), payload=Json(payload), **said)


def card(position: int) -> PutCards:
    laid = Card(DEFAULT_PROJECT, Scope("1"), position, "note", NULL, digest_of(NULL), None, Desk().clock.now_ms())
    return PutCards(project=DEFAULT_PROJECT, box_id=BoxId("box_1"), cards=(laid,))


async def test_commands_that_wait_together_share_one_commit_and_keep_their_order() -> None:
    store = Watched()
    desk = Desk("a", "b", store=store)
    async with running_kernel(store) as kernel:
        store.saves.clear()
        answers = await asyncio.gather(*(kernel.enqueue(turn(agent)) for agent in ("a", "b", "a", "a")))
    assert len(store.saves) == 1
    assert [store.turns[answer.turn_id].seq for answer in answers] == [1, 1, 2, 3]
    assert desk.head("a").queued == 2


async def test_who_gives_up_an_order_takes_nobody_along() -> None:
    store = Slow()
    desk = Desk("a", "b", store=store)
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("b")], lambda _: None)
        claiming = asyncio.ensure_future(kernel.claim(worker, 1, 30))
        await asyncio.sleep(0)
        store.free.clear()
        store.saving.clear()
        sending = asyncio.ensure_future(kernel.enqueue(turn("b")))
        order = kernel.set_gate(key_of("a"), Gate.CLOSED, "it mails customers")
        ordering = asyncio.get_running_loop().create_task(order, context=urgent_context())
        await store.saving.wait()
        ordering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ordering
        store.free.set()
        accepted = await sending
        (grant,) = await claiming
    assert grant.turn.turn_id == accepted.turn_id
    assert desk.head("a").gate is Gate.CLOSED


async def test_who_waits_behind_an_order_goes_when_that_is_done() -> None:
    store = Slow()
    desk = Desk("a", store=store)
    async with running_kernel(store) as kernel:
        store.free.clear()
        order = kernel.set_gate(key_of("a"), Gate.DRAINING, "it mails customers")
        ordering = asyncio.get_running_loop().create_task(order, context=urgent_context())
        await store.saving.wait()
        sending = asyncio.ensure_future(kernel.enqueue(turn("a")))
        for _ in range(5):  # the lane takes it up, finds the agent moving, and has nothing else to do
            await asyncio.sleep(0)
        store.free.set()
        await ordering
        await asyncio.wait_for(sending, 5)
        await asyncio.wait_for(kernel.enqueue(turn("a")), 5)
    assert desk.head("a").queued == 2


async def test_every_flush_hurries_while_somebody_waits_on_an_operators_behalf() -> None:
    store = Watched()
    Desk("a", "b", store=store)
    hurried: list[bool] = []
    store.before = lambda _: hurried.append(is_urgent())
    async with running_kernel(store) as kernel:
        hurried.clear()
        await kernel.enqueue(turn("a"))
        work = kernel.enqueue(turn("b"))
        await asyncio.get_running_loop().create_task(work, context=urgent_context())
        await kernel.enqueue(turn("a"))
    assert hurried[:3] == [False, True, False]


async def test_a_lost_race_is_decided_again_on_what_is_true_now() -> None:
    store = Watched()
    desk = Desk("a", store=store)
    async with running_kernel(store) as kernel:
        first = await kernel.enqueue(turn("a"))
        desk.claim("a")  # another kernel moves the head; this one remembers it as it was
        desk.enqueue("a")
        second = await kernel.enqueue(turn("a"))
        assert kernel.flusher.conflicts == 1
    assert [store.turns[t].seq for t in (first.turn_id, second.turn_id)] == [1, 3]
    assert desk.head("a").status is HeadStatus.RUNNING


async def test_races_lost_without_end_are_answered_with_try_again() -> None:
    store = Watched()
    desk = Desk("a", store=store)

    def meddle(_: Writes) -> None:
        head = desk.head("a")
        store.heads_by_key[head.key] = replace(head, version=head.version + 1)

    async with running_kernel(store) as kernel:
        store.saves.clear()
        store.before = meddle
        with pytest.raises(StoreUnavailable, match="lost races"):
            await kernel.enqueue(turn("a"))
    assert len(store.saves) == FLUSH_CONFLICTS_MAX
    assert store.turns == {}


async def test_a_refusal_is_never_given_from_memory() -> None:
    store = Watched()
    desk = Desk("a", store=store)
    async with running_kernel(store) as kernel:
        accepted = await kernel.enqueue(turn("a", type=MessageType.UI_ACTION))
        with pytest.raises(AgentBusy):
            await kernel.enqueue(turn("a", type=MessageType.UI_ACTION))
        desk.stop(accepted.turn_id)  # in another kernel
        assert isinstance(await kernel.enqueue(turn("a", type=MessageType.UI_ACTION)), Enqueued)


async def test_an_agent_registered_elsewhere_is_found() -> None:
    store = Watched()
    async with running_kernel(store) as kernel:
        with pytest.raises(AgentUnknown):
            await kernel.enqueue(turn("a"))
        Desk("a", store=store)
        assert isinstance(await kernel.enqueue(turn("a")), Enqueued)


async def test_one_poisonous_command_fails_alone() -> None:
    store = Watched()
    Desk("a", "b", store=store)
    async with running_kernel(store) as kernel:
        await kernel.flusher.submit(card(1))
        futures = [kernel.flusher.submit(command) for command in (turn("a"), card(1), turn("b"), card(2))]
        answers = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(answers[1], PlaceTaken)
    assert isinstance(answers[0], Enqueued)
    assert isinstance(answers[2], Enqueued)
    assert answers[3] == "box_1"
    assert len(store.turns) == 2


async def test_a_store_that_refuses_changes_nothing_and_the_next_flush_reads_anew() -> None:
    store = Watched()
    desk = Desk("a", store=store)

    def refuse(_: Writes) -> None:
        raise StoreUnavailable(problem="down")

    async with running_kernel(store) as kernel:
        store.before = refuse
        with pytest.raises(StoreUnavailable):
            await kernel.enqueue(turn("a"))
        store.before = None
        accepted = await kernel.enqueue(turn("a"))
    assert list(store.turns) == [accepted.turn_id]
    assert desk.head("a").tail_seq == 1


async def test_a_store_that_falls_silent_after_the_commit_is_believed_when_it_is_read_again() -> None:
    store = Watched()
    desk = Desk("a", store=store)

    def fall_silent(_: Writes) -> None:
        raise StoreUnavailable(problem="no answer")

    async with running_kernel(store) as kernel:
        store.after = fall_silent
        with pytest.raises(StoreUnavailable):
            await kernel.enqueue(turn("a"))
        store.after = None
        accepted = await kernel.enqueue(turn("a"))
    assert desk.head("a").tail_seq == 2
    assert store.turns[accepted.turn_id].seq == 2


async def test_nothing_that_was_committed_runs_again_because_somebody_failed_to_hear_of_it() -> None:
    store = Watched()
    desk = Desk("a", "b", store=store)

    def deaf(_: Fence) -> None:
        raise RuntimeError("a worker's callback failed")

    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a")], deaf)
        accepted = await kernel.enqueue(turn("a"))
        (grant,) = await kernel.claim(worker, 1, 1.0)
        assert grant.turn.turn_id == accepted.turn_id
        stop = kernel.stop(DEFAULT_PROJECT, accepted.turn_id, reason="enough", actor="ann")
        stopped, other = await asyncio.gather(stop, kernel.enqueue(turn("b")), return_exceptions=True)
        assert not isinstance(stopped, BaseException)
        assert stopped.stopped
        assert isinstance(other, Enqueued)
    assert desk.head("b").tail_seq == 1


async def test_whoever_still_waits_when_the_kernel_shuts_down_is_told() -> None:
    store = Watched()
    Desk("a", store=store)
    held = asyncio.Event()
    save = store.save

    async def slow(writes: Writes) -> Saved:
        await held.wait()
        return await save(writes)

    store.save = slow
    async with running_kernel(store) as kernel:
        under_way = kernel.flusher.submit(turn("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        in_line = kernel.flusher.submit(turn("a"))
    for future in (under_way, in_line):
        with pytest.raises(StoreUnavailable, match="shutting down"):
            await asyncio.wait_for(future, 5.0)
    assert store.turns == {}


async def test_what_an_operator_waits_for_is_flushed_by_the_operator_where_there_is_one_writer() -> None:
    store = MemoryTurns()
    Desk("a", store=store)
    kernel = Kernel(store=store, bus=LocalBus())  # nobody else flushes: none of its loops runs

    def close(context: Context | None) -> asyncio.Task[Gate]:
        return asyncio.get_running_loop().create_task(kernel.set_gate(key_of("a"), Gate.CLOSED, "x"), context=context)

    store.lanes = 1
    by_an_agent = close(None)
    await asyncio.sleep(0)
    assert not by_an_agent.done()
    ordered = close(urgent_context())
    await asyncio.sleep(0)
    assert ordered.done(), "no later than in the round in which it was asked for"
    assert await ordered is Gate.CLOSED
    await asyncio.wait_for(by_an_agent, 5)  # it went along
    store.lanes = 2
    another = close(urgent_context())
    await asyncio.sleep(0)
    assert not another.done(), "others commit meanwhile, whom its end must not break off"
    another.cancel()


HELD = [RunId(f"run_{number:024x}") for number in range(FLUSH_CONFLICTS_MAX + 4)]


async def test_turns_of_runs_that_others_hold_are_passed_over_however_many_those_are() -> None:
    store = Watched()
    desk = Desk("a", "b", store=store)
    for run_id in HELD:
        desk.enqueue("a", run_id=run_id)
    free = desk.enqueue("a")
    desk.do(SetGate(key=key_of("a"), gate=Gate.CLOSED))
    desk.do(Preempt(key=key_of("a")))
    store.held_runs.update(HELD)
    async with running_kernel(store, seed=2) as kernel:
        store.saves.clear()
        opened, other = kernel.set_gate(key_of("a"), Gate.OPEN), kernel.enqueue(turn("b"))
        _, other = await asyncio.gather(opened, other)
        assert desk.head("a").turn_id == free
        assert desk.head("b").turn_id == other.turn_id, "what shares their commit goes through"
        assert len(store.saves) == 2, "they are all heard of at once"
        store.held_runs.clear()
        assert await kernel.preempt(key_of("a")) == free
    assert store.turns[desk.head("a").turn_id or free].run_id == HELD[0], "nobody remembers that they were held"


async def test_who_delivers_before_a_held_turn_is_given_none_and_looks_no_further() -> None:
    store = Watched()
    desk = Desk("a", store=store)
    async with running_kernel(store, seed=2) as kernel:
        grant = desk.begin("a", run_id=HELD[0])
        held = desk.enqueue("a", run_id=HELD[0])
        store.held_runs.add(HELD[0])
        delivered = await kernel.deliver(
            Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL, claim_next=True)
        )
        assert delivered.next is None
        assert desk.deliverable(grant.turn.turn_id) is not None
        store.saves.clear()
        assert not await kernel.flusher.submit(Dispatch(key=key_of("a")))
        assert len(store.saves) == 1, "it was tried, and then left in line"
        with pytest.raises(RunHeld):
            await kernel.enqueue(turn("a", run_id=HELD[0]))
        assert (desk.head("a").status, desk.head("a").queued) == (HeadStatus.IDLE, 1)
        store.held_runs.clear()
        assert await kernel.flusher.submit(Dispatch(key=key_of("a")))
    assert desk.head("a").turn_id == held
