"""Processes that are killed: workers that act out what their turns ask for, clients that note what they were told."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.app.local_turns import LocalTurns
from homeostat.app.stores import open_engine, turn_store
from homeostat.app.supervisor import Supervisor
from homeostat.core.codec import Json, to_json
from homeostat.core.errors import StaleEpoch, Unavailable
from homeostat.core.ids import AgentId, Chance, ProjectId, ToolCallId, TurnId, digest_of
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey, Grant, MessageType, ToolCall, WaitStatus
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.records.work import Ask, Fence
from homeostat.kernel.commands import Enqueue, Idempotency, Reported
from homeostat.kernel.kernel import Kernel

T = TypeVar("T")

PROJECT = ProjectId("faults")
SCRIPTS: tuple[list[str], ...] = (
    [],
    ["step a", "nap", "step b", "nap", "step c"],
    ["nap", "step a", "tool", "step b"],
    ["step a", "ask", "nap", "step b"],
    ["two tools", "step a"],
)
CALLS: Mapping[str, tuple[ToolCallId, ...]] = {
    "tool": (ToolCallId("tool"),),
    "two tools": (ToolCallId("one"), ToolCallId("other")),
}
TOOL_SECONDS = 0.7
LATE_SECONDS = (0.8, 1.2)
PLAIN_SHARE = 0.4
LATE_SHARE = 0.1
REPEATED_SHARE = 0.3
ALSO_SHARE = 0.3
AGENTS = 12


def agents(count: int) -> list[AgentKey]:
    return [(PROJECT, AgentId(f"agent-{number}")) for number in range(count)]


class Journal:
    """Lines that are in the file when `note` returns, whatever becomes of the process that wrote them.

    A kill can fall in the middle of a line, so processes that are killed share no file; who is given the number and
    with it the file of one that was killed begins behind the last line that is whole.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        said = path.read_bytes()
        if (whole := said.rfind(b"\n") + 1) < len(said):
            os.ftruncate(self._file, whole)

    def note(self, **entry: object) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")


@asynccontextmanager
async def kernel_on(store_url: str, bus_url: str | None, lease_seconds: float) -> AsyncGenerator[Kernel]:
    """A kernel with connections and loops of its own; raises `Unavailable` while its store is away."""
    async with AsyncExitStack() as stack:
        engine = await open_engine(store_url)
        stack.push_async_callback(engine.close)
        bus: Bus = await NatsBus.connect(bus_url) if bus_url else LocalBus()
        stack.push_async_callback(bus.close)
        kernel = Kernel(store=turn_store(engine), bus=bus, lease_seconds=lease_seconds)
        await kernel.listen()
        supervisor = Supervisor(clock=kernel.clock)
        stack.push_async_callback(supervisor.stop)
        for title, run in kernel.loops:
            supervisor.add(title, run)
        yield kernel


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat what got no answer."""
    while True:
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(0.05)


# --- workers -----------------------------------------------------------------------------------------------------


class Worker:
    """Acts out turns. Its effects are lines in a file, one per time a step really ran."""

    def __init__(self, kernel: Kernel, folder: Path, chance: Chance) -> None:
        self._kernel = kernel
        self._chance = chance
        self._journal = Journal(folder / f"told-{os.getpid()}.jsonl")
        self._effects = Journal(folder / f"effects-{os.getpid()}.jsonl")
        self._tasks: dict[TurnId, asyncio.Task[None]] = {}
        self._others: list[AgentKey] = []
        self._also: Sequence[AgentKey] = ()
        self.session: WorkerSession

    def revoked(self, fence: Fence) -> None:
        task = self._tasks.get(fence.turn_id)
        if task is not None:
            task.cancel()
            self._lost(fence.turn_id)

    def _lost(self, turn_id: TurnId) -> None:
        """A turn is somebody else's by now: who stood still has to hear of it."""
        self._journal.note(lost=turn_id, by=os.getpid(), at=self._kernel.clock.monotonic())

    async def run(self, hosted: list[AgentKey], also: Sequence[AgentKey] = ()) -> None:
        """Serve those who are `hosted` and `also` these, who are asked more often, as they may be isolated."""
        self._others, self._also = hosted, also
        self.session = await insist(lambda: LocalTurns(self._kernel).open([*hosted, *also], self.revoked))
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                for grant in await insist(lambda: self.session.claim(8, 5.0)):
                    self._begin(grant)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        pause = self.session.lease_seconds / 3
        while True:
            with suppress(Unavailable):
                await self.session.renew()
            await asyncio.sleep(pause)

    def _begin(self, grant: Grant) -> None:
        turn_id, at = grant.turn.turn_id, self._kernel.clock.monotonic()
        self._journal.note(begun=turn_id, agent=grant.turn.agent_id, by=os.getpid(), at=at)
        self._tasks[turn_id] = task = asyncio.create_task(self._act(grant))
        task.add_done_callback(lambda done: self._ended(turn_id, done))

    def _ended(self, turn_id: TurnId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(turn_id) is task:
            del self._tasks[turn_id]
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StaleEpoch):
            self._lost(turn_id)
        else:
            self._journal.note(broken=turn_id, error=repr(error))

    async def _act(self, grant: Grant) -> None:
        payload = json.loads(grant.turn.payload)
        hydration = await insist(lambda: self.session.hydrate(grant))
        for action in payload["script"]:
            if not await self._do(grant, hydration, action):
                return
        result = to_json({"id": payload["id"], "epoch": grant.epoch})
        delivered = await insist(
            lambda: self.session.deliver(grant, status=Outcome.SUCCESS, result=result, claim_next=True)
        )
        at = self._kernel.clock.monotonic()
        self._journal.note(end=grant.turn.turn_id, card=delivered.card_id, agent=grant.turn.agent_id, at=at)
        if delivered.next is not None:
            self._begin(delivered.next)

    async def _do(self, grant: Grant, hydration: Hydration, action: str) -> bool:
        """Act; False if the turn was left waiting and is no longer ours."""
        if action == "nap":
            await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        elif action.startswith("step"):
            if action not in hydration.steps:
                await self._step(grant, action)
        else:
            answered = {wait.call_id for wait in grant.waits if wait.status is not WaitStatus.PENDING}
            if not answered.issuperset(CALLS.get(action, (ToolCallId(action),))):
                return await self._wait(grant, action)
        return True

    async def _step(self, grant: Grant, name: str) -> None:
        token = self._kernel.ids.scope()
        self._effects.note(turn=grant.turn.turn_id, step=name, epoch=grant.epoch, token=token)
        outcome = to_json({"epoch": grant.epoch, "token": token})
        await insist(lambda: self.session.step(grant, name, outcome))
        self._journal.note(step=name, turn=grant.turn.turn_id, outcome=outcome)

    async def _wait(self, grant: Grant, action: str) -> bool:
        if action in CALLS:
            calls = tuple(
                ToolCall(call_id, "echo", Json("{}"), timeout_seconds=TOOL_SECONDS) for call_id in CALLS[action]
            )
            suspended = await insist(lambda: self.session.suspend(grant, calls))
        else:
            asked = self._also if self._also and self._chance.random() < ALSO_SHARE else self._others
            others = [key for key in asked if key[1] != grant.turn.agent_id]
            child = to_json({"id": f"child of {grant.turn.turn_id}", "script": ["step a"]})
            ask = Ask(
                call_id=ToolCallId(action), agent_id=self._chance.choice(others)[1], payload=child, timeout_seconds=3.0
            )
            suspended = await insist(lambda: self.session.suspend(grant, asks=(ask,)))
        return suspended.ready


# --- clients -----------------------------------------------------------------------------------------------------


class Client:
    """Sends messages, stops some, answers tools, and notes what it was told."""

    def __init__(
        self, kernel: Kernel, folder: Path, chance: Chance, stopping: asyncio.Event, messages: int | None = None
    ) -> None:
        self._kernel = kernel
        self._messages = messages
        self._sent: list[TurnId] = []
        self._chance = chance
        self._journal = Journal(folder / f"told-{os.getpid()}.jsonl")
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = stopping

    async def run(self, hosted: list[AgentKey], streams: int) -> None:
        for key in hosted:
            await insist(lambda key=key: self._kernel.register(key))
        await asyncio.gather(*(self._stream(hosted, number) for number in range(streams)))
        for turn_id in self._sent if self._messages is not None else ():
            while not await self._see(turn_id) and not self._stopping.is_set():
                pass

    async def _stream(self, hosted: list[AgentKey], stream: int) -> None:
        number = 0
        while not self._stopping.is_set() and number != self._messages:
            number += 1
            name = f"{os.getpid()}:{stream}:{number}"
            script = [] if self._chance.random() < PLAIN_SHARE else self._chance.choice(SCRIPTS)
            payload = to_json({"id": name, "script": script})
            command = Enqueue(
                key=self._chance.choice(hosted),
                type=MessageType.TURN,
                payload=payload,
                idempotency=Idempotency(name, digest_of(payload)),
            )
            accepted = await self._insist(lambda command=command: self._kernel.enqueue(command))
            if accepted is None:
                return
            self._journal.note(turn=accepted.turn_id, payload=payload)
            self._sent.append(accepted.turn_id)
            for action in CALLS.keys() & set(script):
                self._spawn(self._answer(accepted.turn_id, CALLS[action]))
            if self._chance.random() < 0.1:
                await self._stop(accepted.turn_id)
            elif self._chance.random() < 0.7:
                await self._see(accepted.turn_id)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T | None:
        while not self._stopping.is_set():
            with suppress(Unavailable):
                return await call()
            await asyncio.sleep(0.05)
        return None

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _see(self, turn_id: TurnId) -> bool:
        """Read the end, if it comes soon; whether it did."""
        end = await self._insist(lambda: self._kernel.deliverables.wait(PROJECT, turn_id, 1.0))
        if end is not None:
            self._journal.note(end=turn_id, card=end.card_id)
        return end is not None

    async def _stop(self, turn_id: TurnId) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        stopped = await self._insist(lambda: self._kernel.stop(PROJECT, turn_id, reason="a test", actor="a client"))
        if stopped is not None and stopped.card_id is not None:
            self._journal.note(end=turn_id, card=stopped.card_id)

    async def _answer(self, turn_id: TurnId, call_ids: Sequence[ToolCallId]) -> None:
        """Be a tool service of the worst kind: answers come in any order, too late, and more than once."""
        order = self._chance.sample(call_ids, len(call_ids))
        if order != list(call_ids):
            self._journal.note(seen="results out of order")
        for call_id in order:
            if late := self._chance.random() < LATE_SHARE:
                await asyncio.sleep(self._chance.uniform(*LATE_SECONDS))
            accepted = await self._bring(turn_id, call_id)
            if late and not accepted:
                self._journal.note(seen="results that came too late")
            if accepted and self._chance.random() < REPEATED_SHARE:
                again = await self._report(turn_id, call_id, "another answer")
                if again is not None and again.accepted:
                    self._journal.note(broken=turn_id, error=f"the result of {call_id} was taken in twice")
                self._journal.note(seen="results repeated")

    async def _bring(self, turn_id: TurnId, call_id: ToolCallId) -> bool:
        """Until it is taken in, or nobody wants it any more."""
        for attempt in range(40):
            reported = await self._report(turn_id, call_id, "answer")
            if reported is None:
                return False
            if reported.accepted:
                assert reported.result_card_id is not None
                self._journal.note(result=call_id, turn=turn_id, card=reported.result_card_id)
                return True
            await asyncio.sleep(min(0.05 * (attempt + 1), 0.3))
        return False

    async def _report(self, turn_id: TurnId, call_id: ToolCallId, answer: str) -> Reported | None:
        return await self._insist(
            lambda: self._kernel.report(PROJECT, turn_id, call_id, status=WaitStatus.SUCCESS, result=to_json(answer))
        )


# --- what runs ---------------------------------------------------------------------------------------------------


async def serve(arguments: argparse.Namespace) -> None:
    chance = Chance(arguments.seed)
    while True:
        try:
            async with kernel_on(arguments.store, arguments.bus, arguments.lease) as kernel:
                await act(arguments, kernel, chance)
                return
        except Unavailable:
            await asyncio.sleep(0.05)


async def act(arguments: argparse.Namespace, kernel: Kernel, chance: Chance) -> None:
    hosted = agents(arguments.agents)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    if arguments.bus is None:
        heard = Journal(arguments.folder / "heard.jsonl")

        async def hear(event: Event) -> None:
            heard.note(id=event.event_id, target=event.target, payload=event.payload)

        await kernel.bus.subscribe(subject(PROJECT, Channel.EVT, "agent", "*", "task"), hear)
    work: list[asyncio.Task[None]] = []
    if arguments.role in ("client", "both"):
        client = Client(kernel, arguments.folder, chance, stopping, arguments.messages)
        work.append(asyncio.create_task(client.run(hosted, arguments.streams)))
    if arguments.role in ("worker", "both"):
        also = [(PROJECT, AgentId(name)) for name in arguments.also]
        work.append(asyncio.create_task(Worker(kernel, arguments.folder, chance).run(hosted, also)))
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait([waiting, *work], return_when=asyncio.FIRST_COMPLETED)
    for task in work:
        if task.done():
            task.result()
        task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["worker", "client", "both"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--bus")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--messages", type=int, help="of each stream; then all is over when all have come to an end")
    parser.add_argument("--also", nargs="*", default=[], help="agents that a worker hosts besides")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
