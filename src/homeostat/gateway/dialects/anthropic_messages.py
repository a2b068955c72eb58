"""Anthropic's messages."""

import msgspec
import xxhash
from msgspec import Raw, Struct

from homeostat.core.records.call import Api, ToolUse, Usage
from homeostat.core.wire.sse import EventCutter, payload
from homeostat.gateway.dialects.shapes import Ask, Reading, ToolPieces, decode_ask, tool_use, try_decode


class _Tool(Struct, gc=False):
    type: str | None = None
    name: str | None = None


class _Ask(Struct, gc=False):
    model: str = ""
    system: Raw = Raw(b"")
    max_tokens: int | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None


class _Usage(Struct, gc=False):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    def read(self, before: Usage | None = None) -> Usage:
        """What is reported; a later report repeats only what it knows better."""
        first = before or Usage()
        cached = first.tokens_cached if self.cache_read_input_tokens is None else self.cache_read_input_tokens
        written = first.tokens_written if self.cache_creation_input_tokens is None else self.cache_creation_input_tokens
        fresh = first.tokens_in - first.tokens_cached - first.tokens_written
        fresh = fresh if self.input_tokens is None else self.input_tokens
        out = first.tokens_out if self.output_tokens is None else self.output_tokens
        return Usage(fresh + cached + written, out, cached, written)


class _Block(Struct, gc=False):
    type: str = ""
    name: str | None = None
    input: Raw = Raw(b"{}")


class _Message(Struct, gc=False):
    model: str = ""
    usage: _Usage | None = None
    content: list[_Block] = []


class _Delta(Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _Event(Struct, gc=False):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_asks = msgspec.json.Decoder(_Ask)
_answers = msgspec.json.Decoder(_Message)
_events = msgspec.json.Decoder(_Event)


class AnthropicMessages:
    """Reads messages."""

    api = Api.ANTHROPIC_MESSAGES

    def ask(self, body: bytes) -> Ask:
        read: _Ask = decode_ask(_asks, body)
        return Ask(
            api=self.api,
            body=body,
            model=read.model,
            streamed=bool(read.stream),
            output_cap=read.max_tokens,
            prompt_hash=xxhash.xxh3_64_hexdigest(read.system),
            tools=tuple(tool.name or tool.type or "" for tool in read.tools) if read.tools else (),
            tool_speaks=body.find(b'tool_result"') >= 0,  # quotes inside a JSON string are escaped
        )

    def answer(self, body: bytes) -> Reading:
        read: _Message | None = try_decode(_answers, body)
        if read is None:
            return Reading()
        tools = [tool_use(block.name or "", block.input) for block in read.content if block.type.endswith("tool_use")]
        return Reading(read.usage.read() if read.usage else None, read.model, tuple(tools))

    def stream(self, *, hides_usage: bool) -> "MessagesStream":
        del hides_usage  # usage comes unasked
        return MessagesStream()


class MessagesStream:
    """A stream of events: usage stands in the first and the last, tool calls in blocks between them."""

    __slots__ = ("_bytes", "_cutter", "_deltas", "_overhead", "_pieces", "_reported", "ended", "model", "spoke")

    def __init__(self) -> None:
        self.model = ""
        self.spoke = False
        self.ended = False
        self._reported: Usage | None = None
        self._cutter = EventCutter()
        self._pieces = ToolPieces()
        self._deltas = 0
        self._bytes = 0
        self._overhead = 0

    @property
    def usage(self) -> Usage | None:
        return self._reported if self.ended else None

    @property
    def begun(self) -> Usage | None:
        """What the first event said, should there be no last one."""
        return self._reported

    @property
    def between_events(self) -> bool:
        return self._cutter.between_events

    @property
    def tools(self) -> tuple[ToolUse, ...]:
        return self._pieces.all()

    @property
    def seen_tokens(self) -> int:
        return max(self._deltas, (self._bytes - self._deltas * self._overhead) // 4) if self.spoke else 0

    def feed(self, block: bytes) -> bytes:
        data, end = self._cutter.cut(block)
        if end:
            self._look(data, end)
        return block

    def finish(self) -> bytes:
        return b""

    def _look(self, data: bytes, end: int) -> None:
        if not self.spoke or data.find(b'tool_use"', 0, end) >= 0 or data.find(b'"input_json_delta"', 0, end) >= 0:
            for event in self._cutter.events(data, end):
                self._read(event)
        elif (at := data.rfind(b'"message_delta"', 0, end)) >= 0:
            start, stop = self._cutter.around(data, end, at)
            self._read(data[start:stop])
        if data.rfind(b'"message_stop"', 0, end) >= 0:
            self.ended = True
        self._deltas += data.count(b'"content_block_delta"', 0, end)
        self._bytes += end

    def _read(self, event: bytes) -> None:
        read: _Event | None = try_decode(_events, payload(event))
        if read is None:
            return
        if read.message is not None:
            self.model = read.message.model
            if read.message.usage is not None:
                self._reported = read.message.usage.read()
        elif read.content_block is not None and read.content_block.type.endswith("tool_use"):
            self._pieces.begin(read.index, read.content_block.name or "")
        elif read.type == "message_delta":
            if read.usage is not None:
                self._reported = read.usage.read(self._reported)
        elif read.delta is not None:
            said = read.delta.text or read.delta.thinking or read.delta.partial_json or ""
            if read.delta.partial_json:
                self._pieces.add(read.index, read.delta.partial_json)
            if not self.spoke and said:
                self.spoke = True
                self._overhead = len(event) - len(said.encode()) + 2
