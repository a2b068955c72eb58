"""What an author has inside a turn, and that resuming one repeats nothing."""

import asyncio
import threading
from typing import Any

import pytest

from homeostat.adapters.upstreams.simulated import ModelCall, Reply
from homeostat.agent.errors import CallFailed, RecoverableError, StepFailed
from homeostat.agent.turn import Turn, current_turn, submit_result
from homeostat.core.codec import from_json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, box_of, scope_floor
from homeostat.core.records.card import CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import WaitStatus
from homeostat.testing.workbench import Workbench

# --- input and output --------------------------------------------------------------------------------------


async def test_a_returned_value_is_the_deliverable(bench: Workbench) -> None:
    async def double(turn: Turn) -> Any:
        return {"twice": turn.input["number"] * 2, "turn": turn.id, "agent": turn.agent_id}

    async with bench.working(double=double):
        turn_id = await bench.send("double", {"number": 21})
        assert from_json((await bench.end(turn_id)).result) == {"twice": 42, "turn": turn_id, "agent": "double"}


async def test_a_plain_function_works_too(bench: Workbench) -> None:
    here = threading.get_ident()

    def blocking(turn: Turn) -> Any:
        kept = turn.blocking.step("think", lambda: 7)
        first, second = turn.blocking.gather(turn.call("a", x=1), turn.call("b"))
        return [kept, first, second, threading.get_ident() == here, turn.blocking.call("c")]

    async with bench.working(plain=blocking):
        turn_id = await bench.send("plain")
        await bench.answer("A")
        await bench.answer("B")
        await bench.answer("C")
        assert from_json((await bench.end(turn_id)).result) == [7, "A", "B", False, "C"]


async def test_the_context_is_there_to_read(bench: Workbench) -> None:
    async def reader(turn: Turn) -> Any:
        return [(card.type, card.content) for card in turn.context]

    box_id = await bench.kernel.create_box(DEFAULT_PROJECT, [CardDraft("note", to_json({"a": 1}))], None)
    async with bench.working(reader=reader):
        assert await bench.ask("reader", context_box_id=box_id) == [["note", {"a": 1}]]


async def test_a_context_that_retention_took_fails_only_a_turn_that_looks_at_it(bench: Workbench) -> None:
    async def reader(turn: Turn) -> Any:
        return len(turn.context) if turn.input else "done"

    async with bench.working(reader=reader):
        first = await bench.send("reader")
        await bench.end(first)
        await bench.kernel.set_gate((DEFAULT_PROJECT, AgentId("reader")), Gate.CLOSED)
        looks, does_not = [await bench.send("reader", look, context_box_id=box_of(first)) for look in (True, False)]
        await bench.kernel.store.expire(scope_floor(bench.kernel.clock.now_ms() + 1), 100)
        await bench.kernel.set_gate((DEFAULT_PROJECT, AgentId("reader")), Gate.OPEN)
        assert from_json((await bench.end(looks)).error or "null")["code"] == "box_unknown"
        assert (await bench.end(does_not)).result == '"done"'


async def test_cards_are_written_once_although_the_turn_runs_twice(bench: Workbench) -> None:
    async def writer(turn: Turn) -> Any:
        first = await turn.write("note", {"n": 1})
        await turn.call("wait")
        return [first, await turn.write("note", {"n": 2})]

    async with bench.working(writer=writer):
        turn_id = await bench.send("writer")
        await bench.answer()
        ended = await bench.end(turn_id)
        cards = await bench.store.box(DEFAULT_PROJECT, ended.output_box_id, after=-1, limit=50)
        assert cards is not None
        notes = [card for card in cards if card.type == "note"]
        assert [from_json(card.content) for card in notes] == [{"n": 1}, {"n": 2}]
        assert from_json(ended.result) == [card.card_id for card in notes]


async def test_chunks_are_emitted_once_although_the_turn_runs_twice(bench: Workbench) -> None:
    async def speaker(turn: Turn) -> None:
        await turn.emit("before")
        await turn.call("wait")
        await turn.emit("after")

    async with bench.working(speaker=speaker):
        turn_id = await bench.send("speaker")
        await bench.answer()
        await bench.end(turn_id)
        assert bench.chunks == ["before", "after"]


async def test_submit_result_is_the_deliverable_and_comes_once(bench: Workbench) -> None:
    async def submits(turn: Turn) -> str:
        submit_result(answer=42)
        assert current_turn() is turn
        return "ignored"

    async def twice(turn: Turn) -> None:
        await turn.submit_result({"a": 1})
        turn.submit_result({"a": 2})

    async with bench.working(submits=submits, twice=twice):
        assert await bench.ask("submits", result_fields=[{"name": "answer"}]) == {"answer": 42}
        assert "once per turn" in (await bench.fails("twice"))["message"]


async def test_a_result_without_its_required_fields_is_refused(bench: Workbench) -> None:
    async def submits(turn: Turn) -> None:
        turn.submit_result(other=1)

    async def returns(turn: Turn) -> Any:
        return {"other": 1}

    wanted = [{"name": "answer"}, {"name": "note", "required": False}]
    async with bench.working(submits=submits, returns=returns):
        for agent in ("submits", "returns"):
            error = await bench.fails(agent, result_fields=wanted)
            assert (error["code"], error["message"]) == (
                "result_fields_missing",
                "The deliverable misses required fields: answer.",
            )
            assert "submit_result" in error["hint"]


async def test_what_is_no_json_is_said_plainly(bench: Workbench) -> None:
    async def returns(turn: Turn) -> Any:
        return {"socket": object()}

    async def steps(turn: Turn) -> Any:
        return await turn.step("open", object)

    async with bench.working(returns=returns, steps=steps):
        error = await bench.fails("returns")
        assert error["code"] == "malformed_payload"
        assert error["message"].startswith("what the agent returned is not valid")
        assert "JSON holds dicts with text as keys" in error["hint"]
        assert "what step 'open' returned is not valid" in (await bench.fails("steps"))["message"]


async def test_a_failure_is_written_where_its_author_looks(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    async def stumbles(turn: Turn) -> None:
        raise ValueError("no luck")

    async def declines(turn: Turn) -> None:
        raise RecoverableError("ask me tomorrow")

    async def returns(turn: Turn) -> Any:
        return object()

    async with bench.working(stumbles=stumbles, declines=declines, returns=returns):
        for agent in ("stumbles", "declines", "returns"):
            await bench.fails(agent)
    told = {record.getMessage().split()[3]: record for record in caplog.records if "failed:" in record.getMessage()}
    assert "ValueError: no luck" in told["stumbles"].getMessage()
    assert told["stumbles"].exc_info is not None, "where it came from"
    assert told["declines"].getMessage().endswith("RecoverableError: ask me tomorrow")
    assert told["declines"].exc_info is None, "it was said on purpose"
    assert "JSON holds" in told["returns"].getMessage()


async def test_an_exception_is_a_failed_deliverable_with_its_cause(bench: Workbench) -> None:
    async def fails(turn: Turn) -> None:
        raise ValueError("cannot fetch") from OSError("no network")

    async def cancels(turn: Turn) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def exits(turn: Turn) -> None:
        raise SystemExit(3)

    async with bench.working(fails=fails, cancels=cancels, exits=exits):
        error = await bench.fails("fails")
        assert (error["type"], error["message"]) == ("ValueError", "cannot fetch")
        assert (error["cause"]["type"], error["cause"]["message"]) == ("OSError", "no network")
        assert (await bench.fails("cancels"))["type"] == "asyncio.exceptions.CancelledError"
        assert (await bench.fails("exits"))["type"] == "SystemExit"


# --- steps -------------------------------------------------------------------------------------------------


async def test_a_step_runs_once_although_the_turn_runs_twice(bench: Workbench) -> None:
    ran: list[str] = []
    returned: list[Any] = []

    async def pay(amount: int) -> tuple[str, int]:
        ran.append("pay")
        return ("paid", amount)

    async def buyer(turn: Turn) -> Any:
        returned.append(await turn.step("pay", pay, 5))
        await turn.call("ship")
        returned.append(await turn.step("pay", pay, 7))
        return returned[-1]

    async with bench.working(buyer=buyer):
        turn_id = await bench.send("buyer")
        await bench.answer()
        assert from_json((await bench.end(turn_id)).result) == ["paid", 7]
    assert ran == ["pay", "pay"], "two steps of one name are two steps"
    assert returned == [["paid", 5], ["paid", 5], ["paid", 7]], "the first time it is JSON already"


async def test_a_step_takes_a_coroutine_a_function_or_an_awaitable(bench: Workbench) -> None:
    async def work(number: int = 1) -> int:
        return number

    async def agent(turn: Turn) -> Any:
        return [
            await turn.step("a", work),
            await turn.step("b", work, number=2),
            await turn.step("c", work(3)),
            await turn.step("d", lambda: work(4)),
            await turn.call("again"),
        ]

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await bench.answer(5)
        assert from_json((await bench.end(turn_id)).result) == [1, 2, 3, 4, 5]


async def test_a_failed_step_fails_the_same_way_when_the_turn_is_resumed(bench: Workbench) -> None:
    seen: list[type[Exception]] = []
    ran: list[str] = []

    class Odd(Exception):
        def __init__(self, first: str, second: int) -> None:
            super().__init__(f"{first} {second}")

    async def agent(turn: Turn) -> Any:
        for kind in (LookupError, Odd):

            def work(kind: Any = kind) -> None:
                ran.append(kind.__name__)
                raise kind("gone", 2) if kind is Odd else kind("gone")

            try:
                await turn.step(kind.__name__, work)
            except LookupError as problem:
                seen.append(type(problem))
            except Exception as problem:  # noqa: BLE001
                seen.append(type(problem))
        return await turn.call("wait")

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await bench.answer("ok")
        assert from_json((await bench.end(turn_id)).result) == "ok"
    assert ran == ["LookupError", "Odd"]
    assert seen[:2] == [LookupError, Odd]
    assert issubclass(seen[2], LookupError)
    assert issubclass(seen[2], StepFailed)
    assert issubclass(seen[3], StepFailed)


async def test_a_suspension_waits_for_a_step_under_way(bench: Workbench) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def slow() -> str:
        ran.append("slow")
        entered.set()
        await gate.wait()
        return "kept"

    async def agent(turn: Turn) -> Any:
        return await asyncio.gather(turn.step("slow", slow), _as_coroutine(turn.call("tool")))

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await entered.wait()
        assert bench.tool_calls.empty()
        gate.set()
        await bench.answer("result")
        assert from_json((await bench.end(turn_id)).result) == ["kept", "result"]
    assert ran == ["slow"]


async def _as_coroutine(request: Any) -> Any:
    return await request


# --- waiting -----------------------------------------------------------------------------------------------


async def test_a_call_reaches_its_tool_and_holds_nothing_meanwhile(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        return await turn.call("search", query="foxes", limit=3)

    async with bench.working(agent=agent) as worker:
        turn_id = await bench.send("agent")
        call = await asyncio.wait_for(bench.tool_calls.get(), 5)
        assert await bench.args_of(call) == {"query": "foxes", "limit": 3}
        assert call["tool"] == "search"
        await worker.idle()
        assert (worker.counts.claimed, worker.counts.suspended) == (1, 1)
        await bench.report(call, ["red", "grey"])
        assert from_json((await bench.end(turn_id)).result) == ["red", "grey"]


async def test_several_calls_wait_in_one_suspension(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        with_gather = await turn.gather(turn.call("a"), turn.call("b"))
        with_asyncio = await asyncio.gather(_as_coroutine(turn.call("c")), _as_coroutine(turn.call("d")))
        return [with_gather, with_asyncio]

    async with bench.working(agent=agent) as worker:
        turn_id = await bench.send("agent")
        for result in ("A", "B", "C", "D"):
            await bench.answer(result)
        assert from_json((await bench.end(turn_id)).result) == [["A", "B"], ["C", "D"]]
        assert worker.counts.suspended == 2


async def test_a_task_group_may_wait_too(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(_as_coroutine(turn.call("a")))
            second = group.create_task(_as_coroutine(turn.call("b")))
        return [first.result(), second.result()]

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await bench.answer("A")
        await bench.answer("B")
        assert from_json((await bench.end(turn_id)).result) == ["A", "B"]


async def test_a_failed_call_raises_and_may_be_caught(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        caught: list[Any] = []
        try:
            await turn.call("search")
        except CallFailed as problem:
            caught += [problem.tool, problem.status, problem.result]
        errors = await turn.gather(turn.call("a"), turn.call("b"), return_errors=True)
        return [caught, [type(error).__name__ for error in errors]]

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await bench.answer({"reason": "down"}, status=WaitStatus.ERROR)
        await bench.answer("fine")
        await bench.answer("no", status=WaitStatus.ERROR)
        assert from_json((await bench.end(turn_id)).result) == [
            ["search", "error", {"reason": "down"}],
            ["str", "CallFailed"],
        ]


async def test_a_call_that_is_late_is_a_failed_call(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        return await turn.request("slow", {"x": 1}, timeout_seconds=0.05)

    async with bench.working(agent=agent):
        error = await bench.fails("agent")
        assert error["type"] == "homeostat.agent.errors.CallFailed"
        assert error["message"].startswith("slow ended with timeout")


async def test_swallowing_the_suspension_does_not_end_the_turn(bench: Workbench) -> None:
    async def stubborn(turn: Turn) -> Any:
        try:
            result = await turn.call("tool")
        except BaseException:  # noqa: BLE001
            return "swallowed"
        return result

    async with bench.working(stubborn=stubborn):
        turn_id = await bench.send("stubborn")
        await bench.answer("real")
        assert from_json((await bench.end(turn_id)).result) == "real"


async def test_another_agent_is_asked_and_answers(bench: Workbench) -> None:
    async def boss(turn: Turn) -> Any:
        one = await turn.ask("clerk", number=20)
        try:
            await turn.ask("clerk", {"number": "x"})
        except CallFailed as problem:
            return [one, problem.result["type"], turn.depth]

    async def clerk(turn: Turn) -> Any:
        return {"sum": turn.input["number"] + 1, "depth": turn.depth, "from": turn.source}

    async with bench.working(boss=boss, clerk=clerk):
        assert await bench.ask("boss") == [{"sum": 21, "depth": 1, "from": "boss"}, "TypeError", 0]


async def test_asking_deeper_and_deeper_is_stopped_at_the_limit(bench: Workbench) -> None:
    async def deeper(turn: Turn) -> Any:
        return await turn.ask(f"level{turn.depth + 1}")

    async with bench.working({f"level{depth}": deeper for depth in range(25)}) as worker:
        error = await bench.fails("level0")
        assert error["message"].startswith("agent 'level1' ended with error: agent 'level2' ended with error")
        assert error["message"].endswith("This call would be 21 levels deep; the limit is 20.")
        await worker.idle()
        assert worker.counts.failed == 21


async def test_an_agent_does_not_ask_itself(bench: Workbench) -> None:
    async def narcissus(turn: Turn) -> Any:
        return await turn.ask("narcissus")

    async with bench.working(narcissus=narcissus):
        assert "would wait for ever" in (await bench.fails("narcissus"))["message"]


async def test_a_call_may_end_the_turn(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        await turn.request("last", after_execution="terminate")
        raise AssertionError("it never comes back")

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        await bench.answer({"final": True})
        assert from_json((await bench.end(turn_id)).result) == {"final": True}


@pytest.mark.parametrize("last", ["final", "other"])
async def test_a_call_ends_the_turn_although_that_was_put_back_before_its_result_came(
    bench: Workbench, last: str
) -> None:
    async def agent(turn: Turn) -> Any:
        await turn.gather(turn.request("final", after_execution="terminate"), turn.call("other"))
        raise AssertionError("it never comes back")

    agent_key = (DEFAULT_PROJECT, AgentId("agent"))
    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        calls = {call["tool"]: call for call in [await bench.tool_calls.get() for _ in range(2)]}
        first = "other" if last == "final" else "final"
        await bench.report(calls[first], first)
        await bench.kernel.set_gate(agent_key, Gate.CLOSED)
        assert await bench.kernel.preempt(agent_key) == turn_id
        await bench.report(calls[last], last)
        await bench.kernel.set_gate(agent_key, Gate.OPEN)
        assert from_json((await bench.end(turn_id)).result) == "final"


# --- the same path -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("other_tool", "call_1 called 'a' before and 'b' now"),
        ("other_arguments", "call_1 called 'a' with other arguments before"),
        ("no_step", "it ended without asking for 'call_1' again"),
        ("other_card", "card 1 was another one before"),
    ],
)
async def test_another_path_is_found_out_and_said(bench: Workbench, path: str, words: str) -> None:
    runs: list[int] = []

    async def fickle(turn: Turn) -> Any:
        runs.append(1)
        again = len(runs) > 1
        if not (again and path == "no_step"):
            await turn.step("call_1", lambda: 1)  # a name that its call has as well
        await turn.write("note", 2 if again and path == "other_card" else 1)
        tool = "b" if again and path == "other_tool" else "a"
        return await turn.call(tool, x=2 if again and path == "other_arguments" else 1)

    async with bench.working(fickle=fickle):
        turn_id = await bench.send("fickle")
        await bench.answer("result")
        ended = await bench.end(turn_id)
        assert ended.error is not None
        error = from_json(ended.error)
        assert error["code"] == "non_deterministic"
        assert words in error["message"]
        assert "turn.step" in error["hint"]


# --- models ------------------------------------------------------------------------------------------------


async def test_a_model_is_asked_once_although_the_turn_runs_twice(bench: Workbench) -> None:
    bench.script = lambda prompt: Reply(f"you said {prompt.task}")

    async def agent(turn: Turn) -> Any:
        answer = await turn.llm(turn.input, model="gpt-4.1")
        await turn.call("wait")
        return {"text": answer.text, "tokens": answer.usage["total_tokens"], "model": answer.model}

    async with bench.working(agent=agent):
        turn_id = await bench.send("agent", "hello")
        await bench.answer()
        result = from_json((await bench.end(turn_id)).result)
        assert (result["text"], result["model"]) == ("you said hello", "gpt-4.1")
        assert result["tokens"] > 0
    assert bench.upstream.calls == 1


async def test_a_models_tool_calls_are_read(bench: Workbench) -> None:
    bench.script = lambda _: Reply(calls=(ModelCall("1", "search", '{"q": "x"}'), ModelCall("2", "bad", "{")))

    async def agent(turn: Turn) -> Any:
        for stream in (False, True):
            answer = await turn.llm("hello", model="gpt-4.1", stream=stream)
            assert answer.finish_reason == "tool_calls"
        return [[call.call_id, call.name, call.arguments] for call in answer.tool_calls]

    async with bench.working(agent=agent):
        assert await bench.ask("agent") == [["call_1", "search", {"q": "x"}], ["call_2", "bad", "{"]]


async def test_a_streamed_answer_is_emitted_as_it_comes(bench: Workbench) -> None:
    bench.script = lambda _: Reply("one two")

    async def agent(turn: Turn) -> Any:
        answer = await turn.llm("count", model="gpt-4.1", stream=True)
        return [str(answer), answer.usage["completion_tokens"]]

    async with bench.working(agent=agent):
        assert await bench.ask("agent") == ["one two", 2]
    assert bench.chunks == [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]


async def test_a_request_the_model_refuses_fails_the_turn_in_words(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        return await turn.llm([], model="gpt-4.1")

    async with bench.working(agent=agent):
        error = await bench.fails("agent")
        assert error["code"] == "model_refused"
        assert "400" in error["message"]
        assert "empty array" in error["message"]


def test_outside_a_turn_there_is_none() -> None:
    from homeostat.core.errors import InvalidRequest

    with pytest.raises(InvalidRequest, match="there is no turn here"):
        submit_result(x=1)
