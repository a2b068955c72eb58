"""Has what tools said looked at once the agent has its answer; the texts are let go, the finding goes on."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from homeostat.core.limits import HEARING_BYTES_MAX, HEARING_CHARS_MAX, HEARING_TEXTS_MAX
from homeostat.core.ports.gateway import Listener
from homeostat.core.records.call import Api, CallId
from homeostat.core.records.conversation import Conversation, Speaker, Utterance
from homeostat.core.records.vitals import Hearsay
from homeostat.gateway.dialects.shapes import Ask, try_decode


class _Called(Struct, gc=False):
    name: str = ""
    arguments: str = ""


class _ChatCall(Struct, gc=False):
    function: _Called | None = None


class _ChatMessage(Struct, gc=False):
    role: str = ""
    content: Any = None
    tool_calls: list[_ChatCall] | None = None


class _ChatAsk(Struct, gc=False):
    messages: list[_ChatMessage] = []


class _Item(Struct, gc=False):
    type: str = ""
    role: str = ""
    content: Any = None
    name: str = ""
    arguments: str = ""
    output: Any = None


class _ResponsesAsk(Struct, gc=False):
    input: list[_Item] = []


class _Block(Struct, gc=False):
    type: str = ""
    text: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    content: Any = None


class _AnthropicMessage(Struct, gc=False):
    role: str = ""
    content: str | list[_Block] = ""


class _AnthropicAsk(Struct, gc=False):
    messages: list[_AnthropicMessage] = []


_chats = msgspec.json.Decoder(_ChatAsk)
_responses = msgspec.json.Decoder(_ResponsesAsk)
_anthropics = msgspec.json.Decoder(_AnthropicAsk)


def conversation_of(api: Api, body: bytes) -> Conversation:
    """Who said what in a request, oldest first; of a long one the latest part. What cannot be read says nothing."""
    match api:
        case Api.OPENAI_CHAT:
            said = _chat(body)
        case Api.OPENAI_RESPONSES:
            said = _response(body)
        case Api.ANTHROPIC_MESSAGES:
            said = _anthropic(body)
        case _:
            said = ()
    kept: list[Utterance] = []
    room = HEARING_CHARS_MAX
    for one in reversed(list(said)):
        room -= len(one.text)
        if room < 0 or len(kept) == HEARING_TEXTS_MAX:
            break
        kept.append(one)
    return tuple(reversed(kept))


def _chat(body: bytes) -> Iterable[Utterance]:
    read: _ChatAsk | None = try_decode(_chats, body)
    for message in read.messages if read is not None else ():
        if message.role in ("tool", "function"):
            yield Utterance(Speaker.TOOL, _text(message.content))
        elif message.role == "assistant":
            for call in message.tool_calls or ():
                if call.function is not None:
                    yield Utterance(Speaker.CALL, call.function.arguments, call.function.name)
        else:
            yield Utterance(Speaker.MASTER, _text(message.content))


def _response(body: bytes) -> Iterable[Utterance]:
    read: _ResponsesAsk | None = try_decode(_responses, body)
    for item in read.input if read is not None else ():
        if item.type.endswith("_call_output"):
            yield Utterance(Speaker.TOOL, _text(item.output))
        elif item.type.endswith("_call"):
            yield Utterance(Speaker.CALL, item.arguments, item.name or item.type)
            if item.output is not None:
                yield Utterance(Speaker.TOOL, _text(item.output))
        elif item.role != "assistant":
            yield Utterance(Speaker.MASTER, _text(item.content))


def _anthropic(body: bytes) -> Iterable[Utterance]:
    read: _AnthropicAsk | None = try_decode(_anthropics, body)
    for message in read.messages if read is not None else ():
        if isinstance(message.content, str):
            if message.role == "user":
                yield Utterance(Speaker.MASTER, message.content)
            continue
        for block in message.content:
            if block.type.endswith("tool_result"):
                yield Utterance(Speaker.TOOL, _text(block.content))
            elif block.type.endswith("tool_use"):
                yield Utterance(Speaker.CALL, bytes(block.input).decode(errors="replace"), block.name)
            elif message.role == "user" and block.text:
                yield Utterance(Speaker.MASTER, block.text)


def _text(content: Any) -> str:
    """The words in a content, however it is packed."""
    words: list[str] = []
    todo = [content]
    while todo and len(words) < HEARING_TEXTS_MAX:
        item = todo.pop()
        if isinstance(item, str):
            words.append(item)
        elif isinstance(item, list):
            todo += reversed(item)  # pyright: ignore[reportUnknownArgumentType] - as sent
        elif isinstance(item, dict):
            todo += [item[name] for name in ("content", "output", "text") if name in item]
    return "\n".join(words)


class Hearing:
    """Requests whose tool results are still to be looked at. What does not fit goes unheard, and is counted."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener
        self._waiting: dict[CallId, tuple[Api, bytes]] = {}
        self._bytes = 0
        self.heard = 0
        self.unheard = 0

    def keep(self, call_id: CallId, ask: Ask) -> None:
        """Keep a request in which a tool speaks until its call is written down."""
        if self._listener is None:
            return
        body = ask.body
        if self._bytes + len(body) > HEARING_BYTES_MAX:
            self.unheard += 1
            return
        self._waiting[call_id] = (ask.api, body)
        self._bytes += len(body)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def holds(self, call_id: CallId) -> bool:
        return call_id in self._waiting

    def drop(self, call_id: CallId) -> None:
        if (kept := self._waiting.pop(call_id, None)) is not None:
            self._bytes -= len(kept[1])

    async def findings(self, call_ids: Iterable[CallId]) -> dict[CallId, Hearsay]:
        """What was heard in these calls. The looking is done beside the loop that serves agents."""
        mine = {call_id: kept for call_id in call_ids if (kept := self._waiting.pop(call_id, None)) is not None}
        if not mine or self._listener is None:
            return {}
        self._bytes -= sum(len(body) for _, body in mine.values())
        return await asyncio.to_thread(self._listen, self._listener, mine)

    def _listen(self, listener: Listener, kept: dict[CallId, tuple[Api, bytes]]) -> dict[CallId, Hearsay]:
        found: dict[CallId, Hearsay] = {}
        for call_id, (api, body) in kept.items():
            self.heard += 1
            if (hearsay := listener.listen(conversation_of(api, body))) is not None:
                found[call_id] = hearsay
        return found
