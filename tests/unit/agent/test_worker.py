"""The worker: many agents side by side, order within each, and nothing lost when it is stopped or fenced off."""

import asyncio
from typing import Any, cast

import pytest

from homeostat import FatalError, LifecycleConfig, ManagedAgent, Profile, ReActAgent
from homeostat.agent import outcome
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.turn import Turn
from homeostat.agent.worker import Worker
from homeostat.core.codec import Json, from_json
from homeostat.core.errors import AgentUnknown, StaleEpoch, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.tool import ToolSpec
from homeostat.core.records.turn import Grant, TurnStatus
from homeostat.core.records.view import Hydration
from homeostat.testing.crews import eventually
from homeostat.testing.workbench import Workbench


def key(agent_id: str) -> Any:
    return (DEFAULT_PROJECT, AgentId(agent_id))


class Gated:
    """An agent function that waits to be let on, and says when it runs."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.runs = 0

    async def __call__(self, turn: Turn) -> Any:
        self.runs += 1
        self.entered.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return f"done {turn.input}"


# --- order -------------------------------------------------------------------------------------------------


async def test_an_agents_turns_run_in_order_and_never_two_at_once(bench: Workbench) -> None:
    seen: list[Any] = []
    active = 0

    async def clerk(turn: Turn) -> Any:
        nonlocal active
        active += 1
        assert active == 1
        await asyncio.sleep(0)
        seen.append(turn.input)
        active -= 1

    turns = [await bench.send("clerk", number) for number in range(40)]
    async with bench.working(clerk=clerk) as worker:
        for turn_id in turns:
            await bench.end(turn_id)
        await worker.idle()
        assert worker.counts.delivered == 40
    assert seen == list(range(40))


async def test_agents_run_side_by_side(bench: Workbench) -> None:
    meeting = asyncio.Barrier(3)

    async def meets(turn: Turn) -> str:
        await meeting.wait()
        return "met"

    async with bench.working(a=meets, b=meets, c=meets):
        turns = [await bench.send(agent) for agent in "abc"]
        assert [from_json((await bench.end(turn_id)).result) for turn_id in turns] == ["met"] * 3


async def test_no_more_turns_run_than_there_is_room_for(bench: Workbench) -> None:
    active, most = 0, 0

    async def agent(turn: Turn) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        active -= 1

    names = [f"agent{number}" for number in range(12)]
    turns = [await bench.send(name) for name in names for _ in range(3)]
    async with bench.working(dict.fromkeys(names, agent), concurrency=3):
        for turn_id in turns:
            await bench.end(turn_id)
    assert most == 3


async def test_a_busy_agent_does_not_starve_the_others(bench: Workbench) -> None:
    order: list[str] = []

    async def agent(turn: Turn) -> None:
        order.append(turn.agent_id)

    for _ in range(60):
        await bench.send("greedy")
    last = await bench.send("modest")
    async with bench.working(concurrency=1, greedy=agent, modest=agent):
        await bench.end(last)
    assert order.index("modest") <= 33


async def test_hundreds_of_agents_fit_into_one_worker(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        return turn.agent_id

    names = [f"agent{number:03}" for number in range(300)]
    async with bench.working(dict.fromkeys(names, agent), concurrency=64):
        turns = await asyncio.gather(*(bench.send(name) for name in names))
        ended = await asyncio.gather(*(bench.end(turn_id) for turn_id in turns))
    assert sorted(from_json(end.result) for end in ended) == names


async def test_turns_that_wait_hold_no_task_no_agent_and_no_place(bench: Workbench) -> None:
    async def asks(turn: Turn) -> Any:
        return await turn.call("tool", number=turn.input)

    names = [f"agent{number:03}" for number in range(300)]
    async with bench.working(dict.fromkeys(names, asks), concurrency=16) as worker:
        turns = await asyncio.gather(*(bench.send(name, name) for name in names))
        calls = [await asyncio.wait_for(bench.tool_calls.get(), 10) for _ in names]
        await worker.idle()
        assert worker.counts.suspended == len(names)
        assert len(asyncio.all_tasks()) < 15, "the loops of the worker and the kernel, and nothing per turn"
        assert not worker.running
        assert [name for name in names if worker.orchestrator.known(name) is not None] == []
        for call in calls:
            await bench.report(call, "answer")
        ended = [await bench.end(turn_id) for turn_id in turns]
    assert {from_json(end.result) for end in ended} == {"answer"}


# --- around a turn -----------------------------------------------------------------------------------------


class Told:
    """A listener that keeps what it hears of one agent after the other."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        self.heard.append((state, trace_id))


async def test_every_transition_is_told_in_the_trace_of_its_turn(bench: Workbench) -> None:
    class Clerk(ManagedAgent):
        async def process(self, turn: Turn) -> Any:
            return [turn.trace_id, self.context.trace_id, self.get_state("trace_id"), self.context.routing["turn_id"]]

    told = Told()
    worker = Worker(source=bench.source, orchestrator=Orchestrator(emitter=told))
    worker.host("clerk", Clerk)
    await worker.open()
    running = asyncio.create_task(worker.run())
    turns = [await bench.send("clerk", trace_id=trace) for trace in ("1" * 32, "2" * 32)]
    for turn_id, trace in zip(turns, ("1" * 32, "2" * 32), strict=True):
        assert from_json((await bench.end(turn_id)).result) == [trace, trace, trace, turn_id]
    worker.stop()
    await running
    assert told.heard == [
        ("initializing", "1" * 32),
        ("ready", "1" * 32),
        ("busy", "1" * 32),
        ("ready", "1" * 32),
        ("busy", "2" * 32),
        ("ready", "2" * 32),
        ("shutting_down", "2" * 32),
        ("terminated", "2" * 32),
    ]


async def test_a_turn_is_hydrated_head_first_then_tools_then_boxes(bench: Workbench) -> None:
    order: list[str] = []

    class Watched:
        """A source, session or desk whose calls are written down."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._inner, name)
            if name not in {"open", "claim", "hydrate", "describe", "deliver"}:
                return found

            async def watched(*args: Any, **named: Any) -> Any:
                answer = await found(*args, **named)
                if answer != []:
                    order.append(name)
                return Watched(answer) if name == "open" else answer

            return watched

    class Curious(ReActAgent):
        profile = Profile(model="gpt-4.1-mini", tools=("oracle",))

        async def process(self, turn: Turn, /) -> Any:
            order.append("process")
            return [card.content for card in turn.context]

    await bench.tools.desk().register([ToolSpec("oracle", "", Json('{"type":"object"}'))])
    orchestrator = Orchestrator(tools=cast("Any", Watched(bench.tools.desk())))
    worker = Worker(source=cast("Any", Watched(bench.source)), orchestrator=orchestrator)
    worker.host("curious", Curious)
    await worker.open()
    running = asyncio.create_task(worker.run())
    box_id = await bench.kernel.create_box(DEFAULT_PROJECT, [CardDraft("note", Json('"read me"'))], None)
    ended = await bench.end(await bench.send("curious", context_box_id=box_id))
    assert from_json(ended.result) == ["read me"]
    worker.stop()
    await running
    assert order == ["open", "claim", "describe", "hydrate", "process", "deliver"]


# --- being cut off -----------------------------------------------------------------------------------------


async def test_a_stopped_turn_is_cancelled_at_once(bench: Workbench) -> None:
    gated = Gated()
    async with bench.working(agent=gated) as worker:
        turn_id = await bench.send("agent", 1)
        await gated.entered.wait()
        await bench.kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="test")
        await gated.cancelled.wait()
        assert (await bench.end(turn_id)).status == "stop"
        await worker.idle()
        assert worker.counts.lost == 1
        gated.gate.set()
        assert await bench.ask("agent", 2) == "done 2", "the agent goes on with its next turn"


async def test_a_turn_that_takes_longer_than_its_lease_is_not_taken_away() -> None:
    agent, lease_seconds = Gated(), 0.3
    async with Workbench(lease_seconds=lease_seconds) as bench, bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await agent.entered.wait()
        (first,) = bench.store.leases.values()

        async def renewed() -> bool:
            assert bench.store.leases, "its worker was given up"
            return min(bench.store.leases.values()) > first + 4 * lease_seconds * 1000

        await eventually(renewed, 20)
        head = bench.store.heads_by_key[key("agent")]
        assert (head.status, head.losses, agent.runs) == (HeadStatus.RUNNING, 0, 1)
        agent.gate.set()
        assert (await bench.end(turn_id)).epoch == head.epoch


async def test_a_preempted_turn_is_cancelled_and_runs_again_from_its_steps(bench: Workbench) -> None:
    gated = Gated()
    ran: list[str] = []

    async def agent(turn: Turn) -> Any:
        await turn.step("once", lambda: ran.append("once"))
        return await gated(turn)

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent", 1)
        await gated.entered.wait()
        gated.entered.clear()
        await bench.kernel.set_gate(key("agent"), Gate.CLOSED)
        assert await bench.kernel.preempt(key("agent")) == turn_id
        await gated.cancelled.wait()
        gated.gate.set()
        await bench.kernel.set_gate(key("agent"), Gate.OPEN)
        assert from_json((await bench.end(turn_id)).result) == "done 1"
    assert (gated.runs, ran) == (2, ["once"])


async def test_a_fenced_off_turn_can_write_nothing_though_it_ignores_its_cancellation(bench: Workbench) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()
    tried: list[str] = []

    async def stubborn(turn: Turn) -> Any:
        if turn.input == "next":
            return "fine"
        entered.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                tried.append("ignored")
                gate.set()
        try:
            await turn.step("late", lambda: tried.append("side effect"))
        finally:
            tried.append("refused")

    async with bench.working(stubborn=stubborn):
        turn_id = await bench.send("stubborn")
        await entered.wait()
        await bench.kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="test")
        assert await bench.ask("stubborn", "next") == "fine"
    assert tried == ["ignored", "refused"]


# --- stopping ----------------------------------------------------------------------------------------------


async def test_a_graceful_stop_lets_turns_end_and_takes_no_more(bench: Workbench) -> None:
    gated = Gated()
    async with bench.working(agent=gated) as worker:
        first = await bench.send("agent", 1)
        second = await bench.send("agent", 2)
        await gated.entered.wait()
        worker.stop()
        asyncio.get_running_loop().call_soon(gated.gate.set)
        assert from_json((await bench.end(first)).result) == "done 1"
    view = await bench.store.turn(DEFAULT_PROJECT, second)
    assert view is not None
    assert view.status is TurnStatus.DISPATCHED
    assert gated.runs == 1


async def test_a_stop_hands_back_what_does_not_end_in_time(bench: Workbench) -> None:
    gated = Gated()
    async with bench.working(agent=gated, stop_seconds=0.01) as worker:
        turn_id = await bench.send("agent", 1)
        await gated.entered.wait()
    assert gated.cancelled.is_set()
    assert worker.counts.released == 1
    head = await bench.store.head(*key("agent"))
    assert head is not None
    assert (head.head.status, head.head.losses) == (HeadStatus.DISPATCHED, 0)
    gated.gate.set()
    async with bench.working(agent=gated):
        assert from_json((await bench.end(turn_id)).result) == "done 1"


async def test_agents_are_shut_down_when_the_worker_leaves(bench: Workbench) -> None:
    seen: list[str] = []

    class Agent(ManagedAgent):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            seen.append("startup")

        async def _do_shutdown(self, timeout_seconds: float) -> None:
            seen.append("shutdown")

        async def process(self, turn: Turn) -> Any:
            seen.append("process")

    async with bench.working(agent=Agent):
        await bench.ask("agent")
        await bench.ask("agent")
        assert seen == ["startup", "process", "process"]
    assert seen[-1] == "shutdown"


# --- agents ------------------------------------------------------------------------------------------------


async def test_a_fatal_error_fails_its_turn_and_replaces_the_agent(bench: Workbench) -> None:
    made: list[ManagedAgent] = []

    class Fragile(ManagedAgent):
        def __init__(self) -> None:
            made.append(self)

        async def process(self, turn: Turn) -> Any:
            if turn.input == "break":
                raise FatalError("the connection is gone for good")
            return "fine"

    async with bench.working(fragile=Fragile):
        error = await bench.fails("fragile", "break")
        assert (error["code"], error["message"]) == ("fatal_error", "the connection is gone for good")
        assert await bench.ask("fragile") == "fine"
    assert len(made) == 2


async def test_an_agent_that_starts_late_is_tried_again(bench: Workbench, quick: None) -> None:
    attempts: list[int] = []

    class Late(ManagedAgent):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            attempts.append(1)
            if len(attempts) < 3:
                raise OSError("not yet")

        async def process(self, turn: Turn) -> Any:
            return "up"

    async with bench.working(late=Late) as worker:
        assert await bench.ask("late") == "up"
        assert worker.counts.deferred == 2


async def test_an_agent_that_never_starts_fails_its_turn_with_the_cause(
    bench: Workbench, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    class Never(ManagedAgent):
        async def _do_startup(self, config: LifecycleConfig) -> None:
            raise OSError("wrong password")

        async def process(self, turn: Turn) -> Any: ...

    async with bench.working(never=Never):
        error = await bench.fails("never")
        assert error["code"] == "startup_failed"
        assert error["cause"]["message"] == "wrong password"
    assert any("of never failed" in record.getMessage() and record.exc_info for record in caplog.records)


async def test_a_paused_agent_keeps_its_turns_until_it_is_resumed(bench: Workbench) -> None:
    class Agent(ManagedAgent):
        async def process(self, turn: Turn) -> Any:
            return "done"

    async with bench.working(agent=Agent) as worker:
        await bench.ask("agent")
        agent = worker.orchestrator.agent("agent")
        assert isinstance(agent, Agent)
        await agent.pause()
        turn_id = await bench.send("agent")
        while not worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await agent.resume()
        assert from_json((await bench.end(turn_id)).result) == "done"


async def test_memory_is_kept_with_the_end_of_a_turn_and_not_with_a_suspension(bench: Workbench) -> None:
    class Agent(ManagedAgent):
        async def process(self, turn: Turn) -> Any:
            history = await self.memory.load("history", [])
            self.memory.update("history", [*history, turn.input])
            if turn.input == "wait":
                await turn.call("tool")
            return history

    async with bench.working(agent=Agent) as worker:
        assert await bench.ask("agent", "first") == []
        waiting = await bench.send("agent", "wait")
        call = await asyncio.wait_for(bench.tool_calls.get(), 5)
        await worker.idle()
        assert (await bench.memory.recall(key("agent")))["history"] == '["first"]'
        await bench.report(call, None)
        assert from_json((await bench.end(waiting)).result) == ["first"]
        assert (await bench.memory.recall(key("agent")))["history"] == '["first","wait"]'
    async with bench.working(agent=Agent):
        assert await bench.ask("agent", "after") == ["first", "wait"]


async def test_memory_is_not_kept_with_a_suspension_that_the_author_swallowed(bench: Workbench) -> None:
    class Greedy(ManagedAgent):
        async def process(self, turn: Turn) -> Any:
            count = await self.memory.load("history", 0) + 1
            self.memory.update("history", count)
            try:
                await turn.call("tool")
            except BaseException:  # noqa: BLE001 - what an author should not do, and some do
                return "swallowed"
            return count

    async with bench.working(greedy=Greedy) as worker:
        turn_id = await bench.send("greedy")
        call = await asyncio.wait_for(bench.tool_calls.get(), 5)
        await worker.idle()
        assert await bench.memory.recall(key("greedy")) == {}
        await bench.report(call, None)
        assert from_json((await bench.end(turn_id)).result) == 1


async def test_any_class_that_keeps_the_protocol_can_be_hosted(bench: Workbench) -> None:
    class Own:
        def __init__(self) -> None:
            self._inner = ManagedAgent()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def process(self, turn: Turn) -> Any:
            return f"own {turn.input}"

    async with bench.working(own=Own):
        assert await bench.ask("own", 1) == "own 1"


# --- trouble below -----------------------------------------------------------------------------------------


class Flaky:
    """A source of turns whose sessions fail now and then, before or after they did what they were asked."""

    def __init__(self, source: Any, method: str, times: int, *, after: bool) -> None:
        self.source, self.method, self.times, self.after = source, method, times, after

    async def register(self, agents: Any) -> None:
        await self.source.register(agents)

    async def open(self, hosted: Any, on_revoke: Any) -> Any:
        return FlakySession(await self.source.open(hosted, on_revoke), self)


class FlakySession:
    def __init__(self, session: Any, flaky: Flaky) -> None:
        self._session, self._flaky = session, flaky

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name != self._flaky.method:
            return found

        async def unreliable(*args: Any, **named: Any) -> Any:
            broken = self._flaky.times > 0
            self._flaky.times -= 1
            if broken and not self._flaky.after:
                raise StoreUnavailable(problem="no route")
            result = await found(*args, **named)
            if broken:
                raise StoreUnavailable(problem="the answer was lost")
            return result

        return unreliable


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short."""
    for module in ("homeostat.agent.worker", "homeostat.agent.turn"):
        monkeypatch.setattr(f"{module}.DEFERRAL_SECONDS", 0.01)
        monkeypatch.setattr(f"{module}.DEFERRAL_SECONDS_MAX", 0.01)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["claim", "hydrate", "step", "write", "suspend", "deliver", "card"])
async def test_a_source_that_fails_for_a_while_loses_and_repeats_nothing(
    bench: Workbench, quick: None, method: str, when: str
) -> None:
    if (method, when) == ("claim", "after"):
        pytest.skip("a claim that was granted and not heard of comes again with the lease")
    ran: list[str] = []

    async def agent(turn: Turn) -> Any:
        await turn.step("once", lambda: ran.append("once"))
        await turn.write("note", 1)
        await turn.write("note", 2)
        return await turn.call("tool")

    flaky = Flaky(bench.source, method, 2, after=when == "after")
    async with bench.working(agent=agent, source=flaky):
        turn_id = await bench.send("agent")
        await bench.answer("result")
        ended = await bench.end(turn_id)
        assert from_json(ended.result) == "result"
        cards = await bench.store.box(DEFAULT_PROJECT, ended.output_box_id, after=-1, limit=50)
        assert cards is not None
        assert [card.content for card in cards if card.type == "note"] == ["1", "2"]
    assert ran == ["once"]
    assert flaky.times <= 0 or method == "card"


class TakenAway:
    """A source that takes the first turn away before it is read, and says so."""

    def __init__(self, source: Any) -> None:
        self.register = source.register
        self._source = source

    async def open(self, hosted: Any, on_revoke: Any) -> Any:
        session = await self._source.open(hosted, on_revoke)
        read = session.hydrate

        async def hydrate(grant: Grant) -> Hydration:
            session.hydrate = read
            await session.release(grant)
            raise StaleEpoch(turn_id=grant.turn.turn_id, worker_id=grant.worker_id, epoch=grant.epoch)

        session.hydrate = hydrate
        return session


async def test_a_turn_that_was_taken_away_before_it_was_read_is_lost_and_no_error(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(turn: Turn) -> str:
        return "done"

    async with bench.working(agent=agent, source=TakenAway(bench.source)) as worker:
        ended = await bench.end(await bench.send("agent"))
        assert from_json(ended.result) == "done"
        assert worker.counts.lost == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_step_done_and_not_stored_is_not_done_again_when_its_turn_comes_back(
    bench: Workbench, quick: None
) -> None:
    ran: list[str] = []
    done = asyncio.Event()

    async def charge() -> str:
        ran.append("charge")
        done.set()
        return "charged"

    async def agent(turn: Turn) -> Any:
        charged = await turn.step("charge", charge)
        await turn.step("thank", lambda: ran.append("thank"))
        return [charged, await turn.call("ship")]

    flaky = Flaky(bench.source, "step", 10**9, after=False)
    async with bench.working(agent=agent, source=flaky) as worker:
        turn_id = await bench.send("agent")
        await done.wait()
        await bench.kernel.set_gate(key("agent"), Gate.CLOSED)
        await bench.kernel.preempt(key("agent"))
        await worker.idle()
        assert worker.counts.lost == 1
        flaky.times = 0
        await bench.kernel.set_gate(key("agent"), Gate.OPEN)
        await bench.answer("shipped")
        assert from_json((await bench.end(turn_id)).result) == ["charged", "shipped"], "it is stored by now"
    assert ran == ["charge", "thank"]


async def test_a_source_that_is_away_is_told_of_once_and_so_is_its_return(
    bench: Workbench, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(turn: Turn) -> Any: ...

    async with bench.working(agent=agent, source=Flaky(bench.source, "claim", 5, after=False)):
        await bench.ask("agent")
    told = [record.getMessage() for record in caplog.records if "claimed" in record.getMessage()]
    assert len(told) == 2, told
    assert told[0].startswith("no turns can be claimed")
    assert told[1] == "turns are claimed again"


class Broken(Exception):
    """Says what is wrong with an agent that cannot be made."""


async def test_an_agent_that_cannot_be_made_fails_its_turn_and_not_those_of_others(bench: Workbench) -> None:
    class Misbegotten(ManagedAgent):
        def __init__(self) -> None:
            raise SystemExit("its settings are missing")

        async def process(self, turn: Turn) -> Any: ...

    def misfiled() -> ManagedAgent:
        raise Broken("no such file: prompt.txt")

    gated = Gated()
    worker = bench.worker(gated=gated, misbegotten=Misbegotten)
    worker.host("misfiled", misfiled)
    await worker.open()
    running = asyncio.create_task(worker.run())
    waiting = await bench.send("gated", "work")
    await gated.entered.wait()
    assert (await bench.fails("misfiled"))["message"] == "no such file: prompt.txt"
    error = await bench.fails("misbegotten")
    assert (error["type"], error["message"]) == ("SystemExit", "its settings are missing")
    gated.gate.set()
    assert from_json((await bench.end(waiting)).result) == "done work"
    worker.stop()
    await running
    assert (worker.counts.delivered, worker.counts.failed) == (3, 2)


class Speechless(Exception):
    """Cannot say what happened."""

    def __str__(self) -> str:
        raise Broken


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (OSError("no such file: caf\udce9.txt"), r"no such file: caf\udce9.txt"),
        (Speechless(), "it cannot say what happened: Broken"),
    ],
    ids=["words that are no text", "no words"],
)
async def test_a_failure_is_delivered_whatever_its_words_are(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, problem: Exception, words: str
) -> None:
    monkeypatch.setattr(outcome.log, "disabled", True)  # whoever runs the tests could not pass such a log on

    async def agent(turn: Turn) -> str:
        raise problem

    async with bench.working(agent=agent):
        assert (await bench.fails("agent"))["message"] == words


class Breaking:
    """A source of turns with sessions that break for good where they are asked for something."""

    def __init__(self, source: Any, method: str, problem: Exception, times: int = 10**9) -> None:
        self.register = source.register
        self._source, self._method, self._problem, self._times = source, method, problem, times

    async def open(self, hosted: Any, on_revoke: Any) -> Any:
        session = await self._source.open(hosted, on_revoke)
        whole = getattr(session, self._method)

        async def broken(*args: Any, **named: Any) -> Any:
            self._times -= 1
            if self._times < 0:
                return await whole(*args, **named)
            raise self._problem

        setattr(session, self._method, broken)
        return session


async def test_a_turn_that_cannot_be_read_fails_with_the_reason(bench: Workbench) -> None:
    async def agent(turn: Turn) -> str:
        return "done"

    source = Breaking(bench.source, "hydrate", Broken("a card nobody can read"))
    async with bench.working(agent=agent, source=source):
        assert (await bench.fails("agent"))["message"] == "a card nobody can read"


@pytest.mark.parametrize("problem", [Broken("nobody expects this"), AgentUnknown(agent_id="agent", project="p")])
async def test_a_turn_that_ends_unexpectedly_is_handed_back_while_its_worker_works_on(
    bench: Workbench, quick: None, caplog: pytest.LogCaptureFixture, problem: Exception
) -> None:
    gated = Gated()

    async def agent(turn: Turn) -> str:
        return "done"

    source = Breaking(bench.source, "deliver", problem, times=2)
    async with bench.working(gated=gated, agent=agent, source=source) as worker:
        waiting = await bench.send("gated", "work")
        await gated.entered.wait()
        ended = await bench.end(await bench.send("agent"))
        assert from_json(ended.result) == "done"
        assert worker.counts.released >= 1
        gated.gate.set()
        await bench.end(waiting)
    assert any("ended unexpectedly" in record.getMessage() for record in caplog.records)


async def test_a_worker_that_stops_meanwhile_hands_back_what_ended_unexpectedly(bench: Workbench) -> None:
    broken = asyncio.Event()

    async def agent(turn: Turn) -> str:
        broken.set()
        return "done"

    async with bench.working(
        agent=agent, source=Breaking(bench.source, "deliver", Broken("no")), stop_seconds=0.0
    ) as worker:
        await bench.send("agent")
        await broken.wait()
    assert worker.counts.released == 1
    head = await bench.store.head(*key("agent"))
    assert head is not None
    assert head.head.status is HeadStatus.DISPATCHED


async def test_a_turn_that_stays_unavailable_fails_in_the_end(bench: Workbench, quick: None) -> None:
    async def agent(turn: Turn) -> Any:
        raise StoreUnavailable(problem="its own database is down")

    async with bench.working(agent=agent) as worker:
        error = await bench.fails("agent")
        assert error["code"] == "store_unavailable"
        assert worker.counts.deferred == 5


async def test_a_worker_that_cannot_open_says_why(bench: Workbench) -> None:
    class Closed:
        async def register(self, agents: Any) -> None:
            raise StoreUnavailable(problem="nobody there")

    worker = Worker(source=Closed())  # pyright: ignore[reportArgumentType]
    with pytest.raises(StoreUnavailable, match="nobody there"):
        await worker.run()
