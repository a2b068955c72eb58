"""A box that has ended is named by nobody, also by whoever looked it up a moment before."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import pytest

from homeostat.core.codec import NULL, Json
from homeostat.core.errors import BoxInUse, BoxOfTurn, BoxReferred, BoxUnknown, StoreUnavailable
from homeostat.core.ids import AgentId, BoxId, ProjectId, ToolCallId, box_of
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import CardDraft
from homeostat.core.records.turn import Grant, MessageType, ToolCall
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Deliver, Enqueue, Suspend
from homeostat.kernel.kernel import Kernel
from homeostat.kernel.watchdog import RETENTION_EVERY_SECONDS
from homeostat.testing.clock import ManualClock
from homeostat.testing.kernels import running_kernel

PROJECT = ProjectId("p")
ANN, BOB = (PROJECT, AgentId("ann")), (PROJECT, AgentId("bob"))
NOTES = (CardDraft("note", Json("1")), CardDraft("note", Json("2")))


@pytest.fixture
async def kernel(any_store: TurnStore) -> AsyncGenerator[Kernel]:
    async with running_kernel(any_store) as kernel:
        for key in (ANN, BOB):
            await kernel.register(key)
        yield kernel


def message(**said: Any) -> Enqueue:
    words: dict[str, Any] = {"key": ANN, "type": MessageType.TURN, "payload": NULL, **said}
    return Enqueue(**words)


async def begin(kernel: Kernel, **said: Any) -> Grant:
    worker_id = await kernel.open_worker([ANN], lambda _: None)
    await kernel.enqueue(message(**said))
    (grant,) = await kernel.claim(worker_id, 1, 5.0)
    return grant


async def deliver(kernel: Kernel, grant: Grant) -> None:
    await kernel.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL))


async def test_a_box_that_has_ended_is_named_by_nobody(kernel: Kernel) -> None:
    box_id, other = [await kernel.create_box(PROJECT, NOTES, None) for _ in range(2)]
    grant = await begin(kernel)
    await kernel.end_box(PROJECT, box_id)
    child = message(key=BOB, type=MessageType.JOIN_REQUEST, reply_call_id=ToolCallId("c"), context_box_id=box_id)
    call = ToolCall(ToolCallId("c"), "agent:bob", Json("1"), None)
    for naming in (
        kernel.enqueue(message(context_box_id=box_id)),
        kernel.enqueue(message(output_box_id=box_id)),
        kernel.swap_boxes(fence_of(grant), box_id, None),
        kernel.swap_boxes(fence_of(grant), None, box_id),
        kernel.suspend(Suspend(fence=fence_of(grant), calls=(call,), children=(child,))),
        kernel.fork_box(PROJECT, box_id),
        kernel.end_box(PROJECT, box_id),
        kernel.end_box(ProjectId("another"), other),
    ):
        with pytest.raises(BoxUnknown):
            await naming
    await deliver(kernel, grant)
    assert await kernel.store.box(PROJECT, other, after=-1, limit=9)


async def test_a_box_that_is_needed_does_not_end(kernel: Kernel) -> None:
    context, memory = [await kernel.create_box(PROJECT, NOTES, None) for _ in range(2)]
    grant = await begin(kernel, context_box_id=context, output_box_id=memory)
    own = box_of(grant.turn.turn_id)
    for box_id in (context, memory, own):
        with pytest.raises(BoxInUse, match=grant.turn.turn_id):
            await kernel.end_box(PROJECT, box_id)
    await deliver(kernel, grant)
    with pytest.raises(BoxOfTurn, match=grant.turn.turn_id):
        await kernel.end_box(PROJECT, own)
    fork = await kernel.fork_box(PROJECT, context)
    with pytest.raises(BoxReferred, match=fork):
        await kernel.end_box(PROJECT, context)
    for box_id in (fork, context, memory):
        await kernel.end_box(PROJECT, box_id)
        assert await kernel.store.box(PROJECT, box_id, after=-1, limit=9) is None
        assert await kernel.store.box_owner(PROJECT, box_id) is None
    view = await kernel.store.turn(PROJECT, grant.turn.turn_id)
    assert view is not None
    assert (await kernel.store.hydrate(view.turn, fresh=True)).context_gone


async def test_a_memory_begins_anew_once_the_old_one_has_ended(kernel: Kernel) -> None:
    old = await kernel.create_box(PROJECT, (), None)
    await deliver(kernel, await begin(kernel, output_box_id=old))
    await kernel.end_box(PROJECT, old)
    new = await kernel.create_box(PROJECT, (), None)
    await deliver(kernel, await begin(kernel, output_box_id=new))
    cards = await kernel.store.box(PROJECT, new, after=-1, limit=9)
    assert [card.type for card in cards or ()] == ["box.empty", "task.deliverable"]


def ending(kernel: Kernel, name: str, box_id: BoxId) -> Callable[..., Awaitable[Any]]:
    """A look at a box that is ended right after."""
    look = getattr(kernel.store, name)

    async def and_end(project: ProjectId, named: BoxId, **page: Any) -> Any:
        seen = await look(project, named, **page)
        if named == box_id and not page.get("after", -1) > 0:
            await kernel.store.end_box(project, named)
            await kernel.store.clear(99)
        return seen

    return and_end


@pytest.mark.parametrize(
    ("look", "act"),
    [
        ("box_until", lambda kernel, box_id: kernel.enqueue(message(context_box_id=box_id))),
        ("box_owner", lambda kernel, box_id: kernel.enqueue(message(output_box_id=box_id))),
        ("box", lambda kernel, box_id: kernel.fork_box(PROJECT, box_id)),
    ],
    ids=["context", "output", "fork"],
)
async def test_a_box_that_ends_while_somebody_names_it_is_refused(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, look: str, act: Callable[[Kernel, BoxId], Awaitable[object]]
) -> None:
    box_id = await kernel.create_box(PROJECT, NOTES, None)
    await deliver(kernel, await begin(kernel, output_box_id=box_id))  # whoever writes to it next makes no row for that
    with monkeypatch.context() as patch:
        patch.setattr(kernel.store, look, ending(kernel, look, box_id))
        with pytest.raises(BoxUnknown):
            await act(kernel, box_id)
    head = await kernel.store.head(*ANN)
    assert head is not None
    assert (head.head.turn_id, head.head.queued) == (None, 0)
    await deliver(kernel, await begin(kernel))


async def test_a_box_has_ended_though_the_store_goes_away_before_its_cards_do(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    box_id = await kernel.create_box(PROJECT, NOTES, None)

    async def away(_: int) -> int:
        raise StoreUnavailable(problem="it is away")

    with monkeypatch.context() as patch:
        patch.setattr(kernel.store, "clear", away)
        await kernel.end_box(PROJECT, box_id)
    with pytest.raises(BoxUnknown):
        await kernel.enqueue(message(context_box_id=box_id))
    cast(ManualClock, kernel.clock).advance(RETENTION_EVERY_SECONDS + 1)
    assert await kernel.watchdog.tick() == 2, "retention takes what is left"
    assert await kernel.store.clear(9) == 0


async def test_a_large_box_is_taken_away_in_pieces(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.kernel.boxes.SWEEP_ROWS_MAX", 2)
    box_id = await kernel.create_box(PROJECT, NOTES * 3, None)
    pieces: list[int] = []
    clear = kernel.store.clear

    async def piece(limit: int) -> int:
        pieces.append(await clear(limit))
        return pieces[-1]

    monkeypatch.setattr(kernel.store, "clear", piece)
    await kernel.end_box(PROJECT, box_id)
    assert pieces == [2, 2, 2, 0]
