"""Those who use the system: clients that send and retry, operators that stop, preempt and turn gates."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from homeostat.core.codec import from_json
from homeostat.core.errors import (
    AgentBusy,
    BoxNotYours,
    BoxReadOnly,
    GateClosed,
    IdempotencyKeyReused,
    TurnUnknown,
    Unavailable,
)
from homeostat.core.ids import RunId, TurnId, scope_floor
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.core.run_errors import RunClosed, RunHeld
from homeostat.kernel.commands import Enqueue, Enqueued, Idempotency, Stopped
from homeostat.kernel.kernel import Kernel
from homeostat.testing.simulation.process import Process, Question
from homeostat.testing.simulation.script import ask_late, draw_script, payload_of

if TYPE_CHECKING:
    from homeostat.testing.simulation.world import World


class Client:
    """Sends messages and insists, by idempotency key, that each is taken once."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self._name = name
        self._sent: list[tuple[Enqueue, TurnId]] = []

    async def run(self, messages: int, pause_seconds: float) -> None:
        chance = self._world.chance
        for number in range(messages):
            if pause_seconds:
                await self._world.sleep(chance.expovariate(1 / pause_seconds))
            if self._sent and chance.random() < 0.1:
                await self._repeat(*chance.choice(self._sent))
            elif chance.random() < 0.05:
                await self._collide(f"{self._name}-{number}")
            else:
                await self._send(f"{self._name}-{number}")

    def _command(self, tag: str, key: AgentKey, *, idempotent: bool) -> Enqueue:
        world, chance = self._world, self._world.chance
        kind = MessageType.UI_ACTION if chance.random() < 0.1 else MessageType.TURN
        agents: list[str] = [agent for _, agent in world.agents]
        script = draw_script(chance, agents, host=key[1])
        run_id = chance.choice(world.runs) if chance.random() < 0.4 else None
        if run_id is not None and chance.random() < 0.3:
            ask_late(script, chance, agents, host=key[1])
        box = None
        if world.boxes and chance.random() < 0.2:
            box = world.boxes[world.agents.index(key) % len(world.boxes)]
        return Enqueue(
            key=key,
            type=kind,
            payload=payload_of(tag, script),
            output_box_id=box,
            context_box_id=chance.choice(world.boxes) if world.boxes and chance.random() < 0.1 else None,
            run_id=run_id,
            idempotency=Idempotency(tag, f"{key[1]} {tag}") if idempotent else None,
        )

    async def _send(self, tag: str) -> None:
        world, chance = self._world, self._world.chance
        idempotent = chance.random() < 0.7
        world.unique_tags.add(tag)
        command = self._command(tag, chance.choice(world.agents), idempotent=idempotent)
        accepted = await self._insist(command)
        if accepted is not None and idempotent:
            self._sent.append((command, accepted.turn_id))
        if accepted is not None and chance.random() < 0.2:
            world.spawn(self._wait, command, accepted.turn_id)

    async def _insist(self, command: Enqueue) -> Enqueued | None:
        """Send until the answer is known, if the key allows it."""
        world = self._world
        tries = 0
        while True:
            try:
                accepted: Enqueued = await world.rpc(lambda kernel: kernel.enqueue(command))
            except Unavailable:
                if command.idempotency is None:
                    world.trace.count("gave_up_not_knowing")
                    return None
                tries += 1
                await world.sleep(world.chance.uniform(0.01, 1.0))
                continue
            except (AgentBusy, GateClosed):
                world.trace.count("direct_action_refused")
                return None
            except (BoxNotYours, BoxReadOnly):
                world.trace.count("box_refused")
                return None
            except RunClosed:
                world.trace.count("task_of_a_killed_run")
                return None
            except RunHeld:
                world.trace.count("task_of_a_held_run")
                return None
            world.trace.count("idempotent_replay", tries > 0)
            world.trace.count("direct_action_taken", command.type is MessageType.UI_ACTION)
            world.checks.enqueued(from_json(command.payload)["tag"], accepted.turn_id)
            return accepted

    async def _repeat(self, command: Enqueue, turn_id: TurnId) -> None:
        """The same key again, much later: the same answer."""
        accepted = await self._insist(command)
        key = command.idempotency.key if command.idempotency else ""
        if accepted is not None and accepted.turn_id != turn_id and key not in self._world.forgotten_keys:
            self._world.violated("always_a_key_has_one_answer", f"{command.idempotency} {turn_id} {accepted.turn_id}")
        self._world.trace.count("idempotent_repeat")

    async def _collide(self, tag: str) -> None:
        """One key for two different requests to an agent, at the same moment."""
        world, chance = self._world, self._world.chance
        world.unique_tags.add(tag)
        key, process = chance.choice(world.agents), world.some_process()
        for request in ("one thing", "another"):
            command = replace(self._command(tag, key, idempotent=False), idempotency=Idempotency(tag, request))
            world.spawn(self._collide_once, command, process)

    async def _collide_once(self, command: Enqueue, process: Process) -> None:
        try:
            await self._world.rpc(lambda kernel: kernel.enqueue(command), process=process)
        except IdempotencyKeyReused:
            self._world.trace.count("key_reused")
        except (Unavailable, AgentBusy, GateClosed, BoxNotYours, BoxReadOnly, RunClosed, RunHeld):
            return

    async def _wait(self, command: Enqueue, turn_id: TurnId) -> None:
        """Wait for the end through a kernel."""
        world = self._world
        project = command.key[0]
        try:
            found = await world.rpc(lambda kernel: kernel.deliverables.wait(project, turn_id, 30.0), seconds=60.0)
        except Unavailable:
            return
        if found is not None:
            world.trace.count("waited_for_deliverable")
            world.checks.delivered(turn_id, found.card_id)
            if turn_id in world.memory.turns and found != world.memory.end_of(project, turn_id):
                world.violated("always_a_deliverable_reads_the_same", f"{found}")


class Operator:
    """Stops turns, kills runs, preempts agents and turns gates, one agent at a time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._busy: set[AgentKey] = set()
        self._orders = 0

    async def run(self) -> None:
        world = self._world
        while world.storm:
            await world.sleep(world.chance.expovariate(1 / world.weather.operator_every))
            acts = (self._stop, self._stop, self._gate, self._preempt, self._drain, self._box, self._forget, self._kill)
            world.spawn(world.chance.choice((*acts, self._hold)))

    async def surely(self, call: Question) -> Any:
        world = self._world
        while world.storm:
            try:
                return await world.rpc(call)
            except TurnUnknown:
                return None
            except Unavailable:
                await world.sleep(world.chance.uniform(0.05, 1.0))
        return None

    async def _stop(self) -> None:
        world = self._world
        turns = sorted(turn_id for turns in world.checks.open.values() for turn_id in turns)
        if not turns:
            return
        turn_id = world.chance.choice(turns)
        key = world.memory.turns[turn_id].key
        head = world.memory.heads_by_key[key]
        where = head.status.value if head.turn_id == turn_id else "queued"
        stopped: Stopped | None = await self.surely(
            lambda kernel: kernel.stop(key[0], turn_id, reason="enough", actor="operator")
        )
        if stopped is not None and stopped.stopped:
            world.trace.count(f"stopped_{where}")
            world.checks.delivered(turn_id, str(stopped.card_id))

    async def _kill(self) -> None:
        """Kill a run that has work: its gate closes at once, then whoever drives it stops its turns."""
        world = self._world
        if not (alive := self._alive()):
            return
        run_id = world.chance.choice(alive)
        world.memory.closed_runs.add(run_id)
        world.trace.note(f"{run_id} is killed")
        world.trace.count("run_killed")
        for key, head in world.memory.heads_by_key.items():
            waiting = [entry.turn for entry in world.memory.lines.get(key, {}).values()]
            if head.turn_id is not None and head.status is not HeadStatus.RUNNING:
                waiting.append(world.memory.turns[head.turn_id])
            world.trace.count("killed_before_it_began", any(turn.run_id == run_id for turn in waiting))
        await world.sleep(world.chance.choice((0.0, 0.01, 4.0, 20.0)))
        for turn_id in self.killed():
            key = world.memory.turns[turn_id].key
            await self.surely(lambda kernel, key=key, turn_id=turn_id: _end_killed(kernel, key, turn_id))

    async def _hold(self) -> None:
        """Pause a run by force, and resume it. Its gate is all that says so: no kernel is told."""
        world = self._world
        free = [run_id for run_id in self._alive() if run_id not in world.memory.held_runs]
        if not free:
            return
        run_id = world.chance.choice(free)
        world.memory.held_runs.add(run_id)
        world.checks.once_held.add(run_id)
        world.trace.note(f"{run_id} is held")
        world.trace.count("run_held")
        await world.sleep(world.chance.choice((0.0, 0.01, 1.0)))
        turns = sorted(turn_id for turns in world.checks.open.values() for turn_id in turns)
        for turn_id in (turn_id for turn_id in turns if world.memory.turns[turn_id].run_id == run_id):
            key = world.memory.turns[turn_id].key
            await self.surely(lambda kernel, key=key, turn_id=turn_id: kernel.preempt(key, turn_id))
        await world.sleep(world.chance.choice((0.01, 4.0, 20.0)))
        world.memory.held_runs.discard(run_id)
        world.trace.note(f"{run_id} goes on")

    def _alive(self) -> list[RunId]:
        """Runs that have work and were not killed."""
        world = self._world
        running = {world.memory.turns[turn_id].run_id for turns in world.checks.open.values() for turn_id in turns}
        return [run_id for run_id in world.runs if run_id in running and run_id not in world.memory.closed_runs]

    def killed(self) -> list[TurnId]:
        """Turns of killed runs that have not been stopped yet."""
        world = self._world
        left = sorted(turn_id for turns in world.checks.open.values() for turn_id in turns)
        return [turn_id for turn_id in left if world.memory.turns[turn_id].run_id in world.memory.closed_runs]

    def _take(self) -> AgentKey | None:
        free = [key for key in self._world.agents if key not in self._busy]
        if not free:
            return None
        key = self._world.chance.choice(free)
        self._busy.add(key)
        return key

    async def _gate(self) -> None:
        """Close an agent for a while."""
        await self._cycle((Gate.CLOSED,), preempt=False)

    async def _drain(self) -> None:
        """Drain, preempt what is left, close, open again: what quarantine does."""
        await self._cycle((Gate.DRAINING, Gate.CLOSED), preempt=True)

    async def _cycle(self, gates: tuple[Gate, ...], *, preempt: bool) -> None:
        key = self._take()
        if key is None:
            return
        chance = self._world.chance
        for gate in gates:
            await self.surely(self._order(key, gate))
            await self._world.sleep(chance.choice((0.0, 0.01, 1.0)))
            if preempt and gate is Gate.DRAINING:
                await self.surely(lambda kernel: kernel.preempt(key))
        await self._world.sleep(chance.choice((0.01, 1.0, 4.0)))
        await self.surely(self._order(key, Gate.OPEN))
        self._busy.discard(key)

    def _order(self, key: AgentKey, gate: Gate) -> Question:
        """Every order has a reason of its own, so that a commit shows whether the gate was turned in it."""

        def call(kernel: Kernel) -> Awaitable[Gate]:
            self._orders += 1
            return kernel.set_gate(key, gate, f"order {self._orders}")

        return call

    async def _preempt(self) -> None:
        if (key := self._take()) is not None:
            await self.surely(lambda kernel: kernel.preempt(key))
            self._busy.discard(key)

    async def _box(self) -> None:
        """Make a box that turns may use as memory, sometimes a fork of another."""
        world = self._world
        project = world.agents[0][0]
        if world.boxes and world.chance.random() < 0.3:
            source = world.chance.choice(world.boxes)
            box = await self.surely(lambda kernel: kernel.fork_box(project, source))
            world.trace.count("box_forked")
        else:
            drafts = (CardDraft("note", payload_of("box", [])),) * world.chance.choice((0, 1, 2))
            box = await self.surely(lambda kernel: kernel.create_box(project, drafts, None))
        if box is not None:
            world.boxes.append(box)

    async def _forget(self) -> None:
        """What retention does, more often than it would."""
        seconds = self._world.retention_seconds

        def call(kernel: Kernel) -> Awaitable[int]:
            return kernel.store.expire(scope_floor(int(kernel.clock.now_ms() - seconds * 1000)), 10)

        await self.surely(call)

    # --- the end of the storm ------------------------------------------------------------------------------

    async def open_everything(self) -> None:
        """Open the gates that are not."""
        for key in self._world.agents:
            if self._world.memory.heads_by_key[key].gate is not Gate.OPEN:
                await self._world.rpc(self._order(key, Gate.OPEN))

    async def finish_killed(self) -> None:
        """Stop what is left of killed runs, as the next driver of such a run would."""
        for turn_id in self.killed():
            key = self._world.memory.turns[turn_id].key
            await self._world.rpc(lambda kernel, key=key, turn_id=turn_id: _end_killed(kernel, key, turn_id))


async def _end_killed(kernel: Kernel, key: AgentKey, turn_id: TurnId) -> None:
    await kernel.stop(key[0], turn_id, reason="its run was killed", actor="driver")
