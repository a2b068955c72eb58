"""Takes tool calls that are not allowed out of answers, whole or streamed, and leaves the rest consistent."""

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, cast

import msgspec

from homeostat.core.gateway_errors import UpstreamBroke
from homeostat.core.records.call import Api
from homeostat.core.wire.sse import EventCutter, payload

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

Allows = Callable[[str], bool]
Item = dict[str, Any]


class Editor(Protocol):
    """Knows where an API keeps its tool calls. Both methods answer None for what disappears altogether."""

    def answer(self, answer: Item) -> bool:
        """Edit a whole answer in place; says whether anything was changed."""
        ...

    def event(self, event: Item) -> Item | None:
        """One event as the client gets it."""
        ...


class Sieve:
    """Applies an editor to whatever comes. Only whole events pass: half a tool call cannot be judged."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._cutter = EventCutter()

    @staticmethod
    def refuse_unread() -> NoReturn:
        raise UpstreamBroke(upstream="", problem="its answer is too long to be checked")

    def answer(self, body: bytes) -> bytes:
        """A whole answer without what is not allowed; one that cannot be read may hide anything and is not passed."""
        try:
            answer = _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise UpstreamBroke(upstream="", problem="its answer is not JSON") from problem
        if isinstance(answer, dict) and self._editor.answer(cast("Item", answer)):
            return _encoder.encode(answer)
        return body

    def feed(self, block: bytes) -> bytes:
        data, end = self._cutter.cut(block)
        if self._cutter.lost:
            raise UpstreamBroke(upstream="", problem="one of its events is too long to be checked")
        if not end:
            return b""
        gap = self._cutter.gap
        return b"".join(self._event(event, gap) for event in self._cutter.events(data, end))

    def _event(self, event: bytes, gap: bytes) -> bytes:
        carried = payload(event)
        try:
            decoded = _decoder.decode(carried)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return event + gap  # a comment, or the mark at the end
        if not isinstance(decoded, dict):
            return event + gap
        before = _encoder.encode(decoded)
        try:
            edited = self._editor.event(cast("Item", decoded))
        except (TypeError, ValueError) as problem:
            raise UpstreamBroke(upstream="", problem="one of its events makes no sense") from problem
        if edited is None:
            return b""
        after = _encoder.encode(edited)
        if after == before:
            return event + gap
        named = [line for line in event.splitlines() if not line.startswith(b"data:")]
        return b"\n".join([*named, b"data: " + after]) + gap


class ChatEditor:
    """Chat completions: tool calls are numbered within a choice."""

    def __init__(self, allows: Allows) -> None:
        self._allows = allows
        self._places: dict[tuple[int, int], int | None] = {}
        self._kept: dict[int, int] = {}
        self._dropped: set[int] = set()

    def answer(self, answer: Item) -> bool:
        changed = False
        for choice in _items(answer.get("choices")):
            message = choice.get("message")
            if not isinstance(message, dict):
                continue
            message = cast("Item", message)
            calls = _items(message.get("tool_calls"))
            kept = [call for call in calls if self._allows(_function_name(call))]
            if len(kept) == len(calls):
                continue
            changed = True
            if kept:
                message["tool_calls"] = kept
            else:
                message.pop("tool_calls")
                if choice.get("finish_reason") == "tool_calls":
                    choice["finish_reason"] = "stop"
        return changed

    def event(self, event: Item) -> Item | None:
        empty = 0
        choices = _items(event.get("choices"))
        for choice in choices:
            index = int(choice.get("index", 0))
            delta = choice.get("delta")
            if isinstance(delta, dict) and "tool_calls" in delta:
                empty += self._delta(index, cast("Item", delta)) and choice.get("finish_reason") is None
            if choice.get("finish_reason") == "tool_calls" and index in self._dropped and not self._kept.get(index):
                choice["finish_reason"] = "stop"
        return None if choices and empty == len(choices) else event

    def _delta(self, index: int, delta: Item) -> bool:
        """Edit one delta; says whether nothing is left of it."""
        kept: list[Item] = []
        for call in _items(delta.get("tool_calls")):
            place = (index, int(call.get("index", 0)))
            if place not in self._places:
                allowed = self._allows(_function_name(call))
                self._places[place] = self._kept.get(index, 0) if allowed else None
                if allowed:
                    self._kept[index] = self._kept.get(index, 0) + 1
                else:
                    self._dropped.add(index)
            moved = self._places[place]
            if moved is not None:
                kept.append({**call, "index": moved})
        if kept:
            delta["tool_calls"] = kept
            return False
        delta.pop("tool_calls")
        return not any(value for name, value in delta.items() if name != "role") and "role" not in delta


class MessagesEditor:
    """Anthropic messages: a tool call is a content block, and blocks are numbered."""

    def __init__(self, allows: Allows) -> None:
        self._allows = allows
        self._dropped: list[int] = []
        self._kept_tools = 0

    def _denies(self, block: Item) -> bool:
        return str(block.get("type", "")).endswith("tool_use") and not self._allows(str(block.get("name", "")))

    def answer(self, answer: Item) -> bool:
        content = _items(answer.get("content"))
        kept = [block for block in content if not self._denies(block)]
        if len(kept) == len(content):
            return False
        answer["content"] = kept
        if answer.get("stop_reason") == "tool_use" and not any(block.get("type") == "tool_use" for block in kept):
            answer["stop_reason"] = "end_turn"
        return True

    def event(self, event: Item) -> Item | None:
        kind = event.get("type")
        if kind == "content_block_start" and isinstance(block := event.get("content_block"), dict):
            if self._denies(cast("Item", block)):
                self._dropped.append(int(event.get("index", 0)))
                return None
            self._kept_tools += cast("Item", block).get("type") == "tool_use"
        if "index" in event:
            index = int(event["index"])
            if index in self._dropped:
                return None
            event["index"] = index - sum(1 for dropped in self._dropped if dropped < index)
        if kind == "message_delta" and self._dropped and not self._kept_tools:
            delta = event.get("delta")
            if isinstance(delta, dict) and cast("Item", delta).get("stop_reason") == "tool_use":
                cast("Item", delta)["stop_reason"] = "end_turn"
        return event


class ResponsesEditor:
    """Responses: a tool call is an output item, and items are numbered."""

    def __init__(self, allows: Allows) -> None:
        self._allows = allows
        self._dropped: list[int] = []

    def _denies(self, item: Item) -> bool:
        kind = str(item.get("type", ""))
        return kind.endswith("_call") and not self._allows(str(item.get("name") or kind.removesuffix("_call")))

    def answer(self, answer: Item) -> bool:
        output = _items(answer.get("output"))
        kept = [item for item in output if not self._denies(item)]
        if len(kept) == len(output):
            return False
        answer["output"] = kept
        return True

    def event(self, event: Item) -> Item | None:
        if isinstance(item := event.get("item"), dict) and self._denies(cast("Item", item)):
            place = int(event.get("output_index", 0))
            if place not in self._dropped:
                self._dropped.append(place)
            return None
        if "output_index" in event:
            index = int(event["output_index"])
            if index in self._dropped:
                return None
            event["output_index"] = index - sum(1 for dropped in self._dropped if dropped < index)
        if isinstance(response := event.get("response"), dict):
            self.answer(cast("Item", response))
        return event


def sieve_for(api: Api, allows: Allows) -> Sieve | None:
    """A sieve for an API whose answers can hold tool calls."""
    match api:
        case Api.OPENAI_CHAT:
            return Sieve(ChatEditor(allows))
        case Api.OPENAI_RESPONSES:
            return Sieve(ResponsesEditor(allows))
        case Api.ANTHROPIC_MESSAGES:
            return Sieve(MessagesEditor(allows))
        case _:
            return None


def _items(value: object) -> list[Item]:
    if not isinstance(value, list):
        return []
    return [cast("Item", item) for item in cast("list[object]", value) if isinstance(item, dict)]


def _function_name(call: Item) -> str:
    for kind in ("function", "custom"):
        named = call.get(kind)
        if isinstance(named, dict):
            return str(cast("Item", named).get("name") or "")
    return ""
