"""What each API asks for and answers is read right, whole or streamed, however the stream is cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.adapters.upstreams.simulated import ModelCall, Reply, SimulatedUpstream
from homeostat.core.errors import MalformedPayload
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.call import Api, Usage
from homeostat.gateway.dialects.anthropic_messages import AnthropicMessages
from homeostat.gateway.dialects.openai_chat import OpenAIChat
from homeostat.gateway.dialects.openai_responses import OpenAIResponses
from homeostat.gateway.dialects.shapes import Dialect, StreamReader, tool_use
from homeostat.testing.gateways import INSTANT

SYSTEM = "You are a clerk."
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLS = Reply(calls=(ModelCall("A" * 24, "weather", '{"city":"Paris","days":2}'),))
WORDS = Reply("The ledger shows a steady rise.")

CHAT: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": "Hello"}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "instructions": SYSTEM,
    "input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    "tools": [{"type": "function", "name": "weather", "parameters": WEATHER}],
}
MESSAGES: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 256,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": "Hello"}],
    "tools": [{"name": "weather", "input_schema": WEATHER}],
}
KINDS: list[tuple[Dialect, str, dict[str, Any]]] = [
    (OpenAIChat(), "/v1/chat/completions", CHAT),
    (OpenAIResponses(), "/v1/responses", RESPONSES),
    (AnthropicMessages(), "/v1/messages", MESSAGES),
]
IDS = ["chat", "responses", "messages"]


async def answered(target: str, body: dict[str, Any], reply: Reply) -> bytes:
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: reply)
    response = await upstream.send(UpstreamRequest(b"POST", target.encode(), [], json.dumps(body).encode()))
    assert response.status == 200
    parts: list[bytes] = []
    while part := await response.read():
        parts.append(part)
    return b"".join(parts)


def read(reader: StreamReader, stream: bytes, size: int) -> bytes:
    out = b"".join(reader.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    return out + reader.finish()


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
def test_what_is_asked(dialect: Dialect, target: str, body: dict[str, Any]) -> None:
    ask = dialect.ask(json.dumps(body).encode())
    assert ask.model == body["model"]
    assert ask.tools == ("weather",)
    assert not ask.streamed
    assert dialect.ask(json.dumps({**body, "stream": True}).encode()).streamed
    assert ask.api is dialect.api


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
def test_the_prompt_hash_follows_the_instructions_and_nothing_else(
    dialect: Dialect, target: str, body: dict[str, Any]
) -> None:
    def hash_of(changed: dict[str, Any]) -> str:
        return dialect.ask(json.dumps({**body, **changed}).encode()).prompt_hash

    name = "input" if "input" in body else "messages"
    more = [*body[name], {"role": "user", "content": "And now?"}]
    assert hash_of({}) == hash_of({name: more})
    assert len(hash_of({})) == 16
    changed = {"system": "Other."} if "system" in body else {name: [{"role": "system", "content": "Other."}]}
    assert hash_of({}) != hash_of(changed)


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
async def test_a_whole_answer(dialect: Dialect, target: str, body: dict[str, Any]) -> None:
    reading = dialect.answer(await answered(target, body, WORDS))
    assert reading.usage is not None
    assert reading.usage.tokens_in > 0
    assert reading.usage.tokens_out > 3
    assert reading.tools == ()
    called = dialect.answer(await answered(target, body, CALLS))
    assert called.tools == (tool_use("weather", '{"days": 2, "city": "Paris"}'),)


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
@pytest.mark.parametrize("reply", [WORDS, CALLS], ids=["words", "calls"])
@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_a_stream_says_what_the_whole_answer_says(
    dialect: Dialect, target: str, body: dict[str, Any], reply: Reply, size: int
) -> None:
    whole = dialect.answer(await answered(target, body, reply))
    options = {"stream_options": {"include_usage": True}} if dialect.api is Api.OPENAI_CHAT else {}
    stream = await answered(target, {**body, **options, "stream": True}, reply)
    reader = dialect.stream(hides_usage=False)
    assert read(reader, stream, size) == stream
    assert reader.usage == whole.usage
    assert reader.tools == whole.tools
    assert reader.spoke
    assert reader.ended
    assert reader.model == body["model"]
    assert reader.between_events


@pytest.mark.parametrize("size", [1, 13, 100_000])
async def test_usage_nobody_asked_for_is_hidden(size: int) -> None:
    plain = await answered("/v1/chat/completions", {**CHAT, "stream": True}, WORDS)
    wanted = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    asked = await answered("/v1/chat/completions", wanted, WORDS)
    reader = OpenAIChat().stream(hides_usage=True)
    shown = read(reader, asked, size)
    assert reader.usage is not None

    def chunks(stream: bytes) -> list[Any]:
        lines = [line[6:] for line in stream.decode().splitlines() if line.startswith("data: {")]
        return [{**json.loads(line), "id": "", "created": 0, "system_fingerprint": ""} for line in lines]

    assert chunks(shown) == chunks(plain)
    assert shown.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
async def test_a_stream_that_breaks_off_is_estimated_by_what_went_by(
    dialect: Dialect, target: str, body: dict[str, Any]
) -> None:
    reply = Reply(" ".join(["seven words make a sentence of sorts."] * 30))
    stream = await answered(target, {**body, "max_tokens": 2000, "stream": True}, reply)
    whole = dialect.answer(await answered(target, {**body, "max_tokens": 2000}, reply)).usage
    assert whole is not None
    reader = dialect.stream(hides_usage=False)
    reader.feed(stream[: len(stream) * 2 // 5])
    assert reader.usage is None
    assert not reader.ended
    assert 0.1 * whole.tokens_out < reader.seen_tokens < 1.5 * whole.tokens_out
    if isinstance(dialect, AnthropicMessages):
        assert reader.begun is not None
        assert reader.begun.tokens_in == whole.tokens_in


@pytest.mark.parametrize(("dialect", "target", "body"), KINDS, ids=IDS)
@given(garbage=st.binary(max_size=300))
def test_garbage_passes_unread(dialect: Dialect, target: str, body: dict[str, Any], garbage: bytes) -> None:
    reader = dialect.stream(hides_usage=False)
    assert reader.feed(garbage) == garbage
    assert dialect.answer(garbage).usage is None


@pytest.mark.parametrize("dialect", [kind[0] for kind in KINDS], ids=IDS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"model": 5}', b"\xff\xfe", b"[" * 3000])
def test_a_request_that_cannot_be_read_is_refused(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(MalformedPayload):
        dialect.ask(body)


def test_details_of_usage() -> None:
    chat = OpenAIChat().answer(
        b'{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},'
        b'"completion_tokens_details":{"reasoning_tokens":3}}}'
    )
    assert chat.usage == Usage(10, 5, 4, 0, 3)
    embeddings = OpenAIChat(Api.OPENAI_EMBEDDINGS).answer(b'{"data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}')
    assert embeddings.usage == Usage(7, 0)
    messages = AnthropicMessages().answer(
        b'{"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":5}}'
    )
    assert messages.usage == Usage(60, 5, 30, 20)


def test_an_edit_leaves_the_rest_as_it_was_written() -> None:
    ask = OpenAIChat().ask(b'{"model":"m", "messages":[ {"role":"user","content":"\\u00e9 x"} ],"temperature":1.0}')
    ask.cap_output(5)
    assert ask.output_cap == 5
    assert b'[ {"role":"user","content":"\\u00e9 x"} ]' in ask.body
    assert json.loads(ask.body)["max_completion_tokens"] == 5


@pytest.mark.parametrize(
    "given",
    [
        b'{"max_tokens":9000,"max_completion_tokens":10}',
        b'{"max_completion_tokens":9000,"max_tokens":10}',
        b'{"model":"m","max_completion_tokens":null}',
        b'{"model":"m","max_completion_token\\u0073":9000}',
        b'{"model":"m","m\\u0061x_tokens":9000}',
        b'{"model":"m"}',
        b" {} ",
    ],
)
def test_no_other_spelling_of_a_bound_outlives_a_cap(given: bytes) -> None:
    ask = OpenAIChat().ask(given)
    assert ask.output_cap in (9000, None)
    ask.cap_output(5)
    sent = json.loads(ask.body)
    assert [value for name, value in sent.items() if name.startswith("max_")] == [5]
    assert OpenAIChat().ask(ask.body).output_cap == 5


@pytest.mark.parametrize("given", [b'{"model":"m","input":"max_tokens"}', b' {"model":"m"}'])
def test_a_bound_is_put_before_what_has_none(given: bytes) -> None:
    for dialect in (OpenAIChat(), OpenAIResponses()):
        ask = dialect.ask(given)
        assert ask.unbounded
        ask.cap_output(5)
        assert ask.body == b'{"%b":5,%b' % (ask.cap_field.encode(), given.strip()[1:])
        ask.cap_output(4)
        assert list(json.loads(ask.body).values()).count(4) == 1, "and is there once"
        assert dialect.ask(ask.body).output_cap == 4


@pytest.mark.parametrize(
    "bound", [b'"max_output_token\\u0073":9', b'"max_tokens":null', b'"max_completion_tokens":null', b'"max_tokens":9']
)
def test_what_has_a_bound_by_any_name_is_not_unbounded(bound: bytes) -> None:
    for dialect in (OpenAIChat(), OpenAIResponses()):
        ask = dialect.ask(b'{"model":"m",%b}' % bound)
        assert not ask.unbounded
        ask.cap_output(5)
        bounds = {name: value for name, value in json.loads(ask.body).items() if name.startswith("max_")}
        assert bounds == {ask.cap_field: 5}


def test_parts_that_weigh_more_than_their_bytes_are_counted_wherever_they_may_be() -> None:
    text: dict[str, Any] = {"role": "user", "content": 'an "image" in a "file"'}
    image: dict[str, Any] = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}
    silent: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}

    def parts(*messages: dict[str, Any]) -> int:
        return OpenAIChat().ask(json.dumps({"model": "m", "messages": messages}).encode()).opaque_parts()

    assert parts(text, silent) == 0
    assert parts(image) == parts(text, silent, image, text) > 0
    assert parts({"role": "user", "content": image["content"][0]}) > 0
    embedded = OpenAIChat(Api.OPENAI_EMBEDDINGS).ask(json.dumps({"model": "m", "input": image["content"]}).encode())
    assert embedded.opaque_parts() > 0, "it has no messages"


def test_names_with_escapes_are_the_names_that_they_are_read_as() -> None:
    """An image whose name was spelled with an escape was counted by its bytes: budgets set aside next to nothing."""
    image = b'{"role":"user","content":[{"type":"image\\u005furl","\\u0069mage_url":{"url":"x"}}]}'
    assert OpenAIChat().ask(b'{"model":"m","messages":[%b]}' % image).opaque_parts() == 2
    ask = OpenAIResponses().ask(b'{"model":"m","previous\\u005fresponse_id":"resp_1"}')
    assert ask.refers_elsewhere()
    assert not OpenAIResponses().ask(b'{"model":"m","input":"\\u0022prompt\\u0022"}').refers_elsewhere()


@pytest.mark.parametrize(
    ("dialect", "said", "speaks"),
    [
        (OpenAIChat(), {"messages": [{"role": "user", "content": 'a "tool" of "function"'}]}, False),
        (OpenAIChat(), {"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]}, False),
        (OpenAIChat(), {"messages": [{"role": "tool", "content": "x"}, {"role": "user", "content": "y"}]}, True),
        (OpenAIChat(), {"messages": [{"role": "function", "content": "x"}]}, True),
        (OpenAIResponses(), {"input": "the function_call_output of f"}, False),
        (OpenAIResponses(), {"input": [{"type": "function_call_output", "output": "x"}]}, True),
        (OpenAIResponses(), {"input": [{"type": "mcp_call", "output": "x"}]}, True),
        (AnthropicMessages(), {"messages": [{"role": "user", "content": "x"}]}, False),
        (AnthropicMessages(), {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, True),
    ],
)
def test_it_is_known_whether_a_tool_speaks(dialect: Dialect, said: dict[str, object], speaks: bool) -> None:  # noqa: FBT001
    assert dialect.ask(json.dumps(said).encode()).tool_speaks is speaks


def test_equal_arguments_have_equal_digests() -> None:
    assert tool_use("a", '{"x":1,"y":2}') == tool_use("a", b'{ "y": 2, "x": 1 }')
    assert tool_use("a", '{"x":1}') != tool_use("a", '{"x":2}')
    assert tool_use("a", '{"x":') == tool_use("a", '{"x":')
