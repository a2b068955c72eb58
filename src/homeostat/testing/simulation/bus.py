"""A bus that loses, repeats, delays and reorders; what it took of an outbox it took for good."""

import asyncio
from typing import TYPE_CHECKING

from homeostat.core.errors import BusUnavailable
from homeostat.core.ports.bus import Handler
from homeostat.core.records.event import Event
from homeostat.testing.simulation.trace import Violation

if TYPE_CHECKING:
    from homeostat.testing.simulation.process import Process
    from homeostat.testing.simulation.world import World


class FaultyBus:
    """What lies between the processes."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._listeners: dict[str, list[tuple[Process, Handler]]] = {}

    def listen(self, process: "Process", pattern: str, handler: Handler) -> None:
        self._listeners.setdefault(pattern.rsplit(".", 1)[1], []).append((process, handler))

    def leave(self, process: "Process") -> None:
        for listeners in self._listeners.values():
            listeners[:] = [entry for entry in listeners if entry[0] is not process]

    def take(self, event: Event) -> None:
        """An event was handed over."""
        world = self._world
        if event.component == "tool":
            for _ in range(self._copies()):
                world.loop.call_later(self._delay(), world.tools.called, event, context=world.context)
            return
        if event.suffix == "task":
            world.checks.announce(event)
        elif event.suffix == "step":
            world.checks.announce_step(event)
        for process, handler in self._listeners.get(event.suffix, ()):
            if world.weather.bus_loses and world.chance.random() < world.weather.bus_loses:
                world.trace.count("lost_doorbell")
                continue
            for _ in range(self._copies()):
                world.loop.call_later(self._delay(), self._ring, process, handler, event, context=world.context)

    def _ring(self, process: "Process", handler: Handler, event: Event) -> None:
        if process.domain.alive:
            process.begin(handler, event)

    def _copies(self) -> int:
        repeats = self._world.weather.bus_repeats
        if repeats and self._world.chance.random() < repeats:
            self._world.trace.count("repeated_event")
            return 2
        return 1

    def _delay(self) -> float:
        world = self._world
        if world.weather.bus_delays and world.chance.random() < world.weather.bus_delays:
            return world.chance.uniform(0.05, 4.0)
        return world.chance.random() * 0.003


class BusEnd:
    """The bus as one process holds it."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._world = process.world
        self._watched = self._world.chance.random() < 0.2

    async def publish(self, events: tuple[Event, ...]) -> None:
        world = self._world
        reply = world.loop.create_future()
        world.loop.call_later(world.chance.random() * 0.001, self._carry_out, reply, events, context=world.context)
        await reply

    def _carry_out(self, reply: "asyncio.Future[None]", events: tuple[Event, ...]) -> None:
        world = self._world
        unsure = world.weather.bus_refuses and world.chance.random() < world.weather.bus_refuses
        if not unsure or world.chance.random() < 0.5:
            try:
                for event in events:
                    world.bus.take(event)
            except Violation as violation:
                world.fail(violation)
        if not reply.done():
            if unsure:
                world.trace.count("bus_error")
                reply.set_exception(BusUnavailable(problem="no answer"))
            else:
                reply.set_result(None)

    def wanted(self, suffix: str) -> bool:
        return suffix != "state" or self._watched

    async def subscribe(self, pattern: str, handler: Handler) -> "BusEnd":
        self._world.bus.listen(self._process, pattern, handler)
        return self

    async def cancel(self) -> None:
        self._world.bus.leave(self._process)

    async def close(self) -> None:
        self._world.bus.leave(self._process)
