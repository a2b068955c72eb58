"""The simulated model speaks the public wire formats to the byte, repeats itself by seed, and keeps a model's pace."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from homeostat.adapters.upstreams.simulated import ModelCall, Pace, Prompt, Reply, SimulatedUpstream, tokens
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.core.clock import Millis
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ports.upstream import Upstream, UpstreamRequest

SEARCH = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["query", "limit"],
}
HELLO = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hello"}]}


class Noon:
    def now_ms(self) -> Millis:
        return Millis(1_700_000_000_000)

    def monotonic(self) -> float:
        return 0.0


def says(*replies: Reply) -> SimulatedUpstream:
    waiting = list(replies)
    return SimulatedUpstream(pace=INSTANT, clock=Noon(), script=lambda _: waiting.pop(0))


def post(target: str, body: Any, *headers: tuple[bytes, bytes]) -> UpstreamRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return UpstreamRequest(b"POST", target.encode(), [(b"content-type", b"application/json"), *headers], content)


async def ask(upstream: Upstream, request: UpstreamRequest) -> tuple[int, bytes]:
    response = await upstream.send(request)
    body = b""
    while block := await response.read():
        body += block
    return response.status, body


async def told(upstream: Upstream, target: str, body: Any, *headers: tuple[bytes, bytes]) -> Any:
    status, answer = await ask(upstream, post(target, body, *headers))
    assert status == 200, answer
    return json.loads(answer)


def masked(stream: bytes) -> str:
    """A stream without what its seed made up."""
    text = stream.decode()
    text = re.sub(r'"chatcmpl-\w{29}"', '"chatcmpl-X"', text)
    text = re.sub(r'"fp_[0-9a-f]{10}"', '"fp_X"', text)
    text = re.sub(r'"msg_01\w{22}"', '"msg_01X"', text)
    text = re.sub(r'"resp_[0-9a-f]{48}"', '"resp_X"', text)
    return re.sub(r'"msg_[0-9a-f]{44}"', '"msg_X"', text)


# --- the wire ----------------------------------------------------------------------------------------------

HEAD = (
    '{"id":"chatcmpl-X","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4.1",'
    '"service_tier":"default","system_fingerprint":"fp_X","choices":'
)


async def test_a_chat_stream_is_exact_to_the_byte() -> None:
    asked = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
    status, body = await ask(says(Reply("Hi there")), post("/v1/chat/completions", asked))
    assert status == 200
    usage = (
        '{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10,'
        '"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},'
        '"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,'
        '"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}'
    )
    deltas = ['{"role":"assistant","content":"","refusal":null}', '{"content":"Hi"}', '{"content":" there"}']
    chunks = [f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}],"usage":null' for delta in deltas]
    chunks.append('[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null')
    chunks.append(f'[],"usage":{usage}')
    expected = "".join(f"data: {HEAD}{chunk}}}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    assert masked(body) == expected


async def test_a_chat_stream_spells_out_a_tool_call() -> None:
    asked = HELLO | {"stream": True}
    reply = Reply(calls=(ModelCall("abc", "search", '{"q":1}'),))
    _, body = await ask(says(reply), post("/v1/chat/completions", asked))
    deltas = [
        '{"role":"assistant","content":null,"refusal":null}',
        '{"tool_calls":[{"index":0,"id":"call_abc","type":"function","function":{"name":"search","arguments":""}}]}',
        *(
            f'{{"tool_calls":[{{"index":0,"function":{{"arguments":{json.dumps(piece)}}}}}]}}'
            for piece in tokens.pieces('{"q":1}')
        ),
    ]
    chunks = [f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]' for delta in deltas]
    chunks.append('[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]')
    assert masked(body) == "".join(f"data: {HEAD}{chunk}}}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


async def test_an_anthropic_stream_is_exact_to_the_byte() -> None:
    asked = {"model": "claude-x", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    reply = Reply("Hi", (ModelCall("A" * 24, "search", "{}"),))
    _, body = await ask(says(reply), post("/v1/messages", asked, (b"anthropic-version", b"2023-06-01")))
    assert masked(body) == (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_01X","type":"message",'
        '"role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,'
        '"usage":{"input_tokens":8,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,'
        '"service_tier":"standard"}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        'event: ping\ndata: {"type": "ping"}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
        '"content_block":{"type":"tool_use","id":"toolu_01AAAAAAAAAAAAAAAAAAAAAA","name":"search","input":{}}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
        '"delta":{"type":"input_json_delta","partial_json":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
        '"delta":{"type":"input_json_delta","partial_json":"{"}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
        '"delta":{"type":"input_json_delta","partial_json":"}"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},'
        '"usage":{"output_tokens":8}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )


async def test_a_response_stream_counts_its_events_and_repeats_itself_at_the_end() -> None:
    asked = {"model": "gpt-4.1", "input": "Hello", "stream": True}
    _, body = await ask(says(Reply("Hi there")), post("/v1/responses", asked))
    events = [block.split("\n", 1) for block in body.decode().removesuffix("\n\n").split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert names == [value["type"] for value in data]
    assert [value["sequence_number"] for value in data] == list(range(len(data)))
    assert names == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    final = data[-1]["response"]
    assert final["output"][0]["content"][0]["text"] == "Hi there"
    assert final["usage"]["output_tokens"] == 2
    assert final["status"] == "completed"


async def test_answers_in_one_piece_have_the_same_content() -> None:
    chat = await told(says(Reply("Hi")), "/v1/chat/completions", HELLO)
    assert chat["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    message = await told(says(Reply("Hi")), "/v1/messages", HELLO | {"max_tokens": 5})
    assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "Hi"}], "end_turn")
    response = await told(says(Reply("Hi")), "/v1/responses", {"model": "gpt-4.1", "input": "Hello"})
    assert response["output"][0]["content"][0]["text"] == "Hi"


async def test_several_choices_are_several_answers() -> None:
    chat = await told(SimulatedUpstream(pace=INSTANT), "/v1/chat/completions", HELLO | {"n": 3})
    assert [choice["index"] for choice in chat["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in chat["choices"]}) == 3


async def test_embeddings_have_length_one_and_lie_near_their_like() -> None:
    upstream = SimulatedUpstream(pace=INSTANT)
    asked = {"model": "text-embedding-3-small", "input": ["red fox", "red hen", "tax law"], "dimensions": 256}
    answer = await told(upstream, "/v1/embeddings", asked)
    fox, hen, law = (item["embedding"] for item in answer["data"])

    def near(one: list[float], other: list[float]) -> float:
        return sum(x * y for x, y in zip(one, other, strict=True))

    assert near(fox, fox) == pytest.approx(1.0, abs=1e-3)
    assert near(fox, hen) > near(fox, law)
    packed = await told(upstream, "/v1/embeddings", asked | {"encoding_format": "base64"})
    assert isinstance(packed["data"][0]["embedding"], str)


async def test_models_are_listed_the_way_each_api_does() -> None:
    upstream = SimulatedUpstream(pace=INSTANT)
    _, openai = await ask(upstream, UpstreamRequest(b"GET", b"/v1/models", []))
    assert json.loads(openai)["object"] == "list"
    _, anthropic = await ask(upstream, UpstreamRequest(b"GET", b"/v1/models", [(b"anthropic-version", b"2023-06-01")]))
    assert json.loads(anthropic)["has_more"] is False


# --- the mind ----------------------------------------------------------------------------------------------


async def test_the_same_seed_gives_the_same_answer() -> None:
    answers = [
        await told(SimulatedUpstream(seed=seed, pace=INSTANT, clock=Noon()), "/v1/chat/completions", HELLO)
        for seed in (1, 1, 2)
    ]
    assert answers[0] == answers[1]
    assert answers[0]["choices"] != answers[2]["choices"]


async def test_it_calls_each_tool_and_then_closes() -> None:
    upstream = SimulatedUpstream(seed=1, pace=INSTANT)
    tools = [
        {"type": "function", "function": {"name": name, "parameters": SEARCH}}
        for name in ("submit_result", "search", "fetch")
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "find it"}]
    called: list[str] = []
    while True:
        asked = {"model": "gpt-4.1", "messages": messages, "tools": tools, "parallel_tool_calls": False}
        message = (await told(upstream, "/v1/chat/completions", asked))["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            called.append(call["function"]["name"])
            arguments = json.loads(call["function"]["arguments"])
            assert arguments["query"] == "find it"
            assert 1 <= arguments["limit"] <= 3
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "done"})
    assert called == ["search", "fetch", "submit_result"]
    assert message["content"]


@pytest.mark.parametrize(
    ("choice", "names"),
    [("none", []), ("required", ["search"]), ({"type": "function", "function": {"name": "fetch"}}, ["fetch"])],
)
async def test_it_obeys_the_tool_choice(choice: Any, names: list[str]) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": SEARCH}} for name in ("search", "fetch")]
    asked = HELLO | {"tools": tools, "tool_choice": choice, "parallel_tool_calls": False}
    message = (await told(SimulatedUpstream(pace=INSTANT), "/v1/chat/completions", asked))["choices"][0]["message"]
    assert [call["function"]["name"] for call in message.get("tool_calls", [])] == names


async def test_a_schema_is_answered_with_json_that_fits_it() -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 2},
        },
        "required": ["kind", "parts"],
        "$defs": {"part": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}},
    }
    asked = HELLO | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    answer = await told(SimulatedUpstream(pace=INSTANT), "/v1/chat/completions", asked)
    value = json.loads(answer["choices"][0]["message"]["content"])
    assert value["kind"] in ("a", "b")
    assert [type(part["ok"]) for part in value["parts"]] == [bool, bool]


async def test_a_token_cap_cuts_the_answer_and_says_so() -> None:
    chat = await told(says(Reply("one two three four")), "/v1/chat/completions", HELLO | {"max_tokens": 2})
    assert chat["choices"][0]["message"]["content"] == "one two"
    assert chat["choices"][0]["finish_reason"] == "length"
    assert chat["usage"]["completion_tokens"] == 2
    response = await told(
        says(Reply("one two three")), "/v1/responses", {"model": "m", "input": "x", "max_output_tokens": 1}
    )
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_pieces_joined_are_the_text() -> None:
    text = 'Unbelievably, 1234 items_left\n\n  "ok" — größer 🦊!'
    assert "".join(tokens.pieces(text)) == text
    assert tokens.count(text) == len(tokens.pieces(text))
    assert 0.18 < tokens.count("The quick brown fox jumps over the lazy dog, twice a day. " * 20) / (58 * 20) < 0.30


def test_a_prompt_knows_what_was_done_since_it_was_last_asked() -> None:
    from homeostat.adapters.upstreams.simulated import Said

    prompt = Prompt(
        model="m",
        messages=(
            Said("user", "first"),
            Said("assistant", "", ("old",)),
            Said("user", "second"),
            Said("assistant", "", ("new",)),
            Said("tool", "x"),
        ),
    )
    assert (prompt.task, prompt.done) == ("second", ("new",))


# --- pace and faults ---------------------------------------------------------------------------------------


async def test_it_keeps_the_pace_it_was_given() -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    pace = Pace(first_token_seconds=1.0, token_seconds=0.1, spread=0.0)
    upstream = SimulatedUpstream(pace=pace, pause=pause, script=lambda _: Reply("one two three"))
    await told(upstream, "/v1/chat/completions", HELLO)
    assert pauses == [pytest.approx(1.3)]
    pauses.clear()
    await ask(upstream, post("/v1/chat/completions", HELLO | {"stream": True}))
    assert pauses == [pytest.approx(1.0), *[pytest.approx(0.1)] * 3]


async def test_an_answer_that_is_let_go_ends_its_reader() -> None:
    begun = asyncio.Event()

    async def pause(seconds: float) -> None:
        if seconds < 0.5:
            begun.set()
            await asyncio.Event().wait()

    upstream = SimulatedUpstream(pace=Pace(1.0, 0.1, 0.0), pause=pause, script=lambda _: Reply("one two three"))
    response = await upstream.send(post("/v1/chat/completions", HELLO | {"stream": True}))
    assert not response.complete
    assert await response.read()
    reading = asyncio.create_task(response.read())
    await begun.wait()
    response.close()
    with pytest.raises(UpstreamFailed, match="let go"):
        await reading
    with pytest.raises(UpstreamFailed):
        await response.read()


@pytest.mark.parametrize(
    ("target", "body", "status"),
    [
        ("/v1/chat/completions", b"{", 400),
        ("/v1/chat/completions", [], 400),
        ("/v1/chat/completions", {"model": "m"}, 400),
        ("/v1/chat/completions", {"model": "m", "messages": []}, 400),
        ("/v1/chat/completions", {"model": "m", "messages": "hi"}, 400),
        ("/v1/chat/completions", {"model": 7, "messages": [{"role": "user"}]}, 400),
        ("/v1/chat/completions", HELLO | {"n": 10_000}, 400),
        ("/v1/chat/completions", HELLO | {"max_tokens": -1}, 400),
        ("/v1/chat/completions", HELLO | {"tools": [{"function": {"name": "x", "parameters": {"enum": 5}}}]}, 400),
        ("/v1/chat/completions", HELLO | {"stream_options": "x", "tool_choice": {"x": 1}}, 200),
        ("/v1/responses", {"model": "m"}, 400),
        ("/v1/embeddings", {"model": "m", "input": []}, 400),
        ("/v1/messages", HELLO, 400),
        ("/v1/nowhere", {}, 404),
    ],
)
async def test_what_the_api_would_not_take_is_refused_in_its_words(target: str, body: Any, status: int) -> None:
    upstream = SimulatedUpstream(pace=INSTANT)
    found, answer = await ask(upstream, post(target, body))
    assert found == status
    if status != 200:
        assert json.loads(answer)["error"]["type"] == "invalid_request_error"
        _, anthropic = await ask(upstream, post(target, body, (b"anthropic-version", b"2023-06-01")))
        assert json.loads(anthropic)["type"] == "error"


async def test_a_body_may_come_in_pieces() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        content = json.dumps(HELLO).encode()
        yield content[:10]
        yield content[10:]

    request = UpstreamRequest(b"POST", b"/v1/chat/completions", [], pieces())
    assert (await ask(SimulatedUpstream(pace=INSTANT), request))[0] == 200
