"""Turns for workers in the kernel's own process."""

import asyncio
from collections.abc import Awaitable, Collection
from contextlib import suppress
from functools import partial
from typing import TypeVar

from homeostat.core.codec import Json
from homeostat.core.errors import StaleEpoch, StoreUnavailable, Unavailable
from homeostat.core.holdings import Holdings
from homeostat.core.ids import BoxId, CardId, TurnId, WorkerId
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.ports.turns import OnRevoke
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.turn import AgentKey, Grant, MessageType, ToolCall
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.records.work import Ask, Delivered, Fence, Suspended, fence_of
from homeostat.kernel.commands import Deliver, Enqueue, Idempotency, Suspend
from homeostat.kernel.kernel import Kernel

T = TypeVar("T")


class LocalSession:
    """One worker's berth in the kernel's dock.

    Who `stands_in` for a worker elsewhere is told of every turn that the worker loses, as it may have been granted by
    another server.
    """

    def __init__(self, kernel: Kernel, on_revoke: OnRevoke, *, stands_in: bool = False) -> None:
        self._kernel = kernel
        self._on_revoke = on_revoke
        self._stands_in = stands_in
        self._holdings = Holdings(clock=kernel.clock, lease_seconds=kernel.lease_seconds, on_revoke=on_revoke)
        self._revoked = asyncio.Event()
        self._spare: list[Grant] = []
        self._let_go: dict[Fence, None] = {}
        self._writing: dict[TurnId, int] = {}
        self._delivering: dict[Fence, asyncio.Future[Delivered]] = {}
        self._worker_id = WorkerId("")

    async def begin(self, hosted: Collection[AgentKey], worker_id: WorkerId | None) -> None:
        self._worker_id = await self._kernel.open_worker(hosted, self._revoke, worker_id=worker_id)

    @property
    def worker_id(self) -> WorkerId:
        return self._worker_id

    @property
    def lease_seconds(self) -> float:
        return self._kernel.lease_seconds

    def _revoke(self, fence: Fence) -> None:
        self._delivering.pop(fence, None)
        if self._holdings.holds(fence):
            self._revoked.set()
            self._holdings.revoke(fence)
        elif self._stands_in:
            self._on_revoke(fence)

    async def host(self, agents: Collection[AgentKey]) -> None:
        await self._kernel.host(self._worker_id, agents)

    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        grants, self._spare = self._spare[:limit], self._spare[limit:]
        if not grants:
            grants = await self._kernel.claim(self._worker_id, limit, seconds)
        for grant in grants:
            self._holdings.take(grant)
        return grants

    def adopt(self, fence: Fence) -> None:
        """Hold a turn the worker brought along from before."""
        self._holdings.adopt(fence)

    async def renew(self, seconds: float = 0.0) -> None:
        await self.beat([*(f.turn_id for f in self._holdings.fences), *(g.turn.turn_id for g in self._spare)])
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._revoked.wait()
        self._revoked.clear()

    async def beat(self, held: Collection[TurnId], named: Collection[Fence] = ()) -> Collection[Fence]:
        """Beat for a worker that says what it holds, and under which epochs if it can; returns what is its own.

        A turn that it names and that was granted elsewhere is held here from now on, or revoked if it is not its own.
        One that was let go when no beat got through, and that nobody took, is held again if the worker works on it
        still, and goes back if not.
        """
        # Before the store is asked: what is granted meanwhile cannot seem lost.
        granted = dict.fromkeys(self._holdings.fences)
        sent_at = self._kernel.clock.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                stored = await self._kernel.renew(self._worker_id, held)
        except TimeoutError as problem:
            self._let_go.update(dict.fromkeys(self._holdings.let_go()))
            raise StoreUnavailable(problem="no beat got through for a whole lease") from problem
        except Unavailable:
            self._let_go.update(dict.fromkeys(self._holdings.missed()))
            raise
        self._holdings.beaten(sent_at)
        await self._take_up(stored, held, [fence for fence in named if fence not in granted])
        for fence in dict.fromkeys((*granted, *named)):
            ended = fence in granted and not self._holdings.holds(fence)
            if fence not in stored and not ended and not self._hears_of(fence):
                self._kernel.workers.revoke(fence)
        return stored

    @property
    def _patience(self) -> float | None:
        """How long a beat may take: until the lease is over, and never so short that an answer cannot come in time, as
        the last beats may have gone by another server.
        """
        if (left := self._holdings.seconds_left) is None:
            return None
        return max(left, self.lease_seconds / LEASE_BEATS)

    async def _take_up(self, stored: Collection[Fence], held: Collection[TurnId], named: Collection[Fence]) -> None:
        """Hold what the worker works on, and hand back what it does not since no beat got through for a lease."""
        for fence in named:
            if fence in stored:
                self._holdings.adopt(fence)
        for fence in tuple(self._let_go):
            if fence in stored and not named and fence.turn_id in held:
                self._holdings.adopt(fence)
            elif fence in stored and fence not in named and not self._hears_of(fence):
                with suppress(StaleEpoch):
                    await self._kernel.release(fence)
            self._let_go.pop(fence, None)

    def _hears_of(self, fence: Fence) -> bool:
        """Whether a turn that is gone may have ended by what its worker wrote itself: then the answer to that tells.

        A delivery that got no answer is repeated, and then it is known to have happened.
        """
        delivering = self._delivering.get(fence)
        if delivering is None or (delivering.done() and not isinstance(delivering.exception(), Unavailable | None)):
            return fence.turn_id in self._writing
        return True

    async def hydrate(self, grant: Grant) -> Hydration:
        return await self._kernel.hydrate(grant)

    async def card(self, grant: Grant, card_id: CardId) -> Card | None:
        return await self._kernel.store.card(grant.turn.project, card_id)

    async def step(self, grant: Grant, name: str, outcome: Json) -> None:
        await self._for(grant, self._kernel.step(fence_of(grant), name, outcome))

    async def write(
        self, grant: Grant, cards: tuple[CardDraft, ...], *, idempotency: Idempotency | None = None
    ) -> tuple[CardId, ...]:
        return await self._for(grant, self._kernel.write(fence_of(grant), cards, idempotency=idempotency))

    async def swap_boxes(
        self, grant: Grant, *, context_box_id: BoxId | None = None, output_box_id: BoxId | None = None
    ) -> None:
        await self._for(grant, self._kernel.swap_boxes(fence_of(grant), context_box_id, output_box_id))

    async def suspend(
        self,
        grant: Grant,
        calls: tuple[ToolCall, ...] = (),
        *,
        asks: tuple[Ask, ...] = (),
        cards: tuple[CardDraft, ...] = (),
        idempotency: Idempotency | None = None,
    ) -> Suspended:
        command = Suspend(
            fence=fence_of(grant),
            calls=(*calls, *map(_call_of, asks)),
            children=tuple(_child_of(grant, ask) for ask in asks),
            cards=cards,
            idempotency=idempotency,
        )
        suspended = await self._for(grant, self._kernel.suspend(command))
        if not suspended.ready:
            self._drop(grant)
        return suspended

    async def deliver(
        self,
        grant: Grant,
        *,
        status: Outcome,
        result: Json,
        error: Json | None = None,
        cards: tuple[CardDraft, ...] = (),
        recording: Json | None = None,
        claim_next: bool = False,
    ) -> Delivered:
        command = Deliver(
            fence=fence_of(grant),
            status=status,
            result=result,
            error=error,
            cards=cards,
            recording=recording,
            claim_next=claim_next,
        )
        delivering: asyncio.Future[Delivered] = self._kernel.flusher.submit(command)
        self._delivering[command.fence] = delivering
        try:
            delivered = await self._for(grant, asyncio.shield(delivering))
        except StaleEpoch:
            if (before := await self._delivered_before(command)) is None:
                raise
            return before
        except asyncio.CancelledError:
            # The commit may be under way: a turn that comes along with it waits for the next claim.
            delivering.add_done_callback(partial(self._delivered_unheard, grant))
            raise
        self._drop(grant)
        if delivered.next is not None:
            self._holdings.take(delivered.next)
        return delivered

    async def _delivered_before(self, command: Deliver) -> Delivered | None:
        """A delivery that is repeated because its answer got lost has happened: the same end, under the same epoch."""
        fence = command.fence
        found = await self._kernel.deliverables.get(fence.key[0], fence.turn_id)
        if found is None:
            return None
        stored = (found.epoch, found.status, found.result, found.error)
        same = stored == (fence.epoch, command.status, command.result, command.error)
        return Delivered(found.card_id, None) if same else None

    def _delivered_unheard(self, grant: Grant, delivering: asyncio.Future[Delivered]) -> None:
        if not delivering.cancelled() and delivering.exception() is None:
            self._drop(grant)
            if (following := delivering.result().next) is not None:
                self._spare.append(following)

    async def release(self, grant: Grant, *, idempotency: Idempotency | None = None) -> None:
        try:
            await self._for(grant, self._kernel.release(fence_of(grant), idempotency=idempotency))
        finally:
            self._drop(grant)  # also unheard: nobody works on it, and beats must not keep it

    async def emit(self, grant: Grant, chunk: Json) -> None:
        await self._kernel.emit(grant.turn.key, grant.turn.turn_id, chunk)

    async def close(self, *, lost: bool = False) -> None:
        """As the port has it; whoever stands in for a worker elsewhere says whether it left or was lost."""
        for grant in self._spare:
            with suppress(StaleEpoch):
                await self._kernel.release(fence_of(grant))
        await self._kernel.close_worker(self._worker_id, lost=lost)

    async def _for(self, grant: Grant, writing: Awaitable[T]) -> T:
        """Write for a turn; one that is no longer held is forgotten."""
        turn_id = grant.turn.turn_id
        self._writing[turn_id] = self._writing.get(turn_id, 0) + 1
        try:
            return await writing
        except StaleEpoch:
            self._drop(grant)
            raise
        finally:
            self._writing[turn_id] -= 1
            if not self._writing[turn_id]:
                del self._writing[turn_id]

    def _drop(self, grant: Grant) -> None:
        self._delivering.pop(fence_of(grant), None)
        self._holdings.drop(grant)


class LocalTurns:
    """The kernel as a source of turns."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def register(self, agents: Collection[AgentKey]) -> None:
        await asyncio.gather(*(self._kernel.register(key) for key in agents))

    async def open(
        self,
        hosted: Collection[AgentKey],
        on_revoke: OnRevoke,
        *,
        worker_id: WorkerId | None = None,
        stands_in: bool = False,
    ) -> LocalSession:
        session = LocalSession(self._kernel, on_revoke, stands_in=stands_in)
        await session.begin(hosted, worker_id)
        return session


def _call_of(ask: Ask) -> ToolCall:
    """A turn that asks an agent waits for it as it would for a tool."""
    return ToolCall(ask.call_id, f"agent:{ask.agent_id}", ask.payload, ask.timeout_seconds, step_id=ask.step_id)


def _child_of(grant: Grant, ask: Ask) -> Enqueue:
    """The message another agent gets: caused by this turn, one level deeper, answering to its call."""
    turn = grant.turn
    return Enqueue(
        key=(turn.project, ask.agent_id),
        type=MessageType.JOIN_REQUEST,
        payload=ask.payload,
        correlation_id=ask.call_id,
        source=turn.agent_id,
        parent_turn_id=turn.turn_id,
        parent_step_id=ask.step_id,
        reply_call_id=ask.call_id,
        trace_id=turn.trace_id,
        depth=turn.depth + 1,
        run_id=turn.run_id,
        context_box_id=ask.context_box_id,
        result_fields=ask.result_fields,
    )
