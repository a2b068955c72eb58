"""A repeated key gets its first answer, also when what the command names is gone by then."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.supervisor import Supervisor
from homeostat.core.codec import NULL, Json
from homeostat.core.errors import BoxUnknown, IdempotencyKeyReused
from homeostat.core.ids import AgentId, BoxId, ProjectId, ToolCallId, box_of, scope_floor
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Grant, MessageType, ToolCall
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Deliver, Enqueue, Idempotency, Suspend
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock

ANN, BOB = [(ProjectId("p"), AgentId(name)) for name in ("ann", "bob")]
SAID, OTHERWISE = Idempotency("k", "the same words"), Idempotency("k", "other words")


class Place:
    """A kernel that flushes, a clock by hand, and a worker."""

    def __init__(self, kernel: Kernel, clock: ManualClock) -> None:
        self.kernel = kernel
        self.clock = clock

    async def begin(self, key: AgentKey) -> Grant:
        await self.kernel.register(key)
        worker_id = await self.kernel.open_worker([key], lambda _: None)
        await self.kernel.enqueue(message(key))
        (grant,) = await self.kernel.claim(worker_id, 1, 5.0)
        return grant

    async def own_box(self) -> BoxId:
        """The box of a turn that has ended."""
        grant = await self.begin(ANN)
        await self.kernel.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL))
        self.clock.advance(60)
        return box_of(grant.turn.turn_id)

    async def forget(self) -> None:
        """Retention comes to what has just been answered."""
        assert await self.kernel.store.expire(scope_floor(self.clock.now_ms()), 9) == 1


def message(key: AgentKey, box_id: BoxId | None = None, said: Idempotency | None = None) -> Enqueue:
    return Enqueue(key=key, type=MessageType.TURN, payload=Json("1"), context_box_id=box_id, idempotency=said)


@pytest.fixture
async def place(any_store: TurnStore) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        clock = ManualClock()
        kernel = Kernel(store=any_store, bus=LocalBus(), clock=clock)
        supervisor = Supervisor()
        stack.push_async_callback(supervisor.stop)
        supervisor.add("flusher", kernel.flusher.run)
        yield Place(kernel, clock)


async def test_a_message_whose_context_is_gone_was_accepted_all_the_same(place: Place) -> None:
    said = message(ANN, await place.own_box(), SAID)
    accepted = await place.kernel.enqueue(said)
    await place.forget()
    assert await place.kernel.enqueue(said) == accepted
    with pytest.raises(IdempotencyKeyReused):
        await place.kernel.enqueue(replace(said, idempotency=OTHERWISE))
    for unheard in (None, Idempotency("new", "the same words")):
        with pytest.raises(BoxUnknown):
            await place.kernel.enqueue(replace(said, idempotency=unheard))


async def test_a_turn_that_asked_another_about_a_box_that_is_gone_waits_for_it_all_the_same(place: Place) -> None:
    box_id = await place.own_box()
    asking = await place.begin(BOB)
    call = ToolCall(ToolCallId("c"), "agent:ann", Json("1"), None)
    child = replace(message(ANN, box_id), type=MessageType.JOIN_REQUEST, reply_call_id=call.call_id)
    command = Suspend(fence=fence_of(asking), calls=(call,), children=(child,), idempotency=SAID)
    suspended = await place.kernel.suspend(command)
    await place.forget()
    assert await place.kernel.suspend(command) == suspended
    with pytest.raises(BoxUnknown):
        await place.kernel.suspend(replace(command, idempotency=None))
