"""The kernel on real stores against a model: whatever is asked, in whatever order, both agree."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.postgres import PostgresEngine, PostgresTurns
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.codec import NULL, Json, to_json
from homeostat.core.errors import AgentBusy, GateClosed, IdempotencyKeyReused, StaleEpoch, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, Chance, Ids, ToolCallId, TurnId, WorkerId
from homeostat.core.limits import ATTEMPTS_MAX, LEASE_BEATS, LEASE_SECONDS, OUTBOX_GRACE_SECONDS
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, Grant, MessageType, ToolCall, TurnStatus, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence
from homeostat.kernel.commands import Claim, Deliver, Enqueue, Idempotency, Suspend
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import key_of
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.model import ModelAgent, ModelTurn, ModelWait, Moves

T = TypeVar("T")
OpenStore = Callable[[], AbstractAsyncContextManager[TurnStore]]

AGENTS = ("ann", "bob")
WORKERS = tuple(WorkerId(f"wrk_{number}") for number in range(3))
LEASE_MS = int(LEASE_SECONDS * 1000)

agents = st.sampled_from(AGENTS)
kernels = st.integers(0, 1)
workers = st.sampled_from(WORKERS)
numbers = st.integers(0, 1 << 16)


class Unsure:
    """A store that can be made to lose one commit, or the answer to it: the one that answers a certain key.

    Kernels save on their own account as well, whenever a timer of theirs is due; what is planted is not for those.
    """

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._lost: str | None = None
        self._silent = False

    def lose(self, key: str, *, silent: bool) -> None:
        self._lost, self._silent = key, silent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save(self, writes: Any) -> Any:
        meant = self._lost is not None and any(key.endswith(f" {self._lost}") for _, key in writes.answers)
        if meant and not self._silent:
            self._lost = None
            raise StoreUnavailable(problem="refused")
        saved = await self._store.save(writes)
        if meant and saved.ok:
            self._lost = None
            raise StoreUnavailable(problem="no answer")
        return saved


class TurnsMachine(RuleBasedStateMachine):
    """Two kernels on one store, each with a memory of its own, and a model that knows what must come of it."""

    def __init__(self, open_store: OpenStore, moves: Moves) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._opened = open_store()
        self._store = Unsure(self.run(self._opened.__aenter__()))
        self._clock = ManualClock()
        self._bus = LocalBus()
        self._heard: dict[str, set[str]] = {}
        self._kernels: list[Kernel] = []
        self._flushers: list[asyncio.Task[None]] = []
        self._lives = itertools.count(1)
        self._keys: dict[str, tuple[Enqueue, TurnId]] = {}
        self._granted: set[tuple[str, int]] = set()
        self.agents = {name: ModelAgent(name, moves) for name in AGENTS}
        self.turns: dict[TurnId, ModelTurn] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    # --- beginning and end ---------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        async def start() -> None:
            await self._bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._hear)
            for _ in range(2):
                self._kernels.append(self._kernel())
            await asyncio.gather(*(kernel.register(key_of(name)) for kernel in self._kernels for name in AGENTS))

        self.run(start())

    def _kernel(self) -> Kernel:
        kernel = Kernel(
            store=cast(TurnStore, self._store),
            bus=self._bus,
            clock=self._clock,
            ids=Ids(clock=self._clock, entropy=Chance(next(self._lives))),
        )
        self._flushers.append(asyncio.get_running_loop().create_task(kernel.flusher.run()))
        return kernel

    async def _hear(self, event: Event) -> None:
        self._heard.setdefault(event.event_id, set()).add(event.payload)

    def teardown(self) -> None:
        async def stop() -> None:
            for kernel in self._kernels:
                await kernel.relay.tick()
            self._clock.advance(OUTBOX_GRACE_SECONDS + 1)
            for _ in range(2):
                await self._kernels[0].relay.sweep()
                self._clock.advance(OUTBOX_GRACE_SECONDS + 1)
            for flusher in self._flushers:
                flusher.cancel()
            await asyncio.gather(*self._flushers, return_exceptions=True)
            await self._opened.__aexit__(None, None, None)

        try:
            if self._kernels:
                self.run(stop())
                ended = {turn_id for turn_id, turn in self.turns.items() if turn.ended}
                assert set(self._heard) == ended, "every end is announced, and nothing else"
                assert all(len(said) == 1 for said in self._heard.values()), "and always in the same words"
        finally:
            self._runner.close()

    # --- messages ------------------------------------------------------------------------------------------

    def _message(self, agent: str, **changes: Any) -> Enqueue:
        said: dict[str, Any] = {"type": MessageType.TURN, "payload": Json("{}"), **changes}
        return Enqueue(key=key_of(agent), **said)

    def _accepted(self, agent: str, turn_id: TurnId) -> None:
        assert turn_id not in self.turns
        turn = ModelTurn(turn_id, agent)
        self.turns[turn_id] = turn
        self.agents[agent].enqueue(turn)

    @rule(agent=agents, kernel=kernels)
    def enqueue(self, agent: str, kernel: int) -> None:
        accepted = self.run(self._kernels[kernel].enqueue(self._message(agent)))
        self._accepted(agent, accepted.turn_id)

    @rule(agent=agents, kernel=kernels)
    def act_directly(self, agent: str, kernel: int) -> None:
        model = self.agents[agent]
        action = self._message(agent, type=MessageType.UI_ACTION)
        try:
            accepted = self.run(self._kernels[kernel].enqueue(action))
        except GateClosed:
            assert model.gate is not Gate.OPEN
        except AgentBusy:
            assert model.status is not HeadStatus.IDLE or model.queue
        else:
            assert model.can(TurnEvent.LEASE)
            self._accepted(agent, accepted.turn_id)

    @rule(agent=agents, kernel=kernels, silent=st.booleans())
    def enqueue_under_a_key_and_hear_nothing(self, agent: str, kernel: int, *, silent: bool) -> None:
        """The answer, or the commit, is lost; whoever asks again under the same key gets one turn."""
        key = f"key-{len(self._keys)}"
        message = self._message(agent, idempotency=Idempotency(key, agent))
        self._store.lose(key, silent=silent)
        with pytest.raises(StoreUnavailable):
            self.run(self._kernels[kernel].enqueue(message))
        accepted = self.run(self._kernels[1 - kernel].enqueue(message))
        self._keys[key] = (message, accepted.turn_id)
        self._accepted(agent, accepted.turn_id)

    @precondition(lambda self: self._keys)
    @rule(number=numbers, kernel=kernels)
    def repeat_a_key(self, number: int, kernel: int) -> None:
        key = sorted(self._keys)[number % len(self._keys)]
        message, turn_id = self._keys[key]
        assert self.run(self._kernels[kernel].enqueue(message)).turn_id == turn_id
        other = self._message(message.key[1], idempotency=Idempotency(key, "another request"))
        with pytest.raises(IdempotencyKeyReused):
            self.run(self._kernels[kernel].enqueue(other))

    @rule(agent=agents, count=st.integers(2, 5))
    def enqueue_many_at_once_through_both_kernels(self, agent: str, count: int) -> None:
        """Whatever order they come in, each gets a place, and the line is in that order."""

        async def together() -> list[TurnId]:
            sent = (self._kernels[n % 2].enqueue(self._message(agent)) for n in range(count))
            return [accepted.turn_id for accepted in await asyncio.gather(*sent)]

        turn_ids = self.run(together())
        views = [self.run(self._store.turn(DEFAULT_PROJECT, turn_id)) for turn_id in turn_ids]
        for view in sorted(views, key=lambda view: view.turn.seq):
            self._accepted(agent, view.turn.turn_id)

    # --- workers -------------------------------------------------------------------------------------------

    def _fence(self, model: ModelAgent) -> Fence:
        assert model.active is not None
        assert model.worker is not None
        return Fence(key_of(model.name), model.active.turn_id, model.epoch, model.worker)

    def _entered(self, model: ModelAgent, grant: Grant) -> None:
        model.claim(grant.worker_id)
        assert model.active is not None
        assert (grant.turn.turn_id, grant.epoch) == (model.active.turn_id, model.epoch)
        assert (grant.turn.turn_id, grant.epoch) not in self._granted, "an epoch is given once"
        self._granted.add((grant.turn.turn_id, grant.epoch))
        steps = self.run(self._store.hydrate(grant.turn, fresh=grant.fresh)).steps
        assert steps == model.active.steps, "what was stored is replayed, all of it and nothing else"
        lease = self.run(self._store.lease(grant.worker_id))
        assert lease is not None
        assert lease >= self._clock.now_ms() + LEASE_MS - LEASE_MS // LEASE_BEATS

    def _some(self, number: int, fits: Callable[[ModelAgent], bool]) -> ModelAgent:
        fitting = [model for model in self.agents.values() if fits(model)]
        return fitting[number % len(fitting)]

    def _any(self, fits: Callable[[ModelAgent], bool]) -> bool:
        return any(fits(model) for model in self.agents.values())

    @precondition(lambda self: self._any(claimable))
    @rule(number=numbers, kernel=kernels, worker=workers)
    def claim(self, number: int, kernel: int, worker: WorkerId) -> None:
        model = self._some(number, claimable)
        grant = self.run(self._submit(kernel, Claim(key=key_of(model.name), worker_id=worker)))
        assert grant is not None
        self._entered(model, grant)

    @precondition(lambda self: not self._any(claimable))
    @rule(agent=agents, kernel=kernels, worker=workers)
    def claim_in_vain(self, agent: str, kernel: int, worker: WorkerId) -> None:
        assert self.run(self._submit(kernel, Claim(key=key_of(agent), worker_id=worker))) is None

    @precondition(lambda self: self._any(claimable))
    @rule(number=numbers)
    def claim_from_everywhere(self, number: int) -> None:
        """Many workers on two kernels at the same moment: one of them enters."""
        model = self._some(number, claimable)

        async def together() -> list[Grant | None]:
            claims = [Claim(key=key_of(model.name), worker_id=worker) for worker in WORKERS]
            return await asyncio.gather(*(self._submit(n % 2, claim) for n, claim in enumerate(claims)))

        (grant,) = [grant for grant in self.run(together()) if grant is not None]
        self._entered(model, grant)

    @precondition(lambda self: self._any(claimable))
    @rule(number=numbers, kernel=kernels, worker=workers, times=st.integers(1, ATTEMPTS_MAX))
    def enter_and_fall_silent(self, number: int, kernel: int, worker: WorkerId, times: int) -> None:
        model = self._some(number, claimable)
        turn = model.active
        for _ in range(times):
            if model.active is turn and model.claimable:
                grant = self.run(self._submit(kernel, Claim(key=key_of(model.name), worker_id=worker)))
                self._entered(model, grant)
                self._pass(kernel, LEASE_SECONDS + 1)

    async def _submit(self, kernel: int, command: Any) -> Any:
        return await self._kernels[kernel].flusher.submit(command)

    @precondition(lambda self: self._any(running))
    @rule(number=numbers, kernel=kernels, name=st.sampled_from("xyz"))
    def store_a_step(self, number: int, kernel: int, name: str) -> None:
        model = self._some(number, running)
        assert model.active is not None
        self.run(self._kernels[kernel].step(self._fence(model), name, to_json(number)))
        model.active.steps.setdefault(name, to_json(number))

    @precondition(lambda self: self._any(running))
    @rule(number=numbers, kernel=kernels, claim_next=st.booleans(), outcome=st.sampled_from(["success", "failed"]))
    def deliver(self, number: int, kernel: int, outcome: str, *, claim_next: bool) -> None:
        model = self._some(number, running)
        worker = model.worker
        command = Deliver(fence=self._fence(model), status=Outcome(outcome), result=NULL, claim_next=claim_next)
        delivered = self.run(self._kernels[kernel].deliver(command))
        model.end(TurnEvent.DELIVER, Outcome(outcome))
        assert (delivered.next is not None) == (claim_next and model.claimable)
        if delivered.next is not None:
            assert delivered.next.worker_id == worker
            self._entered(model, delivered.next)

    @precondition(lambda self: self._any(running))
    @rule(number=numbers)
    def deliver_and_stop_at_once(self, number: int) -> None:
        """Two ends at the same moment through two kernels: one of them counts."""
        model = self._some(number, running)
        assert model.active is not None
        turn_id = model.active.turn_id
        command = Deliver(fence=self._fence(model), status=Outcome.SUCCESS, result=NULL)

        async def together() -> tuple[Any, Any]:
            stop = self._kernels[1].stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="ann")
            return await asyncio.gather(self._kernels[0].deliver(command), stop, return_exceptions=True)

        delivered, stopped = self.run(together())
        assert not isinstance(stopped, BaseException)
        assert stopped.stopped == isinstance(delivered, StaleEpoch)
        if stopped.stopped:
            model.end(TurnEvent.STOP, Outcome.STOP)
        else:
            model.end(TurnEvent.DELIVER, Outcome.SUCCESS)

    @precondition(lambda self: self._any(running))
    @rule(number=numbers, kernel=kernels)
    def release(self, number: int, kernel: int) -> None:
        model = self._some(number, running)
        self.run(self._kernels[kernel].release(self._fence(model)))
        model.again(TurnEvent.RELEASE)

    @precondition(lambda self: self._any(active))
    @rule(agent=agents, kernel=kernels, worker=workers, back=st.integers(0, 2))
    def write_behind_a_fence_that_is_not_ours(self, agent: str, kernel: int, worker: WorkerId, back: int) -> None:
        model = self.agents[agent]
        turn_id = model.active.turn_id if model.active else TurnId("turn_invented")
        fence = Fence(key_of(agent), turn_id, model.epoch - back, worker)
        if model.status is HeadStatus.RUNNING and model.worker == worker and back == 0:
            return
        writes: list[Callable[[], Awaitable[Any]]] = [
            lambda: self._kernels[kernel].step(fence, "forged", NULL),
            lambda: self._kernels[kernel].release(fence),
            lambda: self._kernels[kernel].deliver(Deliver(fence=fence, status=Outcome.SUCCESS, result=NULL)),
            lambda: self._kernels[kernel].suspend(Suspend(fence=fence, calls=(_call("forged", 1.0),))),
        ]

        async def attempt(write: Callable[[], Awaitable[Any]]) -> None:
            with pytest.raises(StaleEpoch):
                await write()

        for write in writes:
            self.run(attempt(write))

    # --- waits ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self._any(running))
    @rule(
        number=numbers,
        kernel=kernels,
        names=st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
        seconds=st.sampled_from([1.0, 60.0]),
        after=st.sampled_from(AfterExecution),
    )
    def suspend(self, number: int, kernel: int, names: list[str], seconds: float, after: AfterExecution) -> None:
        model = self._some(number, running)
        turn = model.active
        assert turn is not None
        calls = tuple(_call(name, seconds, after) for name in names)
        suspended = self.run(self._kernels[kernel].suspend(Suspend(fence=self._fence(model), calls=calls)))
        deadline = self._clock.now_ms() + int(seconds * 1000)
        for name in names:
            turn.waits.setdefault(name, ModelWait(deadline, after))
        asked = [turn.waits[name] for name in names]
        if any(wait.status is WaitStatus.PENDING for wait in asked):
            assert not suspended.ready
            model.suspend()
        elif any(wait.after is AfterExecution.TERMINATE for wait in asked):
            assert not suspended.ready
            model.end(TurnEvent.DELIVER, Outcome.SUCCESS)
            self._adopt_outcome(turn)  # it may have been timed out while the turn was in line
        else:
            assert suspended.ready

    @precondition(lambda self: self._any(claimable))
    @rule(number=numbers, kernel=kernels, worker=workers, after=st.sampled_from(AfterExecution))
    def claim_and_suspend(self, number: int, kernel: int, worker: WorkerId, after: AfterExecution) -> None:
        """Two steps that belong together, or turns that wait are too rare among all that can happen."""
        model = self._some(number, claimable)
        grant = self.run(self._submit(kernel, Claim(key=key_of(model.name), worker_id=worker)))
        assert grant is not None
        self._entered(model, grant)
        fitting = [name for name, other in self.agents.items() if running(other)]
        self.suspend(fitting.index(model.name), kernel, ["a", "d"], 60.0, after)

    @precondition(lambda self: any(turn.waits for turn in self.turns.values()))
    @rule(number=numbers, kernel=kernels, twice=st.booleans(), word=st.sampled_from([None, "suspend", "terminate"]))
    def report(self, number: int, kernel: int, word: str | None, *, twice: bool) -> None:
        """A result comes in, perhaps twice at once, perhaps too late, perhaps with a control word."""
        waits = [(turn, name) for turn in self.turns.values() for name in turn.waits]
        turn, name = waits[number % len(waits)]
        wait = turn.waits[name]
        result = to_json({"__cg_control": {"after_execution": word}} if word else {})

        async def together() -> list[Any]:
            return await asyncio.gather(
                *(
                    self._kernels[(kernel + n) % 2].report(
                        DEFAULT_PROJECT, turn.turn_id, ToolCallId(name), status=WaitStatus.SUCCESS, result=result
                    )
                    for n in range(1 + twice)
                )
            )

        accepted = sum(reported.accepted for reported in self.run(together()))
        assert accepted == int(wait.status is WaitStatus.PENDING)
        if accepted:
            wait.status = WaitStatus.SUCCESS
            wait.after = AfterExecution(word) if word else wait.after
            self.agents[turn.agent].answered(turn)
            self._adopt_outcome(turn)

    @precondition(lambda self: self._any(suspended))
    @rule(number=numbers, order=st.randoms(use_true_random=False), status=st.sampled_from(["success", "error"]))
    def answer_everything(self, number: int, order: Any, status: str) -> None:
        """All results of a turn come in at once, in any order, through both kernels."""
        model = self._some(number, suspended)
        turn = model.active
        assert turn is not None
        names = [name for name, wait in turn.waits.items() if wait.status is WaitStatus.PENDING]
        order.shuffle(names)

        async def together() -> list[Any]:
            said: dict[str, Any] = {"status": WaitStatus(status), "result": NULL}
            reports = (
                self._kernels[n % 2].report(DEFAULT_PROJECT, turn.turn_id, ToolCallId(name), **said)
                for n, name in enumerate(names)
            )
            return await asyncio.gather(*reports)

        assert all(reported.accepted for reported in self.run(together()))
        for name in names:
            turn.waits[name].status = WaitStatus(status)
        model.answered(turn)
        self._adopt_outcome(turn)

    # --- operators -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.turns)
    @rule(number=numbers, kernel=kernels)
    def stop(self, number: int, kernel: int) -> None:
        self._stop(list(self.turns.values())[number % len(self.turns)], kernel)

    @precondition(lambda self: self._any(active))
    @rule(number=numbers, kernel=kernels)
    def stop_what_is_on_the_head(self, number: int, kernel: int) -> None:
        model = self._some(number, active)
        assert model.active is not None
        self._stop(model.active, kernel)

    def _stop(self, turn: ModelTurn, kernel: int) -> None:
        model = self.agents[turn.agent]
        stopped = self.run(self._kernels[kernel].stop(DEFAULT_PROJECT, turn.turn_id, reason="enough", actor="ann"))
        assert stopped.stopped == (turn.ended is None)
        assert stopped.card_id is not None
        if turn.ended is None and turn is model.active:
            model.end(TurnEvent.STOP, Outcome.STOP)
        elif turn.ended is None:
            model.stop_queued(turn)

    @precondition(lambda self: self._any(active))
    @rule(number=numbers, kernel=kernels)
    def preempt(self, number: int, kernel: int) -> None:
        model = self._some(number, active)
        assert model.active is not None
        assert self.run(self._kernels[kernel].preempt(key_of(model.name))) == model.active.turn_id
        model.preempt()

    @rule(agent=agents, kernel=kernels, gate=st.sampled_from([Gate.OPEN, Gate.OPEN, *Gate]))
    def turn_the_gate(self, agent: str, kernel: int, gate: Gate) -> None:
        model = self.agents[agent]
        assert self.run(self._kernels[kernel].set_gate(key_of(agent), gate)) is model.gate
        model.gate = gate
        model.dispatch()

    # --- time and death ------------------------------------------------------------------------------------

    @rule(kernel=kernels)
    def crash(self, kernel: int) -> None:
        """A process dies with everything in its memory, and another starts on the same store."""

        async def restart() -> None:
            self._flushers[kernel].cancel()
            self._kernels[kernel] = self._kernel()
            self._flushers[kernel] = self._flushers.pop()

        self.run(restart())

    @rule(kernel=kernels, seconds=st.sampled_from([0.5, 2.0, LEASE_SECONDS + 1, 100.0]))
    def let_time_pass(self, kernel: int, seconds: float) -> None:
        self._pass(kernel, seconds)

    def _pass(self, kernel: int, seconds: float) -> None:
        """The watchdog takes turns from silent workers and times waits out, and does nothing else."""
        self._clock.advance(seconds)
        now = self._clock.now_ms()
        ends = {worker: self.run(self._store.lease(worker)) for worker in WORKERS}
        self.run(self._kernels[kernel].watchdog.tick())
        for model in self.agents.values():
            if model.worker is not None and (end := ends[model.worker]) is not None and end <= now:
                model.lose()
        for turn in list(self.turns.values()):
            late = [w for w in turn.waits.values() if w.status is WaitStatus.PENDING and w.deadline_ms <= now]
            for wait in late:
                wait.status = WaitStatus.TIMEOUT
            if late:
                self.agents[turn.agent].answered(turn)
                self._adopt_outcome(turn)

    def _adopt_outcome(self, turn: ModelTurn) -> None:
        """A turn that a result ended succeeded or failed with that result; which of several was last is left open."""
        if turn.ended is not None:
            view = self.run(self._store.turn(DEFAULT_PROJECT, turn.turn_id))
            assert view.status in (TurnStatus.SUCCESS, TurnStatus.FAILED)
            turn.ended = Outcome(view.status.value)

    # --- what must hold ------------------------------------------------------------------------------------

    @invariant()
    def store_and_model_agree(self) -> None:
        if not self._kernels:
            return
        self.run(self._compare())

    async def _compare(self) -> None:
        for name, model in self.agents.items():
            view = await self._store.head(DEFAULT_PROJECT, key_of(name)[1])
            head = view.head
            active = model.active.turn_id if model.active else None
            assert (head.status, head.turn_id, head.worker_id) == (model.status, active, model.worker)
            assert (head.epoch, head.gate, head.queued) == (model.epoch, model.gate, len(model.queue))
            line = await self._store.inbox(*key_of(name), after_seq=-1, limit=999)
            assert [entry.turn.turn_id for entry in line] == [turn.turn_id for turn in model.queue]
            if model.active is not None:
                assert head.losses == model.active.losses
            if model.status is HeadStatus.SUSPENDED and model.active is not None:
                pending = [w for w in model.active.waits.values() if w.status is WaitStatus.PENDING]
                assert head.waiting == len(pending)
                assert head.deadline_ms == min(wait.deadline_ms for wait in pending)
        for turn_id, turn in self.turns.items():
            view = await self._store.turn(DEFAULT_PROJECT, turn_id)
            assert view.status is self.agents[turn.agent].status_of(turn)
            assert (view.deliverable is not None) == (turn.ended is not None)
            found = Counter((wait.call_id, wait.status) for wait in view.waits)
            assert found == Counter((name, wait.status) for name, wait in turn.waits.items())


def claimable(model: ModelAgent) -> bool:
    return model.claimable


def running(model: ModelAgent) -> bool:
    return model.status is HeadStatus.RUNNING


def suspended(model: ModelAgent) -> bool:
    return model.status is HeadStatus.SUSPENDED


def active(model: ModelAgent) -> bool:
    return model.active is not None


def _call(name: str, seconds: float, after: AfterExecution = AfterExecution.SUSPEND) -> ToolCall:
    return ToolCall(ToolCallId(name), "tool", Json("{}"), seconds, after)


# --- stores ----------------------------------------------------------------------------------------------------------

TABLES = ("heads", "turns", "inbox", "waits", "cards", "box_owners", "steps", "leases", "answers", "outbox")


def in_memory(_: pytest.FixtureRequest) -> OpenStore:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[TurnStore]:
        yield MemoryTurns(queue_front=2)

    return opened


def on_sqlite(request: pytest.FixtureRequest) -> OpenStore:
    directory: Path = request.getfixturevalue("tmp_path")
    numbers = itertools.count()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[TurnStore]:
        engine = SqliteEngine(directory / f"{next(numbers)}.db")
        await engine.open()
        try:
            yield SqliteTurns(engine)
        finally:
            await engine.close()

    return opened


def on_postgres(request: pytest.FixtureRequest) -> OpenStore:
    url: str = request.getfixturevalue("postgres_url")

    @asynccontextmanager
    async def opened() -> AsyncGenerator[TurnStore]:
        engine = PostgresEngine(url)
        await engine.open()
        connection = await asyncpg.connect(url)
        await connection.execute("; ".join(f"DELETE FROM {table}" for table in TABLES))
        await connection.close()
        try:
            yield PostgresTurns(engine)
        finally:
            await engine.close()

    return opened


STORES = {"memory": (in_memory, 150), "sqlite": (on_sqlite, 15), "postgres": (on_postgres, 12)}

UNASKED = {
    (HeadStatus.DISPATCHED, TurnEvent.RECOVER),
    (HeadStatus.SUSPENDED, TurnEvent.RECOVER),
    (HeadStatus.DISPATCHED, TurnEvent.REAP),
    (HeadStatus.SUSPENDED, TurnEvent.REAP),
}
"""Rows of the table that no command of the kernel takes: only a running turn holds a worker that can be lost."""


@pytest.mark.timeout(600)  # a failure is made small before it is shown
@pytest.mark.parametrize("store", STORES)
def test_the_kernel_does_what_the_model_says(store: str, request: pytest.FixtureRequest) -> None:
    opening, examples = STORES[store]
    open_store = opening(request)
    moves = Moves()
    run_state_machine_as_test(
        lambda: TurnsMachine(open_store, moves),  # pyright: ignore[reportArgumentType]
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=store == "memory",
            suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
        ),
    )
    if store == "memory":  # the same examples every time, so what they reach is known
        assert {(row.state, row.event) for row in HEAD.rows} - set(moves) == UNASKED
