"""OpenAI's responses API."""

from typing import Any

import msgspec
import xxhash
from msgspec import UNSET, Raw, Struct, UnsetType

from homeostat.core.records.call import Api, ToolUse, Usage
from homeostat.core.wire.sse import EventCutter, payload
from homeostat.gateway.dialects.openai_chat import SYSTEM_ROLES
from homeostat.gateway.dialects.shapes import Ask, Reading, decode_ask, tool_use, try_decode

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Item(Struct, gc=False):
    role: str = ""
    content: Raw = Raw(b"null")


class _Tool(Struct, gc=False):
    type: str = ""
    name: str | None = None


class _Ask(Struct, gc=False):
    model: str = ""
    instructions: Raw = Raw(b"")
    input: Raw = Raw(b"null")
    stream: bool | None = None
    max_output_tokens: int | UnsetType | None = UNSET
    max_tokens: Any = UNSET  # these mean nothing here, but who knows who reads them
    max_completion_tokens: Any = UNSET
    tools: list[_Tool] | None = None


class _InputDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None

    def read(self) -> Usage:
        cached = self.input_tokens_details.cached_tokens if self.input_tokens_details else 0
        reasoning = self.output_tokens_details.reasoning_tokens if self.output_tokens_details else 0
        return Usage(self.input_tokens or 0, self.output_tokens or 0, cached or 0, 0, reasoning or 0)


class _Output(Struct, gc=False):
    type: str = ""
    name: str | None = None
    arguments: str | None = None
    input: str | None = None


class _Response(Struct, gc=False):
    model: str = ""
    usage: _Usage | None = None
    output: list[_Output] = []

    def read(self) -> Reading:
        tools = [
            tool_use(item.name or item.type, item.arguments or item.input or "")
            for item in self.output
            if item.type.endswith("_call")
        ]
        return Reading(self.usage.read() if self.usage else None, self.model, tuple(tools))


class _Event(Struct, gc=False):
    type: str = ""
    delta: Raw = Raw(b"")
    response: _Response | None = None


_asks = msgspec.json.Decoder(_Ask)
_items = msgspec.json.Decoder(list[_Item])
_answers = msgspec.json.Decoder(_Response)
_events = msgspec.json.Decoder(_Event)


class OpenAIResponses:
    """Reads responses."""

    api = Api.OPENAI_RESPONSES

    def ask(self, body: bytes) -> Ask:
        read: _Ask = decode_ask(_asks, body)
        named = xxhash.xxh3_64()
        named.update(read.instructions)
        if bytes(memoryview(read.input)[:1]) == b"[":  # a plain string has no roles
            for item in try_decode(_items, bytes(read.input)) or ():
                if item.role in SYSTEM_ROLES:
                    named.update(item.content)
        cap = read.max_output_tokens
        bounds = (cap, read.max_tokens, read.max_completion_tokens)
        return Ask(
            api=self.api,
            body=body,
            model=read.model,
            streamed=bool(read.stream),
            output_cap=None if cap is UNSET else cap,
            cap_field="max_output_tokens",
            prompt_hash=named.hexdigest(),
            tools=tuple(tool.name or tool.type for tool in read.tools) if read.tools else (),
            unbounded=read.model != "" and all(bound is UNSET for bound in bounds),
            tool_speaks=body.find(b'_call_output"') >= 0 or body.find(b'"mcp_call"') >= 0,
        )

    def answer(self, body: bytes) -> Reading:
        read: _Response | None = try_decode(_answers, body)
        return Reading() if read is None else read.read()

    def stream(self, *, hides_usage: bool) -> "ResponsesStream":
        del hides_usage  # its last event has the usage unasked
        return ResponsesStream()


class ResponsesStream:
    """A stream of events; the last one repeats everything and is the only one that has to be read."""

    __slots__ = ("_bytes", "_cutter", "_events", "_overhead", "ended", "model", "spoke", "tools", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.model = ""
        self.spoke = False
        self.ended = False
        self.tools: tuple[ToolUse, ...] = ()
        self._cutter = EventCutter()
        self._events = 0
        self._bytes = 0
        self._overhead = 0

    @property
    def begun(self) -> Usage | None:
        return None

    @property
    def between_events(self) -> bool:
        return self._cutter.between_events

    @property
    def seen_tokens(self) -> int:
        return max(self._events, (self._bytes - self._events * self._overhead) // 4) if self.spoke else 0

    def feed(self, block: bytes) -> bytes:
        data, end = self._cutter.cut(block)
        if not end:
            return block
        cutter = self._cutter
        if not self.spoke and data.find(b'.delta"', 0, end) >= 0:
            self._bytes -= self._first(data, end)
        self._events += data.count(b'.delta"', 0, end)
        if self.spoke:
            self._bytes += end
        at = data.rfind(b'"response":', 0, end)
        if at >= 0:
            start, stop = cutter.around(data, end, at)
            read: _Event | None = try_decode(_events, payload(data[start:stop]))
            if read is not None and read.response is not None:
                reading = read.response.read()
                self.model = reading.model or self.model
                self.ended = read.type in ENDS
                if self.ended:
                    self.usage, self.tools = reading.usage, reading.tools
        return block

    def finish(self) -> bytes:
        return b""

    def _first(self, data: bytes, end: int) -> int:
        """Find the first token; returns how much came before it, which repeats the request and is no answer."""
        passed = 0
        for event in self._cutter.events(data, end):
            read: _Event | None = try_decode(_events, payload(event))
            if read is not None and (said := bytes(read.delta)):
                self.spoke = True
                self._overhead = len(event) - len(said) + 4
                break
            passed += len(event) + len(self._cutter.gap)
        return passed
