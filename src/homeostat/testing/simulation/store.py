"""The store as a process sees it over a network: slow, unsure, sometimes silent; what it committed stays committed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from homeostat.core.errors import StoreUnavailable
from homeostat.core.records.run import GateState
from homeostat.core.records.writes import Writes
from homeostat.testing.desk import complete
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.simulation.checks import Before
from homeostat.testing.simulation.trace import Violation

if TYPE_CHECKING:
    from homeostat.testing.simulation.process import Process


class RemoteStore:
    """Forwards every call to the store in memory. The call is carried out even if its caller dies meanwhile."""

    lanes = 2

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._world = process.world

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._call(name, args, kwargs)

        return call

    async def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        world = self._world
        reply = world.loop.create_future()
        delay = world.chance.random() * 0.002
        if world.weather.store_slow and world.chance.random() < world.weather.store_slow:
            delay = world.chance.uniform(0.1, 5.0)
        world.loop.call_later(delay, self._carry_out, reply, name, args, kwargs, context=world.context)
        return await reply

    def _carry_out(
        self, reply: "asyncio.Future[Any]", name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        world, weather = self._world, self._world.weather
        refused = world.outage or (weather.store_refuses and world.chance.random() < weather.store_refuses)
        error: Exception | None = None
        answer: Any = None
        if refused:
            world.trace.count("store_error_before_commit", name == "save")
            error = StoreUnavailable(problem="refused")
        else:
            try:
                answer = self._perform(name, args, kwargs)
            except Violation as violation:
                world.fail(violation)
            except Exception as problem:  # noqa: BLE001 — the caller gets it, as it would from a driver
                error = problem
            if name == "save" and self._lost_answer(answer):
                world.trace.count("store_error_after_commit")
                error = StoreUnavailable(problem="no answer")
        if not reply.done():
            if error is not None:
                reply.set_exception(error)
            else:
                reply.set_result(answer)

    def _lost_answer(self, answer: Any) -> bool:
        """After a commit its caller may hear nothing of it, or die before it does."""
        world, weather = self._world, self._world.weather
        if answer is None or not answer.ok:
            return False
        if weather.crash_after_commit and world.chance.random() < weather.crash_after_commit:
            world.trace.count("crash_right_after_commit")
            self._process.crash()
        return bool(weather.store_forgets_to_answer and world.chance.random() < weather.store_forgets_to_answer)

    def _perform(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        store = self._world.memory
        if name == "save":
            return self._save(store, *args)
        if name == "expire":
            held, answers = set(store.turns), set(store.answers)
            removed = complete(store.expire(*args, **kwargs))
            self._world.forgotten_keys.update(key.rpartition(" ")[2] for _, key in answers - set(store.answers))
            self._world.checks.forgotten(held - set(store.turns), args[0])
            self._world.trace.count("retention", removed)
            return removed
        return complete(getattr(store, name)(*args, **kwargs))

    def _save(self, store: MemoryTurns, writes: Writes) -> Any:
        before: Before = {key: store.heads_by_key.get(key) for key in (*writes.heads, *writes.new_heads)}
        saved = complete(store.save(writes))
        if saved.stale:
            self._world.trace.count("stale_swap")
        elif saved.answered:
            self._world.trace.count("key_taken_meanwhile")
        elif saved.refused:
            for _, gate in saved.refused:
                self._world.trace.count("killed_run_refused" if gate is GateState.CLOSED else "held_run_refused")
        else:
            self._world.observer.committed(self._process, writes, before)
            self._world.checks.committed(writes, before)
        return saved
