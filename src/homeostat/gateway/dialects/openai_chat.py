"""OpenAI's chat completions, spoken by most others as well; completions and embeddings are read alike."""

from typing import Any

import msgspec
import xxhash
from msgspec import UNSET, Raw, Struct, UnsetType

from homeostat.core.records.call import Api, ToolUse, Usage
from homeostat.core.wire.sse import EventCutter, payload
from homeostat.gateway.dialects.shapes import Ask, Reading, ToolPieces, decode_ask, tool_use, try_decode

SYSTEM_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "function"})
PARTED = frozenset(b"[{")  # how a content begins that is no text
PROMPTS = frozenset(b'"[')  # how one of several prompts begins: a list of numbers is one of them
UNSAID = xxhash.xxh3_64_hexdigest(b"")  # the hash of a prompt that nobody gave


class _Message(Struct, gc=False):
    role: str = ""
    content: Raw = Raw(b"null")


class _Named(Struct, gc=False):
    name: str = ""


class _Tool(Struct, gc=False):
    type: str = ""
    function: _Named | None = None
    custom: _Named | None = None

    @property
    def name(self) -> str:
        named = self.function or self.custom
        return named.name if named else self.type


class _StreamOptions(Struct, gc=False):
    include_usage: bool | None = None


class _ChatAsk(Struct, gc=False):
    model: str = ""
    messages: list[_Message] = []
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | UnsetType | None = UNSET
    max_completion_tokens: int | UnsetType | None = UNSET
    max_output_tokens: Any = UNSET  # means nothing here, but who knows who reads it
    n: int | None = None
    best_of: int | None = None
    tools: list[_Tool] | None = None
    functions: list[_Named] | None = None  # what tools were called once


class _Prompts(Struct, gc=False):
    prompt: list[Raw] | str | None = None


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None

    def read(self) -> Usage:
        cached = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else 0
        reasoning = self.completion_tokens_details.reasoning_tokens if self.completion_tokens_details else 0
        return Usage(self.prompt_tokens or 0, self.completion_tokens or 0, cached or 0, 0, reasoning or 0)


class _Called(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(Struct, gc=False):
    index: int = 0
    function: _Called | None = None


class _Spoken(Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    refusal: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(Struct, gc=False):
    index: int = 0
    delta: _Spoken | None = None
    text: str | None = None


class _Said(Struct, gc=False):
    tool_calls: list[_ToolCall] | None = None


class _Alternative(Struct, gc=False):
    message: _Said | None = None


class _Whole(Struct, gc=False):
    """An answer that is not made of events. Its words are passed over: nobody counts what was reported."""

    model: str = ""
    usage: _Usage | None = None
    choices: list[_Alternative] = []


class _Answer(Struct, gc=False):
    model: str = ""
    usage: _Usage | None = None
    choices: list[_Choice] = []


_asks = msgspec.json.Decoder(_ChatAsk)
_prompts = msgspec.json.Decoder(_Prompts)
_wholes = msgspec.json.Decoder(_Whole)
_answers = msgspec.json.Decoder(_Answer)


class OpenAIChat:
    """Reads chat completions."""

    def __init__(self, api: Api = Api.OPENAI_CHAT, *, cap_field: str = "max_completion_tokens") -> None:
        self.api = api
        self._generates = api is not Api.OPENAI_EMBEDDINGS
        self._cap_field = cap_field if api is Api.OPENAI_CHAT else "max_tokens"

    def ask(self, body: bytes) -> Ask:
        read: _ChatAsk = decode_ask(_asks, body)
        spoken: list[Raw] = []
        tool_speaks, words = False, bool(read.messages)
        for message in read.messages:
            if words and memoryview(message.content)[0] in PARTED:
                words = False
            if message.role in SYSTEM_ROLES:
                spoken.append(message.content)
            elif message.role in TOOL_ROLES:
                tool_speaks = True
        cap, older, field = read.max_completion_tokens, read.max_tokens, self._cap_field
        unbounded = cap is UNSET and older is UNSET and read.max_output_tokens is UNSET and read.model != ""
        if cap is UNSET:
            cap = None
        if older is not UNSET and older is not None:
            field = "max_tokens"
            if cap is None or (cap >= 0 and not 0 <= older <= cap):
                cap = older  # who knows which one counts, and less than none is no bound at all for many
        answers = read.n or 1
        if read.best_of:
            answers = max(answers, read.best_of)
        return Ask(  # by position: a dictionary would be made of their names
            self.api,
            body,
            read.model,
            bool(read.stream),
            bool(read.stream_options and read.stream_options.include_usage),
            cap,
            field,
            answers,
            self._generates,
            xxhash.xxh3_64_hexdigest(b"".join(spoken)) if spoken else UNSAID,
            tuple([tool.name for tool in (*(read.tools or ()), *(read.functions or ()))])
            if read.tools or read.functions
            else (),
            unbounded,
            tool_speaks,
            words,
        )

    def answer(self, body: bytes) -> Reading:
        read: _Whole | None = try_decode(_wholes, body)
        if read is None:
            return Reading()
        tools: list[ToolUse] = []
        for choice in read.choices:
            if choice.message is not None and choice.message.tool_calls:
                called = [call.function for call in choice.message.tool_calls if call.function is not None]
                tools += [tool_use(function.name or "", function.arguments or "") for function in called]
        return Reading(read.usage.read() if read.usage else None, read.model, tuple(tools))

    def stream(self, *, hides_usage: bool) -> "ChatStream":
        return ChatStream(hides_usage=hides_usage)


class OpenAICompletions(OpenAIChat):
    """Reads completions, of which there are some for each prompt."""

    def __init__(self) -> None:
        super().__init__(Api.OPENAI_COMPLETIONS)

    def ask(self, body: bytes) -> Ask:
        ask = super().ask(body)
        read: _Prompts = decode_ask(_prompts, body)
        prompts = read.prompt if isinstance(read.prompt, list) else []
        if any(memoryview(prompt)[0] in PROMPTS for prompt in prompts):
            ask.answers = max(ask.answers, 1) * len(prompts)
        return ask


class ChatStream:
    """A stream of chunks. Until the first token, and around tool calls, each is read; else only the last usage is."""

    __slots__ = ("_bytes", "_cutter", "_events", "_hides", "_overhead", "_pieces", "ended", "model", "spoke", "usage")

    def __init__(self, *, hides_usage: bool) -> None:
        self.usage: Usage | None = None
        self.model = ""
        self.spoke = False
        self.ended = False
        self._hides = hides_usage
        self._cutter = EventCutter()
        self._pieces = ToolPieces()
        self._events = 0
        self._bytes = 0
        self._overhead = 0

    @property
    def begun(self) -> Usage | None:
        return None

    @property
    def between_events(self) -> bool:
        return self._hides or self._cutter.between_events

    @property
    def tools(self) -> tuple[ToolUse, ...]:
        return self._pieces.all()

    @property
    def seen_tokens(self) -> int:
        """A chunk carries a token or more."""
        return max(self._events, (self._bytes - self._events * self._overhead) // 4) if self.spoke else 0

    def feed(self, block: bytes) -> bytes:
        data, end = self._cutter.cut(block)
        if end:
            self._look(data, end)
        if not self._hides:
            return block
        return self._without_usage(data, end) if end else b""

    def finish(self) -> bytes:
        return self._cutter.rest() if self._hides else b""

    def _look(self, data: bytes, end: int) -> None:
        cutter = self._cutter
        if not self.spoke or data.find(b'"tool_calls"', 0, end) >= 0:
            for event in cutter.events(data, end):
                self._read(event)
        self._events += data.count(cutter.gap, 0, end)
        self._bytes += end
        if (told := self._last_usage(data, end)) is not None:
            self.usage = told[0].read()
        if data.find(b"data: [DONE]", 0, end) >= 0:
            self.ended = True

    def _last_usage(self, data: bytes, end: int) -> tuple[_Usage, int, int, bool] | None:
        """The last usage that is told, where its event is, and whether that says nothing else.

        Chunks behind it may say that they have none. Each is read once, however often it names the word.
        """
        at = end
        while (at := data.rfind(b'"usage"', 0, at)) >= 0:
            if data.find(b"{", at, at + 12) > 0:
                start, stop = self._cutter.around(data, end, at)
                read: _Answer | None = try_decode(_answers, payload(data[start:stop]))
                if read is not None and read.usage is not None:
                    return read.usage, start, stop, not read.choices
                at = start
        return None

    def _read(self, event: bytes) -> None:
        read: _Answer | None = try_decode(_answers, payload(event))
        if read is None:
            return
        self.model = self.model or read.model
        for choice in read.choices:
            spoken = choice.delta
            said = choice.text if spoken is None else spoken.content or spoken.reasoning_content or spoken.refusal
            calls = spoken.tool_calls or () if spoken is not None else ()
            if not self.spoke and (said or calls):
                self.spoke = True
                self._overhead = len(event) - (len(said.encode()) if isinstance(said, str) else 0) + 2
            for call in calls:
                key = (choice.index, call.index)
                if call.function is not None:
                    if call.function.name:
                        self._pieces.begin(key, call.function.name)
                    self._pieces.add(key, call.function.arguments or "")

    def _without_usage(self, data: bytes, end: int) -> bytes:
        """What the client would have seen had nobody asked for usage."""
        out = data[:end] if end < len(data) else data
        if (told := self._last_usage(out, end)) is not None and told[3]:
            out = out[: told[1]] + out[told[2] :]
        return out.replace(b',"usage":null', b"").replace(b', "usage": null', b"")
