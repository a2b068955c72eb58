"""Tools from type hints, the service that makes their calls, and the agent that thinks with them."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
import pytest

from homeostat.adapters.upstreams.simulated import ModelCall, Prompt, Reply
from homeostat.agent.errors import FatalError
from homeostat.agent.react import Profile, ReActAgent, UnknownTools
from homeostat.agent.tools import Tool, remote_tool, tool
from homeostat.agent.turn import Turn
from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import InvalidRequest, SettingInvalid
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.records.card import CardDraft
from homeostat.core.records.tool import OpenCall
from homeostat.core.records.turn import WaitStatus
from homeostat.testing.workbench import Workbench


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool
async def search(
    query: str,
    limit: Annotated[int, msgspec.Meta(ge=1, le=9, description="How many.")] = 3,
    kind: Literal["web", "news"] = "web",
    near: Point | None = None,
) -> list[str]:
    """Find pages about
    a topic.

    More that no model needs to know.
    """
    return [f"{kind}:{query}:{number}:{near.x if near else '-'}" for number in range(limit)]


# --- from hints to schema ----------------------------------------------------------------------------------


def test_a_schema_is_made_of_the_hints() -> None:
    assert (search.name, search.description) == ("search", "Find pages about a topic.")
    assert search.parameters["required"] == ["query"]
    assert search.parameters["additionalProperties"] is False
    assert search.parameters["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "How many.",
        "default": 3,
    }
    assert search.parameters["properties"]["kind"]["enum"] == ["news", "web"]
    assert "Point" in search.parameters["$defs"]


async def test_a_tool_is_still_the_function() -> None:
    assert await search("x", limit=1) == ["web:x:0:-"]


def test_arguments_become_what_the_function_takes() -> None:
    assert search.take({"query": "q", "limit": "2", "near": {"x": 1}}) == {
        "query": "q",
        "limit": 2,
        "kind": "web",
        "near": Point(1),
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `query`"),
        ({"query": 7}, "Expected `str`, got `int` - at `$.query`"),
        ({"query": "q", "limit": 99}, "<= 9"),
        ({"query": "q", "extra": 1}, "unknown field `extra`"),
        ("nonsense", "Expected `object`, got `str`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match="the arguments of search do not fit") as raised:
        search.take(arguments)
    assert words in str(raised.value)


def test_a_function_that_cannot_be_a_tool_says_why() -> None:
    def spreads(*args: str) -> None: ...
    def odd(thing: asyncio.Lock) -> None: ...

    with pytest.raises(InvalidRequest, match=r"tool spreads: a model names its arguments"):
        tool(spreads)
    with pytest.raises(InvalidRequest, match=r"tool odd: .* types that JSON can hold"):
        tool(odd)


def test_name_and_description_may_be_given() -> None:
    @tool(name="add-up", description="Adds.", timeout_seconds=5)
    def anything(a: int, b: int) -> int:
        return a + b

    assert isinstance(anything, Tool)
    assert (anything.name, anything.description, anything.timeout_seconds) == ("add-up", "Adds.", 5)
    assert anything(1, 2) == 3


# --- the service -------------------------------------------------------------------------------------------


async def test_a_service_makes_the_calls_of_its_tools(bench: Workbench) -> None:
    def add(a: int, b: int, call: OpenCall) -> dict[str, Any]:
        """Add two numbers."""
        return {"sum": a + b, "call": call.call_id}

    async def agent(turn: Turn) -> Any:
        return await turn.gather(turn.call("add", a=1, b=2), turn.call("search", query="x", limit=1))

    async with bench.working(agent=agent), bench.serving(add, search) as service:
        assert await bench.ask("agent") == [{"sum": 3, "call": "call_1"}, ["web:x:0:-"]]
        known = await bench.tools.desk().describe()
        assert known["add"].description == "Add two numbers."
        assert service.made == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"number": 0}, "cannot divide by zero"),
        ({"number": "x"}, "the arguments of divide do not fit"),
        ({"number": 7}, "what divide returned is not valid"),
    ],
)
async def test_a_call_that_fails_is_answered_with_what_went_wrong(
    bench: Workbench, args: dict[str, Any], words: str
) -> None:
    def divide(number: int) -> Any:
        if number == 7:
            return object()
        raise ZeroDivisionError("cannot divide by zero")

    async def agent(turn: Turn) -> Any:
        return await turn.call("divide", **args)

    async with bench.working(agent=agent), bench.serving(divide):
        error = await bench.fails("agent")
        assert error["code"] == "call_failed"
        assert words in error["message"]


async def test_a_tool_that_dies_is_covered_by_its_deadline(bench: Workbench) -> None:
    entered = asyncio.Event()

    async def hangs() -> None:
        entered.set()
        await asyncio.Event().wait()

    async def agent(turn: Turn) -> Any:
        return await turn.request("hangs", timeout_seconds=0.2)

    async with bench.working(agent=agent), bench.serving(hangs):
        turn_id = await bench.send("agent")
        await entered.wait()
        ended = await bench.end(turn_id)
        assert ended.error is not None
        assert "hangs ended with timeout" in from_json(ended.error)["message"]


async def test_a_call_made_before_its_service_came_is_not_lost(bench: Workbench) -> None:
    async def agent(turn: Turn) -> Any:
        return await turn.call("search", query="late", limit=1)

    async with bench.working(agent=agent) as worker:
        turn_id = await bench.send("agent")
        await asyncio.wait_for(bench.tool_calls.get(), 5)
        await worker.idle()
        async with bench.serving(search):
            assert from_json((await bench.end(turn_id)).result) == ["web:late:0:-"]


async def test_a_call_goes_to_one_service_at_a_time(bench: Workbench) -> None:
    made: list[str] = []

    def once() -> str:
        made.append("once")
        return "done"

    async def agent(turn: Turn) -> Any:
        return await turn.gather(*(turn.call("once") for _ in range(10)))

    async with bench.working(agent=agent), bench.serving(once), bench.serving(once), bench.serving(once):
        assert await bench.ask("agent") == ["done"] * 10
    assert len(made) == 10


async def test_a_call_whose_service_fell_silent_is_given_to_another(bench: Workbench) -> None:
    from homeostat.core.clock import Millis

    async def agent(turn: Turn) -> Any:
        return await turn.call("search", query="x", limit=1)

    desk = bench.tools.desk()
    async with bench.working(agent=agent):
        turn_id = await bench.send("agent")
        (taken,) = await desk.calls(["search"], limit=5, seconds=5)
        assert await desk.calls(["search"], limit=5, seconds=0) == []
        assert await desk.calls(["search"], limit=5, seconds=0, holding=[taken.key]) == []
        now = bench.kernel.clock.now_ms()
        again = await bench.tools.keeper.take([taken.key], Millis(now + 61_000), Millis(now + 120_000))
        assert again == {taken.key}
        await desk.report(taken, status=WaitStatus.SUCCESS, result=to_json("found"))
        assert from_json((await bench.end(turn_id)).result) == "found"


# --- the ReAct agent ---------------------------------------------------------------------------------------


def agent_with(**profile: Any) -> Any:
    class Thinker(ReActAgent):
        pass

    Thinker.profile = Profile(model="gpt-4.1", **profile)
    return Thinker


def calls(*wanted: tuple[str, Any]) -> Reply:
    return Reply(calls=tuple(ModelCall(f"m{i}", name, to_json(args)) for i, (name, args) in enumerate(wanted)))


class Script:
    """Replies in order, and the prompts that led to them."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.prompts: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        return self.replies.pop(0)


async def test_a_react_agent_thinks_acts_and_answers(bench: Workbench) -> None:
    ran: list[str] = []

    def look(place: str, turn: Turn) -> str:
        """Look somewhere."""
        ran.append(place)
        return f"{place} is empty, says {turn.agent_id}"

    script = bench.script = Script(calls(("look", {"place": "attic"}), ("search", {"query": "attic"})), Reply("Gone."))
    profile: dict[str, Any] = {"system_prompt": "You search.", "tools": (look, "search")}
    box = await bench.kernel.create_box(DEFAULT_PROJECT, [CardDraft("note", to_json("It was blue."))], None)
    async with bench.serving(search), bench.working(thinker=agent_with(**profile)):
        assert await bench.ask("thinker", "Where is it?", context_box_id=box) == "Gone."
    assert ran == ["attic"], "the tool ran once although the turn was suspended for the other"
    first, second = script.prompts
    assert [said.text for said in first.messages] == ["You search.", "Context:\n\n[note]\nIt was blue.", "Where is it?"]
    assert [offer.name for offer in first.tools] == ["look", "search"]
    assert first.tools[0].schema["required"] == ["place"]
    results = [said.text for said in second.messages if said.role == "tool"]
    assert results[0] == "attic is empty, says thinker"
    assert from_json(results[1])[0] == "web:attic:0:-"


async def test_the_simulated_model_alone_carries_a_react_agent_to_its_end(bench: Workbench) -> None:
    def weather(city: str) -> str:
        """How the weather is."""
        return f"fine in {city}"

    thinker = agent_with(tools=(weather,), must_end_with="submit_result")
    async with bench.working(thinker=thinker):
        result = await bench.ask("thinker", "Is it fine?", result_fields=[{"name": "summary"}, {"name": "score"}])
        assert set(result) == {"summary", "score"}


async def test_a_result_without_its_fields_goes_back_to_the_model(bench: Workbench) -> None:
    script = bench.script = Script(
        Reply("I think it is 42."),
        calls(("submit_result", {"wrong": 1})),
        calls(("submit_result", {"answer": 42})),
    )
    async with bench.working(thinker=agent_with()):
        assert await bench.ask("thinker", "?", result_fields=[{"name": "answer"}]) == {"answer": 42}
    assert "End by calling submit_result" in script.prompts[1].messages[-1].text
    assert "misses required fields: answer" in script.prompts[2].messages[-1].text


async def test_a_tool_of_ones_own_may_end_the_turn(bench: Workbench) -> None:
    def file_ticket(title: str) -> dict[str, str]:
        """File a ticket."""
        return {"ticket": title.upper()}

    bench.script = Script(Reply("Let me think."), calls(("file_ticket", {"title": "leak"})))
    async with bench.working(thinker=agent_with(tools=(file_ticket,), must_end_with="file_ticket")):
        assert await bench.ask("thinker", "There is a leak.") == {"ticket": "LEAK"}


async def test_the_last_step_is_forced_and_then_it_is_over(bench: Workbench) -> None:
    script = bench.script = Script(*[Reply("Hm.")] * 3)
    async with bench.working(thinker=agent_with(must_end_with="submit_result", max_steps=3)):
        error = await bench.fails("thinker", "?")
        assert error["message"] == "No result after 3 steps (max_steps of the profile)."
    assert [prompt.must_call for prompt in script.prompts] == [None, None, "submit_result"]


async def test_the_model_is_told_of_tools_that_fail_and_may_go_on(bench: Workbench) -> None:
    def breaks(how: str) -> None:
        raise ValueError(f"broken {how}")

    script = bench.script = Script(
        calls(("breaks", {"how": "badly"}), ("nothing", {}), ("breaks", {}), ("search", {"query": 1})),
        Reply("I give up."),
    )
    async with bench.serving(search), bench.working(thinker=agent_with(tools=(breaks, "search"))):
        assert await bench.ask("thinker", "?") == "I give up."
    told = [said.text for said in script.prompts[1].messages if said.role == "tool"]
    assert told[0] == '{"error":"breaks failed: broken badly"}'
    assert "there is no tool 'nothing', only breaks, search" in told[1]
    assert "missing required field `how`" in told[2]
    assert "the arguments of search do not fit" in told[3]


async def test_a_fatal_error_in_a_tool_is_fatal(bench: Workbench) -> None:
    def breaks() -> None:
        raise FatalError("no disk")

    bench.script = Script(calls(("breaks", {})))
    async with bench.working(thinker=agent_with(tools=(breaks,))):
        assert (await bench.fails("thinker", "?"))["code"] == "fatal_error"


async def test_a_profile_with_an_unknown_tool_does_not_start(bench: Workbench) -> None:
    thinker = agent_with(tools=("search", "telepathy"), must_end_with="wish")
    with pytest.raises(UnknownTools, match=r"nobody has registered: telepathy, wish \(known: search\)"):
        thinker().equip({"search": search.spec()})
    thinker = agent_with(tools=(remote_tool("telepathy"),))
    thinker().equip({})


def test_a_profile_says_what_is_wrong_with_it() -> None:
    with pytest.raises(SettingInvalid, match="names the model"):
        Profile(model="")
    with pytest.raises(SettingInvalid, match="max_steps"):
        Profile(model="m", max_steps=0)
