"""Takes tool calls that are not allowed out of answers, whole or streamed, and leaves the rest consistent."""

from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec

from homeostat.core.gateway_errors import UpstreamBroke
from homeostat.core.records.call import Api
from homeostat.core.wire.sse import EventCutter, payload

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

DONE: Final = b"[DONE]"

OLD_CALL: Final = "function_call"  # in place of `tool_calls`, of models and agents that have not heard of these
CALLED: Final = frozenset({"tool_calls", OLD_CALL})

Allows = Callable[[str], bool]
Item = dict[str, Any]
Place = tuple[int, int | str]


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

    def __init__(self, editor: Editor, upstream: str) -> None:
        self._editor = editor
        self._upstream = upstream
        self._cutter = EventCutter()

    def refuse_unread(self, why: str = "too long to be checked") -> NoReturn:
        raise self._broke(f"its answer is {why}")

    def _broke(self, problem: str) -> UpstreamBroke:
        return UpstreamBroke(upstream=self._upstream, problem=problem)

    def answer(self, body: bytes) -> bytes:
        """A whole answer without what is not allowed; one that cannot be read may hide anything and is not passed."""
        try:
            answer = _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise self._broke("its answer is not JSON") from problem
        if isinstance(answer, dict) and self._editor.answer(cast("Item", answer)):
            return _encoder.encode(answer)
        return body

    def feed(self, block: bytes) -> bytes:
        data, end = self._cutter.cut(block)
        if self._cutter.lost:
            raise self._broke("one of its events is too long to be checked")
        if not end:
            return b""
        gap = self._cutter.gap
        return b"".join(self._event(event, gap) for event in self._cutter.events(data, end))

    def finish(self, rest: bytes) -> bytes:
        """What is left when the answer ends: many take it for an event, though nothing ends it."""
        out = self.feed(rest) if rest else b""
        left = self._cutter.rest()
        return out + self._event(left, b"") if left else out

    def _event(self, event: bytes, gap: bytes) -> bytes:
        """An event without what is not allowed. One that is read otherwise by others may hide it and is not passed."""
        carried = payload(event)
        if event.count(b"{") > carried.count(b"{"):
            raise self._broke("one of its events carries more than its data")
        if not carried or carried == DONE:
            return event + gap
        try:
            decoded = _decoder.decode(carried)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise self._broke("one of its events is not JSON") from problem
        if not isinstance(decoded, dict):
            return event + gap
        before = _encoder.encode(decoded)
        try:
            edited = self._editor.event(cast("Item", decoded))
        except (TypeError, ValueError) as problem:
            raise self._broke("one of its events makes no sense") from problem
        if edited is None:
            return b""
        after = _encoder.encode(edited)
        if after == before:
            return event + gap
        named = [line for line in event.splitlines() if not line.startswith(b"data:")]
        return b"\n".join([*named, b"data: " + after]) + gap


class ChatEditor:
    """Chat completions: tool calls are numbered within a choice; the only one of old has a place of its own."""

    def __init__(self, allows: Allows) -> None:
        self._allows = allows
        self._names: dict[Place, str] = {}
        self._ids: dict[Place, object] = {}
        self._places: dict[Place, int | None] = {}
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
            kept = [call for call in calls if all(map(self._allows, map(_name, _named(call))))]
            old = message.get(OLD_CALL)
            denied = isinstance(old, dict) and not self._allows(_name(cast("Item", old)))
            if len(kept) == len(calls) and not denied:
                continue
            changed = True
            if denied:
                message.pop(OLD_CALL)
            if kept:
                message["tool_calls"] = kept
            else:
                message.pop("tool_calls", None)
                if choice.get("finish_reason") in CALLED:
                    choice["finish_reason"] = "stop"
        return changed

    def event(self, event: Item) -> Item | None:
        self.answer(event)
        empty = 0
        choices = _items(event.get("choices"))
        for choice in choices:
            index = int(choice.get("index", 0))
            delta = choice.get("delta")
            if isinstance(delta, dict) and ("tool_calls" in delta or OLD_CALL in delta):
                empty += self._delta(index, cast("Item", delta)) and choice.get("finish_reason") is None
            if choice.get("finish_reason") in CALLED and index in self._dropped and not self._kept.get(index):
                choice["finish_reason"] = "stop"
        return None if choices and empty == len(choices) else event

    def _delta(self, index: int, delta: Item) -> bool:
        """Edit one delta; says whether nothing is left of it."""
        kept: list[Item] = []
        for call in _items(delta.pop("tool_calls", None)):
            place = (index, int(call.get("index") or 0))
            if any(map(_name, _named(call))) and (said := call.get("id")):
                if self._ids.get(place, said) != said:  # some number all of their calls alike
                    del self._places[place]
                self._ids[place] = said
            moved = self._place(place, _named(call))
            if moved is not None:
                kept.append({**call, "index": moved})
        if kept:
            delta["tool_calls"] = kept
        old = delta.get(OLD_CALL)
        if isinstance(old, dict) and self._place((index, OLD_CALL), [cast("Item", old)]) is None:
            delta.pop(OLD_CALL)
        return not any(value for name, value in delta.items() if name != "role") and "role" not in delta

    def _place(self, place: Place, named: list[Item]) -> int | None:
        """Which call of its choice this is for the agent, None for one that it does not get.

        A name comes whole and first. A call that has none can do nothing yet; should it get more of it later, whether
        that is put behind what was said or in its stead, that has to be allowed as well. One that is only said again is
        taken away where it would not be.
        """
        index = place[0]
        if place not in self._places:
            said = "".join(map(_name, named))
            allowed = all(self._allows(name) for name in map(_name, named) if name)
            self._places[place] = self._kept.get(index, 0) if allowed else None
            if allowed:
                self._kept[index] = self._kept.get(index, 0) + 1
            else:
                self._dropped.add(index)
            self._names[place] = said
        elif self._places[place] is not None:
            for part in named:
                name, said = _name(part), self._names[place]
                if not name or (self._allows(name) and self._allows(said + name)):
                    self._names[place] = said + name
                elif name == said:
                    del part["name"]
                else:
                    raise ValueError(name)
        return self._places[place]


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
        if isinstance(message := event.get("message"), dict):
            self.answer(cast("Item", message))
        if isinstance(block := event.get("content_block"), dict):
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
        if not kind.endswith(("_call", "_approval_request")):
            return False
        return not self._allows(str(item.get("name") or kind.removesuffix("_call")))

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


def sieve_for(api: Api, allows: Allows, upstream: str) -> Sieve | None:
    """A sieve for an API whose answers can hold tool calls."""
    match api:
        case Api.OPENAI_CHAT:
            return Sieve(ChatEditor(allows), upstream)
        case Api.OPENAI_RESPONSES:
            return Sieve(ResponsesEditor(allows), upstream)
        case Api.ANTHROPIC_MESSAGES:
            return Sieve(MessagesEditor(allows), upstream)
        case _:
            return None


def _items(value: object) -> list[Item]:
    if not isinstance(value, list):
        return []
    return [cast("Item", item) for item in cast("list[object]", value) if isinstance(item, dict)]


def _named(call: Item) -> list[Item]:
    """Where a call names something, whichever kind of tool it says that is."""
    parts = [cast("Item", call[kind]) for kind in ("function", "custom") if isinstance(call.get(kind), dict)]
    return [*parts, call] if call.get("name") or not parts else parts


def _name(named: Item) -> str:
    return str(named.get("name") or "")
