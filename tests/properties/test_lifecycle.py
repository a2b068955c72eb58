"""However startups, requests, pauses, cancellations and shutdowns fall together, an agent keeps to its table."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from homeostat import AgentState, FatalError, LifecycleConfig, ManagedAgent, RecoverableError, StartupError
from homeostat.agent.errors import RequestInterrupted
from homeostat.core.errors import IllegalTransition
from homeostat.core.machines.agent import AGENT

CONFIG = LifecycleConfig(timeout_seconds=5, retry_on_failure=True, max_retries=1)
EXPECTED = (StartupError, IllegalTransition, RequestInterrupted, RecoverableError, FatalError, asyncio.CancelledError)


class Scripted(ManagedAgent):
    """Takes as many turns of the loop for everything as it is told to, and counts."""

    def __init__(self, *, ticks: int, failures: int, light: bool) -> None:
        self.ticks = ticks
        self.failures = failures
        self.opened = self.closed = self.active = self.active_most = 0
        self.after_the_end: list[str] = []
        if light:  # an agent without hooks of its own lives without a task of its own
            self._do_startup = ManagedAgent._do_startup.__get__(self)
            self._do_shutdown = ManagedAgent._do_shutdown.__get__(self)

    async def _do_startup(self, config: LifecycleConfig) -> None:
        self.opened += 1
        await self._work()
        if self.failures:
            self.failures -= 1
            raise OSError("not yet")

    async def _do_shutdown(self, timeout_seconds: float) -> None:
        self.closed += 1
        await self._work()

    async def process(self, request: Any) -> Any:
        self.active += 1
        self.active_most = max(self.active, self.active_most)
        try:
            await self._work()
            if isinstance(request, Exception):
                raise request
            return request
        finally:
            self.active -= 1

    async def _work(self) -> None:
        for _ in range(self.ticks):
            await asyncio.sleep(0)
            if self.get_state() is AgentState.TERMINATED:
                self.after_the_end.append("work")


class Witness:
    """Hears of every transition."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        await asyncio.sleep(0)
        self.heard.append((str(facts["previous"]), state))


ACTS = st.sampled_from(["startup", "startup", "shutdown", "work", "work", "recoverable", "fatal", "pause", "resume"])
PLANS = st.lists(st.tuples(st.integers(0, 4), ACTS, st.none() | st.integers(0, 6)), min_size=1, max_size=12)


@settings(max_examples=300)
@given(plan=PLANS, ticks=st.integers(0, 3), failures=st.integers(0, 2), light=st.booleans())
async def test_an_agent_keeps_to_its_table(
    plan: list[tuple[int, str, int | None]], ticks: int, failures: int, *, light: bool
) -> None:
    """Each act begins some turns of the loop after the last; some are cancelled some turns later."""
    agent, witness = Scripted(ticks=ticks, failures=failures, light=light), Witness()
    agent.bind(emitter=witness)
    before = asyncio.all_tasks()
    acts: list[asyncio.Task[Any]] = []
    for delay, act, patience in plan:
        for _ in range(delay):
            await asyncio.sleep(0)
        acts.append(asyncio.create_task(_act(agent, act)))
        if patience is not None:
            for _ in range(patience):
                await asyncio.sleep(0)
            acts[-1].cancel()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*acts, return_exceptions=True)
        await agent.resume() if agent.get_state() is AgentState.PAUSED else None
        await agent.shutdown()
    assert [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, EXPECTED)] == []
    assert agent.get_state() is AgentState.TERMINATED
    assert agent.active_most <= 1, "one request at a time"
    assert agent.after_the_end == []
    if not light:
        assert agent.closed == 1, "cleaned up once"
        assert agent.opened <= 2, "one startup of two attempts"
    legal = {(row.state.value, row.target.value) for row in AGENT.rows}
    assert set(witness.heard) <= legal
    chain = [AGENT.initial.value, *(state for _, state in witness.heard)]
    assert [previous for previous, _ in witness.heard] == chain[:-1], "told in order, and none left out"
    assert chain[-1] == "terminated"
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set(), "nothing is left running"


async def _act(agent: ManagedAgent, act: str) -> Any:
    match act:
        case "startup":
            return await agent.startup(CONFIG)
        case "shutdown":
            return await agent.shutdown()
        case "pause":
            return await agent.pause()
        case "resume":
            return await agent.resume()
        case "recoverable":
            return await agent.process(RecoverableError("again"))
        case "fatal":
            return await agent.process(FatalError("broken"))
        case _:
            return await agent.process(act)
