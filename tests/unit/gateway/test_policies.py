"""Each policy does what it says, all of them together, at once and after a restart."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.upstreams.simulated import ModelCall, Pace, Reply, SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import SimulatedResponse
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import POLICY_STALE_SECONDS, RATE_KEPT_SECONDS
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.call import Outcome
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.gateway.policies import PolicyBook
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import ANN, INSTANT, KEY, Keys, booth, later, until

MESSAGES: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "Hello"}],
}
BOB = (DEFAULT_PROJECT, AgentId("bob"))
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("search", "delete_all")]


async def test_a_blocked_agent_hears_the_exact_words_in_its_own_language() -> None:
    upstream = SimulatedUpstream(pace=INSTANT)
    async with booth(upstream=upstream) as desk:
        await desk.put(Action.BLOCK, origin=PolicyOrigin.IMMUNE, reason="7 sigma")
        heard = await desk.chat()
        assert heard.status == 503
        assert heard.json["error"]["message"] == "Agent is quarantined by immune system"
        assert heard.json["error"]["code"] == "agent_quarantined"
        assert heard.headers["x-should-retry"] == "false"
        claude = await desk.call("/anthropic/v1/messages", MESSAGES)
        assert claude.status == 503
        assert claude.json["type"] == "error"
        assert claude.json["error"]["message"] == "Agent is quarantined by immune system"
        assert claude.headers["x-should-retry"] == "false"
        assert (await desk.call("/openai/v1/models", method="GET")).status == 503
        assert upstream.calls == 0
        assert await desk.gateway.drop_policy(DEFAULT_PROJECT, PolicyId("block"))
        assert (await desk.chat()).status == 200


async def test_one_who_hammers_fills_a_row_and_not_a_table() -> None:
    async with booth() as desk:
        await desk.put(Action.BLOCK)
        for _ in range(50):
            await desk.chat()
        (call,) = await desk.log()
        assert (call.outcome, call.code, call.policy_id, call.repeats) == (
            Outcome.REFUSED,
            "agent_quarantined",
            "block",
            50,
        )


async def test_a_policy_is_for_its_agent_or_for_all() -> None:
    keys = Keys({KEY: ANN, "hs_bob": BOB})
    async with booth(keys=keys) as desk:
        await desk.put(Action.BLOCK, agent="bob")
        assert ((await desk.chat()).status, (await desk.chat(key="hs_bob")).status) == (200, 503)
        await desk.put(Action.BLOCK, agent=None)
        assert ((await desk.chat()).status, (await desk.chat(key="hs_bob")).status) == (503, 503)


async def test_draining_lets_open_requests_end_and_counts_them() -> None:
    gate = asyncio.Event()

    async def pause(_: float) -> None:
        await gate.wait()

    upstream = SimulatedUpstream(pace=Pace(1.0, 0.0), pause=pause)
    async with booth(upstream=upstream) as desk:
        open_calls = [asyncio.create_task(desk.chat(f"call {n}")) for n in range(3)]
        await until(lambda: upstream.calls == 3)
        await desk.put(Action.DRAIN)
        version = desk.gateway.book.version
        refused = await desk.chat()
        assert (refused.status, refused.json["error"]["code"]) == (503, "agent_draining")
        assert refused.headers["x-should-retry"] == "false"
        assert desk.gateway.in_flight_here(ANN) == 3
        assert await desk.gateway.in_flight(ANN) == 3
        assert not await desk.gateway.drained(ANN, version)
        gate.set()
        assert [heard.status for heard in await asyncio.gather(*open_calls)] == [200, 200, 200]
        assert desk.gateway.in_flight_here(ANN) == 0
        assert await desk.gateway.in_flight(ANN) == 0
        assert await desk.gateway.drained(ANN, version)


async def test_a_policy_ends_when_it_expires() -> None:
    clock = ManualClock()
    async with booth(clock=clock) as desk:
        await desk.put(Action.BLOCK, expires_at_ms=later(clock, 60))
        assert (await desk.chat()).status == 503
        clock.advance(61)
        assert (await desk.chat()).status == 200
        assert desk.gateway.book.all(DEFAULT_PROJECT) == []


async def test_policies_are_in_force_before_the_first_request_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with booth(path=path) as desk:
        await desk.put(Action.BLOCK)
    async with booth(path=path) as desk:
        assert (await desk.chat()).status == 503


async def test_other_processes_obey_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    """Two gateways on one file that cannot hear each other."""
    clock = ManualClock()
    engines = [SqliteEngine(tmp_path / "x.db") for _ in range(2)]
    for engine in engines:
        await engine.open()
    stores = [SqliteGateway(engine) for engine in engines]
    async with booth(store=stores[0], clock=clock) as one, booth(store=stores[1], clock=clock) as other:
        assert (await other.chat()).status == 200
        await one.put(Action.BLOCK)
        clock.advance(0.1)
        assert (await other.chat()).status == 503
        await one.gateway.drop_policy(DEFAULT_PROJECT, PolicyId("block"))
        clock.advance(0.1)
        assert (await other.chat()).status == 200
    for engine in engines:
        await engine.close()


async def test_gateways_on_one_bus_obey_at_once(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = SqliteGateway(engine)
    async with booth(store=store) as one, booth(store=store, bus=one.bus) as other:
        await one.put(Action.BLOCK)
        assert (await other.chat()).status == 503
    await engine.close()


# --- rates ----------------------------------------------------------------------------------------------------


async def test_a_rate_limit_holds_under_concurrency() -> None:
    async with booth() as desk:
        await desk.put(Action.RATE_LIMIT, requests_per_minute=7)
        heard = await asyncio.gather(*(desk.chat(f"{n}") for n in range(100)))
        assert sorted(answer.status for answer in heard) == [200] * 7 + [429] * 93
        refused = next(answer for answer in heard if answer.status == 429)
        assert refused.json["error"]["code"] == "rate_limited"
        assert 0 < int(refused.headers["retry-after"]) <= 60


async def test_tokens_per_minute_count_the_bound_first_and_the_truth_after() -> None:
    clock = ManualClock()
    async with booth(clock=clock) as desk:
        await desk.put(Action.RATE_LIMIT, tokens_per_minute=900)
        heard = await asyncio.gather(*(desk.chat(f"{n}", max_tokens=400) for n in range(8)))
        assert sorted(answer.status for answer in heard) == [200] + [429] * 7
        used = sum(call.usage.tokens for call in await desk.log(outcome=Outcome.ANSWERED))
        assert used < 200
        assert (await desk.chat(max_tokens=400)).status == 200  # what the first did not use is there again
        clock.advance(RATE_KEPT_SECONDS)
        assert (await desk.chat(max_tokens=800)).status == 200


async def test_an_answer_is_kept_short_where_few_tokens_are_left() -> None:
    async with booth() as desk:
        await desk.put(Action.RATE_LIMIT, tokens_per_minute=200)
        assert (await desk.chat()).status == 200
        (call,) = await desk.log()
        assert call.usage.tokens <= 200


async def test_a_refused_call_takes_nothing_from_other_limits() -> None:
    async with booth() as desk:
        await desk.put(Action.RATE_LIMIT, policy_id="a", requests_per_minute=2)
        await desk.put(Action.RATE_LIMIT, policy_id="b", requests_per_minute=1)
        assert [(await desk.chat()).status for _ in range(3)] == [200, 429, 429]
        await desk.gateway.drop_policy(DEFAULT_PROJECT, PolicyId("b"))
        assert [(await desk.chat()).status for _ in range(2)] == [200, 429]


# --- what may be asked for --------------------------------------------------------------------------------------


async def test_models() -> None:
    async with booth() as desk:
        await desk.put(Action.MODEL_FILTER, allow=("gpt-4o*",), deny=("gpt-4o-audio*",))
        assert (await desk.chat()).status == 200
        refused = await desk.chat(model="gpt-4o-audio-preview")
        assert (refused.status, refused.json["error"]["code"]) == (403, "model_denied")
        assert (await desk.chat(model="o3")).status == 403


@pytest.mark.parametrize(
    ("said", "status", "models"),
    [
        (b'"model":"o3","model":"gpt-4o"', 200, ["gpt-4o"]),
        (b'"model":"gpt-4o","model":"o3"', 403, []),
        (b'"mod\\u0065l":"o3","model":"gpt-4o"', 200, ["gpt-4o"]),
        (b'"Model":"o3","model":"gpt-4o"', 400, []),
        (b'"model":"gpt-4o","MODEL":"o3"', 400, []),
        (b'"model":"gpt-4o","max_to\xe2\x84\xaaens":9000', 400, []),
        (b'"prompt":{"id":"pmpt_1"}', 403, []),
    ],
)
async def test_a_model_has_one_name_for_whoever_reads_it(said: bytes, status: int, models: list[str]) -> None:
    """Some read the first of two members, and some do not look whether a letter is large."""
    seen: list[bytes] = []

    class Reader(SimulatedUpstream):
        async def send(self, request: UpstreamRequest) -> SimulatedResponse:
            assert isinstance(request.body, bytes)
            seen.append(request.body)
            return await super().send(request)

    async with booth(upstream=Reader(pace=INSTANT)) as desk:
        await desk.put(Action.MODEL_FILTER, allow=("gpt-4o*",))
        heard = await desk.call(
            "/openai/v1/chat/completions", b'{%b,"messages":[{"role":"user","content":"Hello"}]}' % said
        )
        assert heard.status == status
    read = [json.loads(body, object_pairs_hook=list) for body in seen]
    assert [value for pairs in read for name, value in pairs if name == "model"] == models


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 200),
        ({"content-type": 'application/json; charset="UTF-8"'}, 200),
        ({"content-encoding": "identity"}, 200),
        ({"content-type": "application/json; charset=utf-7"}, 400),
        ({"content-type": "application/json; Charset=utf-7; x=utf-8"}, 400),
        ({"content-encoding": "deflate"}, 400),
    ],
)
async def test_a_body_says_the_same_to_whoever_reads_it(headers: dict[str, str], status: int) -> None:
    """`+AG0-odel` is `model` for whoever believes in UTF-7, which libraries for Node do."""
    async with booth() as desk:
        assert (await desk.chat(headers=headers)).status == 200
        await desk.put(Action.MODEL_FILTER, allow=("gpt-4o*",))
        assert (await desk.chat(headers=headers)).status == status


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_a_token_cap_lowers_what_is_asked_for(field: str) -> None:
    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("word " * 400))) as desk:
        await desk.put(Action.TOKEN_CAP, max_tokens=20)
        tries: list[dict[str, Any]] = [{}, {field: 500}, {field: 10}]
        for asked in tries:
            heard = await desk.chat(**asked)
            assert heard.json["usage"]["completion_tokens"] <= min(20, asked.get(field, 20))
        claude = await desk.call("/anthropic/v1/messages", {**MESSAGES, "max_tokens": 500})
        assert claude.json["usage"]["output_tokens"] <= 20
        await desk.put(Action.TOKEN_CAP, max_tokens=20, refuse=True)
        assert (await desk.chat(**tries[1])).status == 403


def calls_both(prompt: Any) -> Reply:
    del prompt
    return Reply(
        "Let me see.",
        calls=tuple(ModelCall(name[0] * 24, name, '{"q":1}') for name in ("delete_all", "search")),
    )


async def test_tools_are_taken_out_of_requests() -> None:
    seen: list[tuple[str, ...]] = []

    def script(prompt: Any) -> Reply:
        seen.append(tuple(tool.name for tool in prompt.tools))
        return Reply("ok")

    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=script)) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        forced = {"type": "function", "function": {"name": "delete_all"}}
        assert (await desk.chat(tools=TOOLS, tool_choice=forced)).status == 200
        await desk.put(Action.TOOL_FILTER, deny=("*",))
        assert (await desk.chat(tools=TOOLS, parallel_tool_calls=False)).status == 200
        assert seen == [("search",), ()]
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",), refuse=True)
        refused = await desk.chat(tools=TOOLS)
        assert (refused.status, refused.json["error"]["code"]) == (403, "tool_denied")


def streamed(body: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("deny", ["delete_all", "*"])
async def test_tools_are_taken_out_of_chat_answers(deny: str) -> None:
    left = [] if deny == "*" else ["search"]
    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=calls_both)) as desk:
        await desk.put(Action.TOOL_FILTER, deny=(deny,))
        whole = (await desk.chat()).json["choices"][0]
        assert [call["function"]["name"] for call in whole["message"].get("tool_calls", [])] == left
        assert whole["finish_reason"] == ("tool_calls" if left else "stop")
        chunks = streamed((await desk.chat(stream=True)).body)
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert [call["function"]["name"] for call in calls if "id" in call] == left
        assert {call["index"] for call in calls} == ({0} if left else set())
        assert "".join(delta.get("content") or "" for delta in deltas) == "Let me see."
        assert chunks[-1]["choices"][0]["finish_reason"] == ("tool_calls" if left else "stop")
        (call, _) = await desk.log()
        assert [use.name for use in call.tool_calls] == ["delete_all", "search"]  # what the model wanted is known


async def test_tools_are_taken_out_of_messages() -> None:
    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=calls_both)) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_all",))
        whole = (await desk.call("/anthropic/v1/messages", MESSAGES)).json
        assert [block.get("name") for block in whole["content"]] == [None, "search"]
        events = streamed((await desk.call("/anthropic/v1/messages", {**MESSAGES, "stream": True})).body)
        starts = [event for event in events if event["type"] == "content_block_start"]
        assert [(event["index"], event["content_block"].get("name")) for event in starts] == [(0, None), (1, "search")]
        assert {event["index"] for event in events if "index" in event} == {0, 1}
        await desk.put(Action.TOOL_FILTER, deny=("*",))
        events = streamed((await desk.call("/anthropic/v1/messages", {**MESSAGES, "stream": True})).body)
        (delta,) = [event for event in events if event["type"] == "message_delta"]
        assert delta["delta"]["stop_reason"] == "end_turn"


async def test_tools_are_taken_out_of_responses() -> None:
    asked = {"model": "gpt-4o-mini", "input": "Hello"}
    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=calls_both)) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_all",))
        whole = (await desk.call("/openai/v1/responses", asked)).json
        assert [item.get("name") for item in whole["output"]] == [None, "search"]
        events = streamed((await desk.call("/openai/v1/responses", {**asked, "stream": True})).body)
        added = [event for event in events if event["type"] == "response.output_item.added"]
        assert [(event["output_index"], event["item"].get("name")) for event in added] == [(0, None), (1, "search")]
        assert [item.get("name") for item in events[-1]["response"]["output"]] == [None, "search"]


async def test_clear_context_tells_the_upstream_and_the_agent() -> None:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    class Curious(SimulatedUpstream):
        async def send(self, request: Any) -> Any:
            seen.append(dict(request.headers))
            return await super().send(request)

    seen: list[dict[bytes, bytes]] = []
    async with booth(upstream=Curious(pace=INSTANT)) as desk:
        await desk.bus.subscribe(subject("*", Channel.CMD, "agent", "*", "control"), hear)
        await desk.put(Action.CLEAR_CONTEXT)
        await desk.chat()
        assert seen[0][b"x-clear-context"] == b"true"
        assert json.loads(heard[0].payload)["control"] == "clear_context"
        await desk.gateway.drop_policy(DEFAULT_PROJECT, PolicyId("clear_context"))
        await desk.chat()
        assert b"x-clear-context" not in seen[1]


async def test_an_alert_speaks_up_and_refuses_nothing() -> None:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    async with booth() as desk:
        await desk.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "alert"), hear)
        await desk.put(Action.ALERT, max_tokens=10_000, reason="too much")
        assert (await desk.chat()).status == 200
        await desk.log()
        assert heard == []
        await desk.put(Action.ALERT)
        assert (await desk.chat()).status == 200
        await desk.log()
        assert json.loads(heard[0].payload)["policy_id"] == "alert"


# --- what a policy may say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "terms"),
    [
        (Action.RATE_LIMIT, {}),
        (Action.RATE_LIMIT, {"requests_per_minute": 0}),
        (Action.RATE_LIMIT, {"requests_per_minute": -1}),
        (Action.RATE_LIMIT, {"requests_per_minute": 1, "max_tokens": 5}),
        (Action.TOKEN_CAP, {}),
        (Action.MODEL_FILTER, {}),
        (Action.TOOL_FILTER, {"requests_per_minute": 5}),
        (Action.BLOCK, {"allow": ("x",)}),
    ],
)
async def test_a_policy_that_means_nothing_is_refused(action: Action, terms: dict[str, Any]) -> None:
    async with booth() as desk:
        with pytest.raises(InvalidRequest):
            await desk.put(action, **terms)
        assert (await desk.chat()).status == 200


async def test_a_policy_is_rehearsed_on_the_past() -> None:
    async with booth() as desk:
        for _ in range(5):
            await desk.chat()
        await desk.chat(model="o3")
        await desk.chat(tools=TOOLS)
        (some, *_) = await desk.log()

        async def tried(action: Action, **terms: Any) -> tuple[int, int, int]:
            policy = Policy(
                policy_id=PolicyId("x"),
                project=DEFAULT_PROJECT,
                agent_id=ANN[1],
                action=action,
                created_at_ms=some.started_at_ms,
                **terms,
            )
            found = await desk.gateway.rehearse(policy, since_ms=0, limit=1000)
            return found.seen, found.refused, found.trimmed

        assert await tried(Action.BLOCK) == (7, 7, 0)
        assert await tried(Action.MODEL_FILTER, deny=("o3",)) == (7, 1, 0)
        assert await tried(Action.RATE_LIMIT, requests_per_minute=3) == (7, 4, 0)
        assert await tried(Action.TOKEN_CAP, max_tokens=1) == (7, 0, 7)
        assert await tried(Action.TOOL_FILTER, deny=("search",)) == (7, 0, 1)
        assert await tried(Action.TOOL_FILTER, deny=("search",), refuse=True) == (7, 1, 0)
        assert (await desk.chat()).status == 200
    assert structs.replace(some, code="x").code == "x"


class LateAnswers:
    """A store whose answers say what was so when it was asked, and come when they are let through."""

    def __init__(self) -> None:
        self.kept: list[Policy] = []
        self.asked = 0
        self.through = asyncio.Event()
        self.through.set()

    async def version(self) -> int:
        found = len(self.kept)
        self.asked += 1
        await self.through.wait()
        return found

    async def policies(self) -> tuple[int, list[Policy]]:
        return len(self.kept), list(self.kept)


async def test_a_gateway_that_slept_believes_no_answer_from_before() -> None:
    """Stopped while the store's answer was on its way, it woke up, read it, and served an agent isolated meanwhile."""
    store, clock = LateAnswers(), ManualClock()
    book = PolicyBook(
        store=cast("GatewayStore", store),
        bus=LocalBus(),
        clock=clock,
        changed=lambda: None,
        allowance_of=lambda _: pytest.fail("there is no limit"),
    )
    await book.open()
    clock.advance(POLICY_STALE_SECONDS)
    store.through.clear()
    assert not book.is_stale(clock.monotonic()), "it is asked, and what is known is believed meanwhile"
    await asyncio.sleep(0)
    assert store.asked == 1
    clock.advance(2.0)
    block = Policy(
        policy_id=PolicyId("block"),
        project=DEFAULT_PROJECT,
        agent_id=ANN[1],
        action=Action.BLOCK,
        created_at_ms=clock.now_ms(),
    )
    store.kept.append(block)
    store.through.set()
    assert book.is_stale(clock.monotonic())
    await book.settle()
    assert store.asked == 2
    assert book.get(DEFAULT_PROJECT, block.policy_id) == block
    assert not book.is_stale(clock.monotonic())
