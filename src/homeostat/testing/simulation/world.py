"""The world of one seed: who lives in it, what befalls them, and how it comes to rest."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from homeostat.core.errors import StoreUnavailable, Unavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, BoxId, Chance, RunId, TurnId
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import EPOCH_MS
from homeostat.testing.loop import SeededLoop
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.simulation.bus import FaultyBus
from homeostat.testing.simulation.checks import Checks
from homeostat.testing.simulation.observer import Observer
from homeostat.testing.simulation.people import Client, Operator
from homeostat.testing.simulation.process import Process, Question
from homeostat.testing.simulation.tools import Tools
from homeostat.testing.simulation.trace import Trace, Violation
from homeostat.testing.simulation.weather import CALM, draw

STORM_SECONDS = 25.0
CALM_SECONDS_MAX = 400.0
RPC_SECONDS = 6.0

HOUR, DAY = 3600.0, 86400.0


class World:
    """Everything of one seed. Whatever happens in it follows from the seed."""

    def __init__(self, seed: int, *, keep: int = 60) -> None:
        self.chance = Chance(seed)
        self.loop = SeededLoop(Chance(self.chance.getrandbits(64)))
        self.loop.on_error = self.fail
        self.context = copy_context()
        self.weather = draw(self.chance)
        self.storm = True
        self.outage = False
        self.lease_seconds = self.chance.choice((1.5, 3.0, 10.0))
        self.retention_seconds = self.chance.choice((5.0, 604800.0, 604800.0))
        self.trace = Trace(self.loop.time, keep=keep)
        self.memory = MemoryTurns(queue_front=self.chance.choice((2, 3, 16)))
        self.checks = Checks(self.memory, self.trace)
        self.observer = Observer(self.memory, self.trace)
        self.bus = FaultyBus(self)
        self.tools = Tools(self)
        self.operator = Operator(self)
        self.boxes: list[BoxId] = []
        self.runs = [RunId(f"run_{number}") for number in range(1, 4)]
        self.unique_tags: set[str] = set()
        self.forgotten_keys: set[str] = set()
        self.failure: BaseException | None = None
        count = self.chance.choice((1, 2, 3, 5))
        self.agents: list[AgentKey] = [(DEFAULT_PROJECT, AgentId(f"agent-{number}")) for number in range(max(2, count))]
        self._clients: list[asyncio.Task[None]] = []
        self.processes: list[Process] = []

    # --- for those who live here ---------------------------------------------------------------------------

    def true_ms(self) -> int:
        """The time by a clock that is right."""
        return EPOCH_MS + round(self.loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, work: Callable[..., Awaitable[None]], *args: Any) -> asyncio.Task[None]:
        """Start something outside of all processes."""
        return self.loop.create_task(self._watched(work, *args), context=self.context)

    async def _watched(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await work(*args)
        except Exception as error:  # noqa: BLE001 — any error ends the seed
            self.fail(error)

    def open_turn(self, *, besides: AgentKey) -> TurnId | None:
        """An unfinished turn of somebody else: one's own might end meanwhile, and its box be free to take."""
        others = [turns for key, turns in self.checks.open.items() if key != besides]
        found = sorted(turn_id for turns in others for turn_id in turns)
        return self.chance.choice(found) if found else None

    def holds(self, grant: Grant) -> bool:
        """Whether a grant is still good, by the store's own word."""
        head = self.memory.heads_by_key[grant.turn.key]
        return (head.turn_id, head.epoch, head.worker_id) == (grant.turn.turn_id, grant.epoch, grant.worker_id)

    def some_process(self) -> Process:
        return self.chance.choice(self.processes)

    async def rpc(self, call: Question, *, process: Process | None = None, seconds: float = RPC_SECONDS) -> Any:
        """Ask a kernel something over a network: its process may be down, stopped, or die over it."""
        process = process or self.some_process()
        if not process.domain.alive:
            raise StoreUnavailable(problem="connection refused")
        reply: asyncio.Future[Any] = self.loop.create_future()
        self.loop.start(process.domain, _serve(call, process.kernel, reply))
        alarm = self.loop.call_later(seconds, _time_out, reply, context=self.context)
        try:
            return await reply
        finally:
            alarm.cancel()

    # --- judging -------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """The seed is lost; the first reason is the one to read."""
        if self.failure is None:
            self.failure = error
            self.loop.stop()

    def violated(self, check: str, detail: str) -> None:
        self.fail(Violation(check, detail))

    # --- the story -----------------------------------------------------------------------------------------

    async def live(self) -> None:
        """A storm, then calm, then the last judgement."""
        hosts = self.chance.choice((1, 2, 3))
        for number in range(hosts):
            hosted = [
                key for index, key in enumerate(self.agents) if index % hosts == number or self.chance.random() < 0.6
            ]
            self.processes.append(Process(self, f"p{number}", hosted))
        await self._register()
        messages, pause = self.chance.choice(((3, 0.0), (6, 0.5), (8, 1.0), (10, 2.0)))
        self._clients = [
            self.spawn(Client(self, f"client{number}").run, messages, pause)
            for number in range(self.chance.choice((1, 2, 4)))
        ]
        chaos = [
            self.spawn(act) for act in (self.operator.run, self._crashes, self._stalls, self._jumps, self._outages)
        ]
        await self.sleep(STORM_SECONDS)
        self.storm = False
        for task in chaos:
            task.cancel()
        await self._calm()
        self.checks.finally_hold(self.unique_tags - self.forgotten_keys)

    async def _register(self) -> None:
        for key in self.agents:
            while True:
                try:
                    both = [self.rpc(lambda kernel, key=key: kernel.register(key)) for _ in range(2)]
                    await asyncio.gather(*both)
                    break
                except Unavailable:
                    await self.sleep(0.1)

    async def _calm(self) -> None:
        """No more faults: everything that was accepted must come to its end by itself."""
        self.weather = CALM
        self.outage = False
        for process in self.processes:
            process.wake()
        self.trace.note("calm")
        await asyncio.wait(self._clients)
        until = self.loop.time() + CALM_SECONDS_MAX
        while self.loop.time() < until:
            with suppress(Unavailable):  # who was killed last may not be back yet: the next round asks again
                await self.operator.open_everything()  # an order to close may have been on its way for long
                await self.operator.finish_killed()
            await self.sleep(4.0)
            if self._at_rest():
                return

    def _at_rest(self) -> bool:
        store = self.memory
        return not (any(self.checks.open.values()) or store.outbox_rows or store.pending)

    # --- what befalls it -----------------------------------------------------------------------------------

    async def _every(self, mean_seconds: float) -> bool:
        if not mean_seconds:
            return False
        await self.sleep(self.chance.expovariate(1 / mean_seconds))
        return self.storm

    async def _crashes(self) -> None:
        while await self._every(self.weather.crash_every):
            self.some_process().crash()

    async def _stalls(self) -> None:
        while await self._every(self.weather.stall_every):
            self.some_process().stall(self.lease_seconds * self.chance.choice((0.3, 1.1, 2.5)))

    async def _jumps(self) -> None:
        while await self._every(self.weather.jump_every):
            seconds = self.chance.choice((-DAY, -HOUR, -30.0, 30.0, HOUR, DAY))
            for process in self.processes if self.chance.random() < 0.6 else [self.some_process()]:
                process.clock.off_seconds += seconds
            self.trace.count("clock_forward" if seconds > 0 else "clock_back")
            self.trace.note(f"clocks jump by {seconds:+.0f} s")

    async def _outages(self) -> None:
        while await self._every(self.weather.outage_every):
            self.outage = True
            self.trace.note("the store is down")
            await self.sleep(self.chance.choice((0.5, 3.0)))
            self.outage = False
            self.trace.note("the store is up")


async def _serve(call: Question, kernel: Kernel, reply: "asyncio.Future[Any]") -> None:
    try:
        answer = await call(kernel)
    except Exception as error:  # noqa: BLE001 — the caller gets it
        if not reply.done():
            reply.set_exception(error)
    else:
        if not reply.done():
            reply.set_result(answer)


def _time_out(reply: "asyncio.Future[Any]") -> None:
    if not reply.done():
        reply.set_exception(StoreUnavailable(problem="no answer in time"))
