"""The kernel as one object: what the server, the worker and the other rooms call."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

from msgspec.structs import replace

from homeostat.core.clock import Clock, Millis, SystemClock
from homeostat.core.codec import Json
from homeostat.core.errors import BoxUnknown, TurnUnknown
from homeostat.core.ids import (
    AgentId,
    BoxId,
    CardId,
    Ids,
    ProjectId,
    RunId,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    turn_of,
)
from homeostat.core.limits import (
    LEASE_SECONDS,
    RETENTION_SECONDS,
    TURNS_LOCATED_MAX,
)
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import CardDraft
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, AgentKey, Grant, MessageType, WaitStatus
from homeostat.core.records.view import Deliverable, Hydration, TurnView
from homeostat.core.records.work import Delivered, Fence, Suspended
from homeostat.core.unbound import unbound
from homeostat.core.urgency import is_urgent
from homeostat.kernel import boxes
from homeostat.kernel.bell import Bell
from homeostat.kernel.commands import (
    Command,
    Deliver,
    Dispatch,
    Enqueue,
    Enqueued,
    Idempotency,
    Preempt,
    Register,
    Release,
    Report,
    Reported,
    SetGate,
    Stop,
    Stopped,
    StoreStep,
    Suspend,
    SwapBoxes,
    WriteCards,
)
from homeostat.kernel.decide import first_answer
from homeostat.kernel.deliverables import Deliverables
from homeostat.kernel.dock import Dock, Revoke
from homeostat.kernel.flush import Flusher
from homeostat.kernel.outbox import Relay
from homeostat.kernel.plan import Plan
from homeostat.kernel.signals import state_signal
from homeostat.kernel.watchdog import Watchdog
from homeostat.kernel.workers import Workers

Loop = tuple[str, Callable[[], Awaitable[None]]]

OnResult = Callable[[AgentKey, TurnId, ToolCallId, TraceId | None, Json], None]
"""Hears of each result that a tool brought, once it is stored. It must not take long."""


class Kernel:
    """Durable turns on one store. `loops` are its background work; whoever assembles it owns their tasks."""

    def __init__(
        self,
        *,
        store: TurnStore,
        bus: Bus,
        clock: Clock | None = None,
        ids: Ids | None = None,
        lease_seconds: float = LEASE_SECONDS,
        retention_seconds: float = RETENTION_SECONDS,
    ) -> None:
        self.store = store
        self.bus = bus
        self.clock = clock or SystemClock()
        self.ids = ids or Ids(clock=self.clock)
        self.lease_seconds = lease_seconds
        name = self.ids.scope()
        self._located: dict[TurnId, AgentKey] = {}
        self.on_result: OnResult = lambda _key, _turn, _call, _trace, _result: None
        self.dock = Dock()
        self.deliverables = Deliverables(store=store)
        self.flusher = Flusher(
            store=store,
            clock=self.clock,
            ids=self.ids,
            dock=self.dock,
            lease_seconds=lease_seconds,
            committed=self._committed,
            wanted=bus.wanted,
        )
        self._do = self.flusher.submit
        self.workers = Workers(
            store=store, flusher=self.flusher, dock=self.dock, clock=self.clock, lease_seconds=lease_seconds, name=name
        )
        self.dock.hand_back = self.workers.hand_back
        self.relay = Relay(bus=bus, store=store, flusher=self.flusher, clock=self.clock)
        self.bell = Bell(
            store=store, dock=self.dock, flusher=self.flusher, relay=self.relay, clock=self.clock, name=name
        )
        self.watchdog = Watchdog(
            store=store,
            flusher=self.flusher,
            relay=self.relay,
            dock=self.dock,
            clock=self.clock,
            lease_seconds=lease_seconds,
            retention_seconds=retention_seconds,
        )
        self.loops: tuple[Loop, ...] = (
            ("flusher", self.flusher.run),
            ("relay", self.relay.run),
            ("bell", self.bell.run),
            ("watchdog", self.watchdog.run),
        )

    async def listen(self) -> None:
        """Hear of turns that other processes made ready, ended or took away."""
        await self.bell.listen(self.bus)
        await self.bus.subscribe(subject("*", Channel.CMD, "agent", "*", "revoke"), self.workers.on_revoke)
        await self.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._on_task)

    # --- callers -------------------------------------------------------------------------------------------

    async def register(self, key: AgentKey, *, idempotency: Idempotency | None = None) -> bool:
        return await self._do(Register(key=key, idempotency=idempotency))

    async def enqueue(self, command: Enqueue) -> Enqueued:
        """Accept a message, durably."""
        if command.context_box_id is None:
            return await self._do(command)
        return await self._naming(command, boxes.with_context(self.store, command))

    async def ask(self, command: Enqueue, seconds: float) -> tuple[Enqueued, Deliverable | None]:
        """Enqueue and wait for the end, in one go: whoever asks is woken once, with the end."""
        if command.turn_id is not None or command.idempotency is not None or command.context_box_id is not None:
            accepted = await self.enqueue(command)
            return accepted, await self.deliverables.wait(command.key[0], accepted.turn_id, seconds)
        until = self.clock.monotonic() + seconds
        turn_id = turn_of(self.ids.scope())
        ending = self.deliverables.watch(turn_id)
        try:
            asked = self.flusher.ask(replace(command, turn_id=turn_id), ending)
            found = await self.deliverables.seen(ending, seconds)
            accepted = cast(Enqueued, asked.answer if found is not None else await asked.settlement())
        except BaseException:
            self.deliverables.unwatch(turn_id, ending)
            raise
        if found is None:
            left = until - self.clock.monotonic()
            found = await self.deliverables.wait(command.key[0], turn_id, left, watching=ending)
        return accepted, found

    async def report(
        self,
        project: ProjectId,
        turn_id: TurnId,
        call_id: ToolCallId,
        *,
        status: WaitStatus,
        result: Json,
        after_execution: AfterExecution | None = None,
        message_type: MessageType = MessageType.TOOL_RESULT,
        idempotency: Idempotency | None = None,
    ) -> Reported:
        """Bring a tool's result; acknowledged even when it changes nothing."""
        key = self._located.get(turn_id)
        if key is None or key[0] != project:
            key = (await self._turn(project, turn_id)).turn.key
        reported: Reported = await self._do(
            Report(
                key=key,
                turn_id=turn_id,
                call_id=call_id,
                type=message_type,
                status=status,
                result=result,
                after_execution=after_execution,
                idempotency=idempotency,
            )
        )
        if reported.accepted and not reported.repeated:
            self.on_result(key, turn_id, call_id, reported.trace_id, result)
        return reported

    async def stop(
        self, project: ProjectId, turn_id: TurnId, *, reason: str, actor: str, idempotency: Idempotency | None = None
    ) -> Stopped:
        """End a turn at once; one that has ended keeps its end."""
        view = await self._turn(project, turn_id)
        stopped: Stopped = await self._do(Stop(turn=view.turn, reason=reason, actor=actor, idempotency=idempotency))
        if stopped.card_id is None and (ended := await self.deliverables.get(project, turn_id)) is not None:
            return replace(stopped, card_id=ended.card_id)
        return stopped

    async def set_gate(
        self, key: AgentKey, gate: Gate, reason: str | None = None, mandate: Mandate | None = None
    ) -> Gate:
        """Turn an agent's gate; under a mandate that is void by then it stays as it is (`AgentMoved`)."""
        return await self._order(SetGate(key=key, gate=gate, reason=reason, mandate=mandate))

    async def preempt(self, key: AgentKey, turn_id: TurnId | None = None) -> TurnId | None:
        return await self._order(Preempt(key=key, turn_id=turn_id))

    def hold_run(self, run_id: RunId) -> None:
        """Give no turn of a run to a worker of this process until it is let go; what is in line stays there."""
        self.flusher.held_runs.add(run_id)

    def let_run_go(self, run_id: RunId, agents: Collection[AgentKey]) -> None:
        """Take up again what was held; these agents may have such a turn in line."""
        self.flusher.held_runs.discard(run_id)
        for key in agents:
            # Should it fail, the watchdog finds an idle agent with mail.
            self.flusher.ride(Dispatch(key=key)).add_done_callback(lambda done: done.cancelled() or done.exception())

    # --- boxes ---------------------------------------------------------------------------------------------

    async def create_box(
        self,
        project: ProjectId,
        drafts: Collection[CardDraft],
        author: AgentId | None,
        *,
        idempotency: Idempotency | None = None,
    ) -> BoxId:
        """Make a box from outside any turn, for use as context or as rolling memory."""
        scope = self.ids.scope()
        cards = boxes.new_cards(project, scope, drafts, author, self.clock.now_ms())
        if idempotency is not None and author is not None:
            idempotency = idempotency.of(author)
        return await self._do(boxes.put(project, scope, cards, idempotency))

    async def fork_box(self, project: ProjectId, box_id: BoxId, *, idempotency: Idempotency | None = None) -> BoxId:
        """Copy a box: the new one refers to the same cards, and has no writer yet."""
        scope = self.ids.scope()
        cards = await boxes.copies(self.store, project, box_id, scope, self.clock.now_ms())
        return await self._do(boxes.put(project, scope, cards, idempotency, of=box_id))

    async def end_box(self, project: ProjectId, box_id: BoxId) -> None:
        """End a box that nothing needs: nobody reads it any more, and no turn can be pointed at it."""
        await boxes.end(self.store, project, box_id)

    # --- workers -------------------------------------------------------------------------------------------

    async def open_worker(
        self, hosted: Collection[AgentKey], revoke: Revoke, *, worker_id: WorkerId | None = None
    ) -> WorkerId:
        """Let a worker take turns of these agents. It is told through `revoke` when a turn is no longer its own.

        One that comes back to a restarted process brings its id along, and with it the turns it still holds.
        """
        return await self.workers.open(hosted, revoke, worker_id or self.ids.worker())

    async def host(self, worker_id: WorkerId, agents: Collection[AgentKey]) -> None:
        await self.workers.host(worker_id, agents)

    async def close_worker(self, worker_id: WorkerId, *, lost: bool = False) -> None:
        """A worker leaves or is lost; what it holds goes back, or what it had not collected."""
        await self.workers.close(worker_id, lost=lost)

    async def claim(self, worker_id: WorkerId, limit: int, seconds: float) -> list[Grant]:
        """Up to `limit` turns, waiting for the first one; empty when the time is over."""
        return await self.workers.claim(worker_id, limit, seconds)

    async def renew(self, worker_id: WorkerId, held: Collection[TurnId]) -> Collection[Fence]:
        """A worker is alive and says what it works on; a turn it was granted and never heard of goes back.

        Returns what it holds in truth: what it works on besides was given up by itself, or taken away by others.
        """
        return await self.workers.renew(worker_id, held)

    async def hydrate(self, grant: Grant) -> Hydration:
        """What a worker needs to continue: stored steps, context, and what the turn wrote before."""
        return await self.store.hydrate(grant.turn, fresh=grant.fresh)

    async def step(self, fence: Fence, name: str, outcome: Json) -> None:
        await self._do(StoreStep(fence=fence, name=name, outcome=outcome))

    async def write(
        self, fence: Fence, cards: tuple[CardDraft, ...], *, idempotency: Idempotency | None = None
    ) -> tuple[CardId, ...]:
        return await self._do(WriteCards(fence=fence, cards=cards, idempotency=idempotency))

    async def swap_boxes(self, fence: Fence, context_box_id: BoxId | None, output_box_id: BoxId | None) -> None:
        until = None if context_box_id is None else await boxes.extent(self.store, fence.key[0], context_box_id)
        await self._do(
            SwapBoxes(fence=fence, context_box_id=context_box_id, output_box_id=output_box_id, context_until=until)
        )

    async def suspend(self, command: Suspend) -> Suspended:
        if not command.children:
            return await self._do(command)
        return await self._naming(command, boxes.with_contexts(self.store, command))

    async def deliver(self, command: Deliver) -> Delivered:
        return await self._do(command)

    def submit(self, command: Deliver | Suspend) -> "asyncio.Future[Any]":
        """Leave a turn without a task that waits for the commit; the future is done once it is durable."""
        return self._do(command)

    async def release(self, fence: Fence, *, idempotency: Idempotency | None = None) -> None:
        await self._do(Release(fence=fence, idempotency=idempotency))

    async def emit(self, turn_key: AgentKey, turn_id: TurnId, chunk: Json) -> None:
        """Stream a chunk of output; whoever is not listening misses it."""
        event = Event(turn_id, turn_key[0], Channel.STR, "agent", turn_key[1], "chunk", chunk)
        await self.bus.publish((event,))

    # --- inside --------------------------------------------------------------------------------------------

    async def _order(self, command: Command) -> Any:
        """Do what an operator waits for in this very round of the loop, where that is who writes.

        Others go with it, and must not be left behind by an operator who gives up.
        """
        answer = self._do(command)
        if is_urgent() and self.store.lanes == 1:
            await unbound(self.flusher.flush())
        return await answer

    async def _naming(self, command: Command, known: Awaitable[Command]) -> Any:
        """Do a command once the boxes it names are looked up; where one is gone, it may have been done before."""
        try:
            command = await known
        except BoxUnknown:
            if (first := await first_answer(self.store, command)) is None:
                raise
            return first
        return await self._do(command)

    async def _turn(self, project: ProjectId, turn_id: TurnId) -> TurnView:
        view = await self.store.turn(project, turn_id)
        if view is None:
            raise TurnUnknown(turn_id=turn_id)
        return view

    def _committed(self, plan: Plan) -> None:
        """What a commit sets in motion: waiters, workers, the watchdog's calendar, announcements."""
        if plan.ends:
            self.deliverables.committed(plan.ends, plan.left)
        if plan.writes.new_waits:
            self._locate(plan)
        signals = self.workers.revoked(plan.revoked)
        watched = self.bus.wanted("state")
        for key in plan.touched:
            mailbox = plan.mailboxes[key]
            assert mailbox is not None
            head = mailbox.head
            if watched:
                signals.append(state_signal(head, mailbox.active))
            if head.deadline_ms is not None:
                self.watchdog.expect(head.deadline_ms)
            if (news := self.bell.moved(key, head)) is not None:
                signals.append(news)
        for end in plan.writes.leases.values():
            self.watchdog.expect(Millis(end + 1))
        self.relay.hand_over(plan.writes.outbox, signals)

    def _locate(self, plan: Plan) -> None:
        """Remember whose turns wait: results come by a turn's id, and should not have to ask the store first."""
        self._located.update({wait.turn_id: (wait.project, wait.agent_id) for wait in plan.writes.new_waits.values()})
        if len(self._located) > TURNS_LOCATED_MAX:
            for turn_id in list(self._located)[: TURNS_LOCATED_MAX // 4]:
                del self._located[turn_id]

    async def _on_task(self, event: Event) -> None:
        turn_id = cast(TurnId, event.event_id)
        if not self.deliverables.ended_here(turn_id):
            key = (event.project, AgentId(event.target))
            self.flusher.forget([key])  # reading it again is cheaper than a lost race
            self.bell.ended(key)
            self.deliverables.ended(turn_id)
