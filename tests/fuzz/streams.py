"""Targets: server-sent events, and what the gateway reads of answers in the three dialects."""

import msgspec

from homeostat.agent.errors import ModelUnavailable
from homeostat.agent.models import Models, read_completion
from homeostat.core.errors import MalformedPayload
from homeostat.core.gateway_errors import UpstreamBroke
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records.call import Api
from homeostat.core.wire.sse import EventCutter, payload
from homeostat.gateway.dialects.anthropic_messages import AnthropicMessages
from homeostat.gateway.dialects.openai_chat import OpenAIChat
from homeostat.gateway.dialects.openai_responses import OpenAIResponses
from homeostat.gateway.dialects.shapes import Ask, Dialect
from homeostat.gateway.hearing import conversation_of
from homeostat.gateway.metering import bound, estimate
from homeostat.gateway.sieve import Sieve, sieve_for
from tests.fuzz.harness import pieces, target

DIALECTS: tuple[Dialect, ...] = (OpenAIChat(), OpenAIResponses(), AnthropicMessages())

CHAT = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: [DONE]\n\n'
)
RESPONSES = (
    b'event: response.created\ndata: {"type":"response.created","response":{"model":"m"}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hi"}\n\n'
    b'data: {"type":"response.completed","response":{"model":"m","usage":{"input_tokens":1,"output_tokens":2},'
    b'"output":[{"type":"function_call","name":"f","arguments":"{}"}]}}\n\n'
)
ANTHROPIC = (
    b'event: message_start\ndata: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":5}}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{}}}\n\n'
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
    b'data: {"type":"content_block_stop","index":0}\n\n'
    b'data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}\n\n'
    b'data: {"type":"message_stop"}\n\n'
)
ANSWERS = (
    (
        b'{"model":"m","usage":{"prompt_tokens":3,"completion_tokens":4},"choices":[{"finish_reason":"tool_calls",'
        b'"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}'
    ),
    (
        b'{"model":"m","output":[{"type":"function_call","name":"f","arguments":"{}"}],'
        b'"usage":{"input_tokens":1,"output_tokens":2}}'
    ),
    (
        b'{"model":"m","content":[{"type":"tool_use","name":"f","input":{"a":1}}],"stop_reason":"tool_use",'
        b'"usage":{"input_tokens":1,"output_tokens":2}}'
    ),
)
ASKS = (
    (
        b'{"model":"m","messages":[{"role":"system","content":"be"},{"role":"tool","content":[{"text":"x"}]}],'
        b'"max_tokens":9,"n":2,"stream":true,"stream_options":{"include_usage":true},"tools":[{"function":{"name":"f"}}]}'
    ),
    (
        b'{"model":"m","instructions":"be","input":[{"role":"developer","content":"x"},{"type":"function_call_output",'
        b'"output":"y"}],"max_output_tokens":9,"stream":true,"tools":[{"type":"function","name":"f"}]}'
    ),
    (
        b'{"model":"m","system":"be","messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}],'
        b'"max_tokens":9,"stream":true,"tools":[{"name":"f"}]}'
    ),
)
WORDS = (
    b"\n\n", b"\r\n\r\n", b"data: ", b"data:", b"event: ", b": ", b"[DONE]", b'"usage":', b'"choices":', b'"delta":',
    b'"tool_calls":', b'"function":', b'"arguments":', b'"index":', b'"response":', b'"message":', b'"content":',
    b'"type":', b'"message_delta"', b'"message_stop"', b'"content_block_delta"', b'"tool_use"', b'"output":', b"null",
    b'"max_tokens":', b'"max_completion_tokens":', b'"max_output_tokens":', b"1e999", b"\\u0000", b"\\ud800", b"[[[[[[",
)  # fmt: skip
CUT_BYTES_MAX = 261  # a byte says where it is cut: a longer stream is never cut behind them
EVENTS_MAX = 20  # more of the same events only take longer
NUMBERED = tuple(bytes([number]) for number in range(3))


def events_of(blocks: list[bytes]) -> tuple[list[bytes], bytes]:
    cutter = EventCutter()
    found: list[bytes] = []
    for block in blocks:
        data, end = cutter.cut(block)
        assert 0 <= end <= len(data)
        found += [said for event in cutter.events(data, end) if (said := payload(event))]
    return found, cutter.rest()


@target(b"\1\5" + CHAT, b"\3\1\2\3" + RESPONSES.replace(b"\n", b"\r\n"), words=WORDS, bytes_max=CUT_BYTES_MAX)
def events(data: bytes) -> None:
    """A stream says the same wherever the network cuts it, in either kind of line."""
    stream, _ = pieces(data)
    lines = stream.replace(b"\r", b"")
    stream = lines.replace(b"\n", b"\r\n") if len(data) % 2 else lines
    _, cut = pieces(data[: 1 + data[0] % 5] + stream if data else b"")
    whole, rest = events_of([stream])
    parts, rest_of_parts = events_of(cut)
    assert whole == parts, "where it is cut matters"
    assert payload(rest) == payload(rest_of_parts)


def watched(number: int, blocks: list[bytes], *, hides: bool) -> tuple[object, ...]:
    dialect = DIALECTS[number]
    reader = dialect.stream(hides_usage=hides)
    out = b"".join(reader.feed(block) for block in blocks) + reader.finish()
    assert reader.seen_tokens >= 0
    if not hides or number:
        assert out == b"".join(blocks), "what passes is changed"
    estimate(Ask(api=dialect.api, body=b"{}"), reader.seen_tokens, reader.begun)
    return reader.model, reader.ended, reader.tools, reader.usage


@target(*(bytes([n]) + b"\0\2\7\x40" + text for n, text in enumerate((CHAT, RESPONSES, ANTHROPIC))), words=WORDS)
def answers_in_pieces(data: bytes) -> None:
    """What an answer used is read whatever it holds, and its bytes pass as they are."""
    if len(data) < 2:
        return
    number, hides = data[0] % 3, bool(data[1] & 1)
    _, cut = pieces(data[2:])
    watched(number, cut, hides=hides)


@target(*(bytes([n]) + b"\4\1\2\3\4\1\2\3\4\5\1\2\3\4\5" for n in range(3)), bytes_max=256)
def honest_answers_in_pieces(data: bytes) -> None:
    """An answer that is in order, in any order of events and cut anywhere, is metered the same."""
    if len(data) < 2:
        return
    number = data[0] % 3
    known = (CHAT, RESPONSES, ANTHROPIC)[number].split(b"\n\n")[:-1]
    cuts = data[1] % 5
    chosen = [known[0], *(known[place % (len(known) - 2) + 1] for place in data[2 + cuts : EVENTS_MAX]), known[-1]]
    stream = b"\n\n".join(chosen) + b"\n\n"
    _, cut = pieces(data[1 : 2 + cuts] + stream) if len(data) > 2 + cuts else (b"", [stream])
    assert watched(number, [stream], hides=False) == watched(number, cut, hides=False), "where it is cut matters"


@target(*(n + text for n, text in zip(NUMBERED, ANSWERS, strict=True)), words=WORDS)
def whole_answers(data: bytes) -> None:
    """A whole answer is read or not, never half; what the sieve leaves can be read again and holds no such tool."""
    if not data:
        return
    number, body = data[0] % 3, data[1:]
    reading = DIALECTS[number].answer(body)
    try:
        sieved = _sieve(number).answer(body)
    except UpstreamBroke:
        return
    again = DIALECTS[number].answer(sieved)
    if again.usage is not None or again.tools:
        assert not any(tool.name == "f" for tool in again.tools), "a tool that is not allowed came through"
        assert reading.usage == again.usage


def _sieve(number: int) -> Sieve:
    sieve = sieve_for(DIALECTS[number].api, lambda name: name != "f", "u")
    assert sieve is not None
    return sieve


@target(*(bytes([n]) + b"\2\7\x40" + text for n, text in enumerate((CHAT, RESPONSES, ANTHROPIC))), words=WORDS)
def sieved_answers(data: bytes) -> None:
    """Streams with tools that are not allowed: refused as the upstream's fault, or passed in whole events."""
    if not data:
        return
    _, cut = pieces(data[1:])
    sieve = _sieve(data[0] % 3)
    try:
        for block in cut:
            out = sieve.feed(block)
            assert not out or out.endswith((b"\n\n", b"\r\n\r\n")), "half an event came through"
    except UpstreamBroke:
        return


@target(*(n + text for n, text in zip(NUMBERED, ASKS, strict=True)), words=WORDS)
def requests_of_agents(data: bytes) -> None:
    """A request is refused as malformed, or read; a bound that is put on it is the bound that is read from it."""
    if not data:
        return
    dialect, body = DIALECTS[data[0] % 3], data[1:]
    conversation_of(dialect.api, body)
    try:
        ask = dialect.ask(body)
        ask.goes_on()
        worst = bound(ask, None)
    except MalformedPayload:
        return
    assert worst.amount.tokens >= 0
    assert ask.opaque_parts() >= 0
    before = msgspec.structs.replace(ask)
    try:
        ask.cap_output(7)
    except MalformedPayload:
        return
    again = dialect.ask(ask.body)
    assert again.output_cap == 7, "a bound is not kept"
    assert (again.model, again.streamed, again.prompt_hash) == (before.model, before.streamed, before.prompt_hash)
    assert again.tools == before.tools
    if ask.api is Api.OPENAI_CHAT:
        assert again.answers == before.answers


class Said:
    """An answer of a provider that has arrived already."""

    status, complete = 200, True
    headers: Headers = []  # noqa: RUF012 - nobody adds to them

    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = [block for block in blocks if block]

    async def read(self) -> bytes:
        return self._blocks.pop(0) if self._blocks else b""

    def close(self) -> None: ...


class Provider:
    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = blocks

    async def send(self, request: UpstreamRequest) -> Said:
        del request
        return Said(self._blocks)

    async def close(self) -> None: ...


def completed(blocks: list[bytes], *, streamed: bool) -> object:
    """What an agent gets of an answer: a completion, or that there was none."""
    said: list[str] = []

    async def hear(text: str) -> None:
        said.append(text)

    async def rest(seconds: float) -> None:
        del seconds
        raise ModelUnavailable(problem="once is enough")

    asking = Models(Provider(blocks), sleep=rest).complete({}, [], hear if streamed else None)
    try:
        asking.send(None)
    except StopIteration as end:
        found = read_completion(end.value)
        assert not streamed or found.text == "".join(said)
        return found
    except ModelUnavailable:
        return None
    raise AssertionError("everything has arrived")


@target(b"\0\1\5" + CHAT, b"\1\0" + ANSWERS[0], b"\0\2\5\7" + CHAT.replace(b"\n", b"\r\n"), words=WORDS, bytes_max=1024)
def completions_for_agents(data: bytes) -> None:
    """Whatever a provider answers, an agent gets a completion or is told that there is none, however it was cut."""
    stream, cut = pieces(data[1:])
    streamed = not (data[:1] or b"\0")[0] % 2
    whole = completed([stream], streamed=streamed)
    assert streamed or completed(cut, streamed=False) == whole
    completed(cut, streamed=streamed)
