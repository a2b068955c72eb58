"""What `ManagedAgent` does beyond what the compliance kit can ask of any agent."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from homeostat import (
    AgentState,
    FatalError,
    LifecycleConfig,
    ManagedAgent,
    RecoverableError,
    StartupError,
    StateOwnership,
    StateViolationError,
    agent_lifecycle,
    requires_state,
)
from homeostat.agent.errors import RequestInterrupted, StateRequired
from homeostat.agent.memory import VolatileMemory
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import IllegalTransition, MalformedPayload, SettingInvalid
from homeostat.core.ids import DEFAULT_PROJECT, AgentId

S = AgentState


class Recorder(ManagedAgent):
    """Writes down what happens to it, and calls no `super().__init__`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def _do_startup(self, config: LifecycleConfig) -> None:
        self.seen.append("startup")

    async def _do_shutdown(self, timeout_seconds: float) -> None:
        self.seen.append(f"shutdown {timeout_seconds}")

    async def process(self, request: Any) -> Any:
        self.entered.set()
        if isinstance(request, Exception):
            raise request
        if request == "wait":
            await self.gate.wait()
        return self.get_state()


# --- startup and shutdown ----------------------------------------------------------------------------------


async def test_hooks_run_in_order_and_know_their_time() -> None:
    agent = Recorder()
    await agent.startup()
    await agent.shutdown(2.5)
    assert agent.seen == ["startup", "shutdown 2.5"]


async def test_the_context_manager_shuts_down_after_an_error() -> None:
    agent = Recorder()
    with pytest.raises(KeyError):
        async with agent:
            raise KeyError("inside")
    assert agent.get_state() is S.TERMINATED


async def test_agent_lifecycle_shuts_down_what_did_not_start() -> None:
    class Broken(Recorder):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            raise OSError("no network")

    agent = Broken()
    with pytest.raises(StartupError, match="no network") as raised:
        async with agent_lifecycle(agent, LifecycleConfig(cleanup_on_error=False)):
            raise AssertionError("it never gets here")
    assert isinstance(raised.value.__cause__, OSError)
    assert agent.get_state() is S.TERMINATED
    assert agent.seen == ["shutdown 30.0"]


async def test_a_hook_that_ignores_its_cancellation_is_left_behind() -> None:
    class Stubborn(Recorder):
        release = False

        async def _do_startup(self, config: LifecycleConfig) -> None:
            while not self.release:
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    continue

    agent = Stubborn()
    with pytest.raises(StartupError, match="ignored it"):
        await agent.startup(LifecycleConfig(timeout_seconds=0.02))
    assert agent.get_state() is S.TERMINATED
    assert agent.seen == ["shutdown 0.02"], "the rollback does not wait for it"
    agent.release = True
    agent.gate.set()


async def test_a_clean_up_that_ignores_its_cancellation_is_left_behind() -> None:
    class Stubborn(Recorder):
        release = False

        async def _do_shutdown(self, timeout_seconds: float) -> None:
            while not self.release:
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    continue

    agent = Stubborn()
    await agent.startup()
    await agent.shutdown(0.02)
    assert agent.get_state() is S.TERMINATED
    agent.release = True
    agent.gate.set()


async def test_the_shortest_time_any_caller_gave_counts() -> None:
    class Slow(Recorder):
        async def _do_shutdown(self, timeout_seconds: float) -> None:
            self.entered.set()
            await self.gate.wait()

    agent = Slow()
    await agent.startup()
    patient = asyncio.create_task(agent.shutdown(3600))
    await agent.entered.wait()
    await agent.shutdown(0.01)
    assert agent.get_state() is S.TERMINATED
    await patient


async def test_resources_are_closed_after_a_failed_attempt_and_at_the_end() -> None:
    log: list[str] = []
    numbers: Iterator[int] = iter(range(9))

    @asynccontextmanager
    async def connection() -> AsyncGenerator[int]:
        number = next(numbers)
        log.append(f"open {number}")
        opened_by = asyncio.current_task()
        yield number
        assert asyncio.current_task() is opened_by, "whoever entered it leaves it"
        log.append(f"close {number}")

    class Connected(ManagedAgent):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            if await self.resources.enter_async_context(connection()) < 2:
                raise OSError("not yet")

    agent = Connected(LifecycleConfig(retry_on_failure=True, max_retries=5))
    await agent.startup()
    assert log == ["open 0", "close 0", "open 1", "close 1", "open 2"]
    assert agent.get_metrics().retries == 2
    await agent.shutdown()
    assert log[-1] == "close 2"


async def test_a_fatal_error_is_not_retried() -> None:
    class Hopeless(Recorder):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            self.seen.append("attempt")
            raise FatalError("wrong password")

    agent = Hopeless()
    with pytest.raises(StartupError):
        await agent.startup(LifecycleConfig(retry_on_failure=True))
    assert agent.seen.count("attempt") == 1


async def test_a_caller_that_is_cancelled_does_not_take_the_others_along() -> None:
    class Slow(Recorder):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            self.entered.set()
            await self.gate.wait()

    agent = Slow()
    first, second = asyncio.create_task(agent.startup()), asyncio.create_task(agent.startup())
    await agent.entered.wait()
    first.cancel()
    agent.gate.set()
    await second
    assert agent.get_state() is S.READY
    await agent.shutdown()


def test_an_agent_left_running_is_cleaned_up_when_the_loop_closes() -> None:
    agents: list[Recorder] = []

    async def main() -> None:
        agents.append(Recorder())
        await agents[0].startup()

    asyncio.run(main())
    assert agents[0].get_state() is S.TERMINATED
    assert agents[0].seen == ["startup", "shutdown 30.0"]


class Light(ManagedAgent):
    async def process(self, request: Any) -> Any:
        return request


async def test_an_agent_without_hooks_holds_no_task_and_still_ends() -> None:
    before = asyncio.all_tasks()
    agents = [Light() for _ in range(50)]
    await asyncio.gather(*(agent.startup() for agent in agents))
    heavy = Recorder()
    await heavy.startup()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks() - before) == 1, "only the agent that has something to clean up keeps its home"
    await agents[0].startup()
    assert await agents[0].process(1) == 1
    agents[0].set_state("_x", 1)
    await asyncio.gather(heavy.shutdown(), *(agent.shutdown() for agent in agents for _ in range(2)))
    assert {agent.get_state() for agent in agents} == {S.TERMINATED}
    assert agents[0].get_state("_x") is None
    with pytest.raises(StartupError, match="terminated"):
        await agents[0].startup()


async def test_a_hookless_agent_saves_its_memory_when_it_ends() -> None:
    keeper = VolatileMemory()
    agent = Light()
    agent.bind(agent_id="light", memory=keeper)
    await agent.startup()
    agent.memory.update("history", [1])
    await agent.shutdown()
    assert await keeper.recall(("default", "light")) == {"history": "[1]"}  # pyright: ignore[reportArgumentType]


async def test_a_hook_may_call_shutdown_and_not_startup() -> None:
    class Inward(Recorder):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            with pytest.raises(StartupError, match="wait for itself"):
                await self.startup()
            await self.shutdown()
            await asyncio.Event().wait()

        async def _do_shutdown(self, timeout_seconds: float) -> None:
            await self.shutdown()
            self.seen.append("cleaned")

    agent = Inward()
    with pytest.raises(StartupError):
        await agent.startup()
    assert agent.get_state() is S.TERMINATED
    assert agent.seen == ["cleaned"]


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, 0.0, float("inf")])
async def test_shutdown_takes_any_time_it_is_given(seconds: float) -> None:
    agent = Recorder()
    await agent.startup()
    await agent.shutdown(seconds)
    assert agent.get_state() is S.TERMINATED


@pytest.mark.parametrize("wrong", [{"timeout_seconds": 0.0}, {"timeout_seconds": float("inf")}, {"max_retries": -1}])
def test_a_configuration_says_what_is_wrong_with_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingInvalid, match=next(iter(wrong))):
        LifecycleConfig(**wrong)


# --- plain functions ---------------------------------------------------------------------------------------


async def test_plain_functions_run_in_a_thread() -> None:
    here = threading.get_ident()

    class Plain(ManagedAgent):
        def _do_startup(self, config: LifecycleConfig) -> None:
            self.threads = [threading.get_ident()]

        def process(self, request: int) -> Any:
            self.threads.append(threading.get_ident())
            return request + 1

        def _do_shutdown(self, timeout_seconds: float) -> None:
            self.threads.append(threading.get_ident())

    agent = Plain()
    async with agent:
        assert await agent.process(1) == 2
    assert len(agent.threads) == 3
    assert here not in agent.threads


async def test_a_clean_up_waits_for_a_startup_thread_that_could_not_be_stopped() -> None:
    loop = asyncio.get_running_loop()
    entered, release = asyncio.Event(), threading.Event()
    order: list[str] = []

    class Blocking(ManagedAgent):
        def _do_startup(self, config: LifecycleConfig) -> None:
            loop.call_soon_threadsafe(entered.set)
            release.wait()
            order.append("allocated")

        def _do_shutdown(self, timeout_seconds: float) -> None:
            order.append("released")

    agent = Blocking()
    starting = asyncio.create_task(agent.startup())
    await entered.wait()
    stopping = asyncio.create_task(agent.shutdown())
    loop.call_soon(release.set)
    with pytest.raises(StartupError):
        await starting
    await stopping
    assert order == ["allocated", "released"]


# --- requests ----------------------------------------------------------------------------------------------


async def test_a_shutdown_interrupts_the_request() -> None:
    agent = Recorder()
    await agent.startup()
    working = asyncio.create_task(agent.process("wait"))
    await agent.entered.wait()
    await agent.shutdown()
    with pytest.raises(RequestInterrupted):
        await working
    assert agent.get_metrics().errors == 1


async def test_a_request_may_shut_its_own_agent_down() -> None:
    class Quits(Recorder):
        async def process(self, request: Any) -> Any:
            await self.shutdown()
            return "done"

    agent = Quits()
    await agent.startup()
    assert await agent.process(None) == "done"
    assert agent.get_state() is S.TERMINATED


async def test_the_state_may_be_assigned_along_the_table() -> None:
    class ByHand(ManagedAgent):
        @requires_state(S.READY)
        async def process(self, request: Any) -> Any:
            self._state = S.BUSY
            try:
                return self.get_state()
            finally:
                self._state = S.READY

    agent = ByHand()
    async with agent:
        assert await agent.process(None) is S.BUSY
        with pytest.raises(IllegalTransition, match="assignment of terminated"):
            agent._state = S.TERMINATED
        assert agent.get_state() is S.READY


async def test_an_overriding_process_may_call_the_one_it_overrides() -> None:
    class Louder(Recorder):
        async def process(self, request: Any) -> Any:
            return [await super().process(request)]

    async with Louder() as agent:
        assert await agent.process("x") == [S.BUSY]
        assert agent.get_state() is S.READY
        assert agent.get_metrics().requests == 1


async def test_requires_state_guards_any_method() -> None:
    class Guarded(ManagedAgent):
        @requires_state(S.READY, S.PAUSED)
        def plain(self) -> str:
            return "plain"

        @requires_state(S.READY)
        async def waiting(self) -> str:
            return "waiting"

    agent = Guarded()
    with pytest.raises(StateRequired, match=r"plain\(\) needs the agent to be ready or paused; it is uninitialized"):
        agent.plain()
    async with agent:
        assert (agent.plain(), await agent.waiting()) == ("plain", "waiting")


async def test_pausing_a_busy_agent_is_an_illegal_transition() -> None:
    agent = Recorder()
    await agent.startup()
    working = asyncio.create_task(agent.process("wait"))
    await agent.entered.wait()
    with pytest.raises(IllegalTransition):
        await agent.pause()
    agent.gate.set()
    await working
    await agent.pause()
    with pytest.raises(StateRequired):
        await agent.process("work")
    await agent.shutdown()


async def test_a_cancelled_request_leaves_the_agent_ready() -> None:
    agent = Recorder()
    await agent.startup()
    working = asyncio.create_task(agent.process("wait"))
    await agent.entered.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert agent.get_state() is S.READY
    await agent.shutdown()


async def test_an_agent_without_work_says_so() -> None:
    async with ManagedAgent() as agent:
        with pytest.raises(NotImplementedError, match="neither process"):
            await agent.process(None)


# --- state -------------------------------------------------------------------------------------------------


class Owner(ManagedAgent):
    memory_keys = frozenset({"preferences"})
    orchestrator_keys = frozenset({"tenant"})


def test_a_class_declares_its_own_keys() -> None:
    agent = Owner()
    owners = {key: agent.owns_state(key) for key in ("preferences", "tenant", "_preferences", "counter", "embeddings")}
    assert owners == {
        "preferences": StateOwnership.MEMORY,
        "tenant": StateOwnership.ORCHESTRATOR,
        "_preferences": StateOwnership.AGENT,
        "counter": StateOwnership.AGENT,
        "embeddings": StateOwnership.MEMORY,
    }


@pytest.mark.parametrize(
    "write",
    [
        lambda agent: agent.set_state("preferences", 1),
        lambda agent: agent._agent_state.__setitem__("preferences", 1),
        lambda agent: agent._agent_state.update(preferences=1),
        lambda agent: agent._agent_state.update({"fine": 1, "preferences": 1}),
        lambda agent: agent._agent_state.setdefault("preferences", 1),
        lambda agent: agent._agent_state.__ior__({"preferences": 1}),
    ],
)
def test_no_way_into_the_agents_state_takes_a_foreign_key(write: Any) -> None:
    agent = Owner()
    with pytest.raises(StateViolationError, match="'preferences' belongs to memory; agent may read it") as raised:
        write(agent)
    assert (raised.value.key, raised.value.owner, raised.value.actor) == (
        "preferences",
        StateOwnership.MEMORY,
        StateOwnership.AGENT,
    )
    assert "preferences" not in agent._agent_state


async def test_get_state_reads_whoever_owns_it() -> None:
    agent = Owner()
    agent.set_state("counter", 1)
    agent.memory.update("preferences", {"tone": "dry"})
    assert agent.get_state("counter") == 1
    assert agent.get_state("preferences") == {"tone": "dry"}
    assert agent.get_state("trace_id") == agent.context.trace_id
    assert agent.get_state("nothing", "default") == "default"


async def test_what_memory_gives_is_a_copy() -> None:
    agent = ManagedAgent()
    agent.memory.update("history", ["a"])
    (await agent.memory.load("history")).append("b")
    assert await agent.memory.load("history") == ["a"]


async def test_memory_takes_only_its_own_keys_and_only_json() -> None:
    agent = ManagedAgent()
    with pytest.raises(StateViolationError, match="belongs to agent"):
        agent.memory.update("counter", 1)
    with pytest.raises(MalformedPayload, match="memory 'history'"):
        agent.memory.update("history", object())
    assert not agent.memory.dirty


async def test_an_awaited_update_is_durable_at_once() -> None:
    keeper = VolatileMemory()
    agent = ManagedAgent()
    agent.bind(agent_id="a", memory=keeper)
    agent.memory.update("history", 1)
    assert await keeper.recall(("default", "a")) == {}  # pyright: ignore[reportArgumentType]
    await agent.memory.update("user_history", 2)
    assert await keeper.recall(("default", "a")) == {"user_history": "2"}  # pyright: ignore[reportArgumentType]
    assert agent.memory.dirty
    await agent.memory.forget("user_history")
    await agent.memory.flush()
    assert await keeper.recall(("default", "a")) == {"history": "1"}  # pyright: ignore[reportArgumentType]
    assert not agent.memory.dirty


async def test_memory_is_saved_although_the_clean_up_fails() -> None:
    class Fails(ManagedAgent):
        async def _do_shutdown(self, timeout_seconds: float) -> None:
            self.memory.update("history", ["last words"])
            raise OSError("cannot close")

    keeper = VolatileMemory()
    agent = Fails()
    agent.bind(agent_id="a", memory=keeper)
    await agent.startup()
    await agent.shutdown()
    assert await keeper.recall(("default", "a")) == {"history": '["last words"]'}  # pyright: ignore[reportArgumentType]
    assert agent.get_metrics().errors == 1


async def test_a_turn_that_begins_again_finds_its_memory_as_it_was() -> None:
    class Turner(ManagedAgent):
        memory_keys = frozenset({"a", "b", "c"})

    keeper = VolatileMemory()

    async def life(turn_id: str, **changes: Any) -> dict[str, Any]:
        """One worker's work on a turn: what it finds, and what it leaves behind before it dies."""
        agent = Turner()
        agent.bind(agent_id="turner", memory=keeper)
        await agent.memory.begin(turn_id)
        found = {key: await agent.memory.load(key) for key in ("a", "b", "c")}
        for key, value in changes.items():
            pending = agent.memory.forget(key) if value is None else agent.memory.update(key, value)
            await pending
        await agent.memory.flush()
        return found

    nothing = {"a": None, "b": None, "c": None}
    assert await life("t1", a=1, b=1) == nothing
    assert await life("t1", a=1, b=1) == nothing, "again, as if for the first time"
    assert await life("t2", a=2, b=None) == {"a": 1, "b": 1, "c": None}
    assert await life("t2", a=2, c=3) == {"a": 1, "b": 1, "c": None}, "also what it had forgotten"
    assert await life("t3") == {"a": 2, "b": 1, "c": 3}, "and what it did not change this time is as it was"
    await life("t4", c=4)
    kept = await keeper.recall(("default", "turner"))  # pyright: ignore[reportArgumentType]
    assert set(kept) == {"a", "b", "c", "~", "~c"}, "what no turn can need any more is gone"
    assert await life("t5") == {"a": 2, "b": 1, "c": 4}


async def test_what_a_turn_read_is_what_it_found_however_often_it_began() -> None:
    class Turner(ManagedAgent):
        memory_keys = frozenset({"a", "b", "c"})

    keeper = VolatileMemory()
    await keeper.keep((DEFAULT_PROJECT, AgentId("turner")), {"a": Json("1"), "b": Json("1")}, Millis(1))
    first, again = Turner(), Turner()
    for agent in (first, again):
        agent.bind(agent_id="turner", memory=keeper)
        await agent.memory.begin("t1")
        assert await agent.memory.load("a") == 1
        await agent.memory.update("a", 2)
        await agent.memory.update("c", 3)
        assert (agent.memory.get("a"), agent.memory.get("c")) == (2, 3)
        assert agent.memory.read == {"a": "1"}, "what it wrote itself it did not find"
        assert set(agent.memory.keys()) == {"a", "b", "c"}
        assert agent.memory.read == {"a": "1", "b": "1"}
    again.memory.update("b", 2)
    await again.memory.begin("t2")
    assert again.memory.get("b") == 2
    assert again.memory.read == {"b": "2"}, "also what nobody has written down yet"


async def test_memory_changed_outside_a_turn_is_not_taken_back() -> None:
    keeper = VolatileMemory()
    agent = Light()
    agent.bind(agent_id="light", memory=keeper)
    await agent.memory.begin("t1")
    await agent.memory.update("history", 1)
    agent.memory.end()
    await agent.memory.update("history", 2)
    await agent.memory.begin("t2")
    assert await agent.memory.load("history") == 2


# --- events ------------------------------------------------------------------------------------------------


class Deaf:
    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        raise OSError("nobody there")


async def test_a_broken_emitter_harms_nobody() -> None:
    agent = Recorder()
    agent.bind(emitter=Deaf())
    async with agent:
        assert await agent.process("x") is S.BUSY


async def test_errors_of_a_request_reach_the_caller_as_they_are() -> None:
    async with Recorder() as agent:
        with pytest.raises(RecoverableError, match="later"):
            await agent.process(RecoverableError("later"))
        with pytest.raises(KeyError):
            await agent.process(KeyError("x"))
        assert agent.get_metrics().errors == 2
        with pytest.raises(FatalError):
            await agent.process(FatalError())
        assert agent.get_state() is S.TERMINATED
