"""Stands between an agent and its own hooks: counts them, holds them, breaks them."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from homeostat.agent.managed import ManagedAgent
from homeostat.agent.protocol import AgentLifecycleProtocol, ProcessingAgent

PATIENCE_SECONDS = 10.0
"""How long a check waits for what it is promised; only a broken promise ever takes this long."""


class PromiseBroken(AssertionError):
    """An agent did not do what the contract says."""


class NotApplicable(Exception):
    """The agent has nothing that this check could look at."""


def promise(words: str, *, held: bool) -> None:
    if not held:
        raise PromiseBroken(words)


class Hook:
    """One instrumented hook: how often it ran, and what the next runs do."""

    def __init__(self) -> None:
        self.runs = 0
        self.entered = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.failures: list[BaseException] = []

    def fail(self, error: BaseException) -> None:
        """Let every run from here on end with this error."""
        self.failures = [error] * 1_000

    def hold(self) -> None:
        """Let the next runs wait until `let_go`."""
        self.gate = asyncio.Event()

    async def reached(self, *calls: asyncio.Task[Any]) -> None:
        """Wait until the hook is entered, or until a call ended that should have led there."""
        entering = asyncio.ensure_future(self.entered.wait())
        await asyncio.wait([entering, *calls], return_when=asyncio.FIRST_COMPLETED)
        entering.cancel()

    def let_go(self) -> None:
        if self.gate is not None:
            self.gate.set()

    async def pass_through(self) -> None:
        self.runs += 1
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)


class Probe:
    """An agent with its hooks under control."""

    def __init__(self, agent: AgentLifecycleProtocol) -> None:
        self.agent = agent
        self.startup = Hook()
        self.shutdown = Hook()
        self.request = Hook()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def watch_startup(self) -> Hook:
        self._instrument("_do_startup", self.startup)
        return self.startup

    def watch_shutdown(self) -> Hook:
        self._instrument("_do_shutdown", self.shutdown)
        return self.shutdown

    def watch_request(self) -> Hook:
        """Replace what the agent works on by something that does as it is told."""
        if isinstance(self.agent, ManagedAgent):
            hook = self.request

            async def process(agent: ManagedAgent, request: object) -> object:
                del agent
                await hook.pass_through()
                return request

            kind = type(self.agent)
            self.agent.__class__ = cast("type[ManagedAgent]", type(kind.__name__, (kind,), {"process": process}))
            return hook
        self._instrument("_do_process", self.request)
        return self.request

    def _instrument(self, name: str, hook: Hook) -> None:
        original: Callable[..., Any] | None = getattr(self.agent, name, None)
        is_async = inspect.iscoroutinefunction(original)
        if original is None or not (is_async or isinstance(self.agent, ManagedAgent)):
            raise NotApplicable(f"{type(self.agent).__name__} has no coroutine {name}()")

        async def watched(*args: Any, **named: Any) -> Any:
            await hook.pass_through()
            if is_async:
                return await original(*args, **named)
            return await asyncio.to_thread(original, *args, **named)

        try:
            setattr(self.agent, name, watched)
        except AttributeError:
            raise NotApplicable(f"{name}() of {type(self.agent).__name__} cannot be watched") from None

    def processing(self) -> ProcessingAgent:
        if not isinstance(self.agent, ProcessingAgent):
            raise NotApplicable(f"{type(self.agent).__name__} has no process()")
        return self.agent


class Subject:
    """What is examined: makes agents, and sees that each one made is ended."""

    def __init__(self, make: Callable[[], AgentLifecycleProtocol]) -> None:
        self._make = make
        self._made: list[Probe] = []

    def agent(self) -> Probe:
        agent = self._make()
        if not isinstance(agent, AgentLifecycleProtocol):  # pyright: ignore[reportUnnecessaryIsInstance] - it may be anything
            wanted = ("startup", "shutdown", "get_state", "get_metrics", "owns_state")
            missing = ", ".join(name for name in wanted if not hasattr(agent, name))
            raise PromiseBroken(f"{type(agent).__name__} is no AgentLifecycleProtocol: it lacks {missing}")
        probe = Probe(agent)
        self._made.append(probe)
        return probe

    async def end(self) -> None:
        for probe in self._made:
            for hook in (probe.startup, probe.shutdown, probe.request):
                hook.failures.clear()
                hook.let_go()
            with suppress(Exception):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await probe.agent.shutdown()


def together(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start calls side by side, in this order."""
    return [asyncio.get_running_loop().create_task(call) for call in calls]


async def outcomes(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """What each became: a value or the error it raised."""
    return await asyncio.gather(*tasks, return_exceptions=True)


async def settle() -> None:
    """Let everything that can go on do so, work in threads included: that it would is what a check rules out."""
    for pause in (0.0, 0.02, 0.02):
        await asyncio.sleep(pause)
        for _ in range(20):
            await asyncio.sleep(0)
