"""Anthropic's messages, in one piece and as a stream of named events."""

from typing import Any, cast

from homeostat.adapters.upstreams.simulated import tokens
from homeostat.adapters.upstreams.simulated.answering import (
    Answer,
    BadRequest,
    Desk,
    compact,
    mapping,
    model_of,
    named_event,
    objects,
    text_of,
    whole_number,
)
from homeostat.adapters.upstreams.simulated.mind import ModelCall, Prompt, Reply, Said, ToolOffer, name_id
from homeostat.core.codec import from_json
from homeostat.core.ids import chance


def answer(desk: Desk, body: dict[str, Any]) -> Answer:
    prompt = read(body)
    if prompt.max_tokens is None:
        raise BadRequest("max_tokens: Field required", param="max_tokens")
    reply = desk.mind.reply(prompt)
    luck = chance(desk.seed, "messages", compact(body))
    message: dict[str, Any] = {
        "id": "msg_01" + name_id(luck, 22),
        "type": "message",
        "role": "assistant",
        "model": prompt.model,
    }
    if body.get("stream"):
        return Answer(events=_stream(message, prompt, reply), tokens=reply.count_tokens())
    whole = message | {
        "content": _blocks(reply),
        "stop_reason": _stop(reply),
        "stop_sequence": None,
        "usage": _usage(prompt.count_tokens(), reply.count_tokens()),
    }
    return Answer(compact(whole), tokens=reply.count_tokens())


def count_tokens(desk: Desk, body: dict[str, Any]) -> Answer:
    del desk
    return Answer(compact({"input_tokens": read(body).count_tokens()}))


def read(body: dict[str, Any]) -> Prompt:
    messages: list[Said] = []
    if body.get("system"):
        messages.append(Said("system", text_of(body["system"])))
    given = objects(body.get("messages"), "messages")
    if not given:
        raise BadRequest("messages: at least one message is required", param="messages")
    for message in given:
        messages += _said(message)
    tools = objects(body.get("tools") or [], "tools")
    choice = mapping(body.get("tool_choice"))
    kind = choice.get("type", "auto")
    return Prompt(
        model=model_of(body),
        messages=tuple(messages),
        tools=tuple(ToolOffer(str(tool.get("name", "")), mapping(tool.get("input_schema"))) for tool in tools),
        must_call={"any": "any", "tool": choice.get("name")}.get(str(kind)),
        may_call=kind != "none",
        parallel=not choice.get("disable_parallel_tool_use", False),
        max_tokens=whole_number(body, "max_tokens"),
        overhead_text=compact(tools).decode() if tools else "",
    )


def _said(message: dict[str, Any]) -> list[Said]:
    """A user's message may carry tool results besides words; each is a saying of its own."""
    role, content = str(message.get("role", "user")), message.get("content")
    if not isinstance(content, list):
        return [Said(role, text_of(content))]
    parts = [mapping(block) for block in cast("list[object]", content)]
    said = [Said("tool", text_of(part.get("content"))) for part in parts if part.get("type") == "tool_result"]
    calls = tuple(str(part.get("name", "")) for part in parts if part.get("type") == "tool_use")
    words = "\n".join(text_of(part.get("text")) for part in parts if part.get("type") == "text")
    if words or calls or not said:
        said.append(Said(role, words, calls))
    return said


def _stop(reply: Reply) -> str:
    if reply.truncated:
        return "max_tokens"
    return "tool_use" if reply.calls else "end_turn"


def _usage(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def _tool_use(call: ModelCall, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_01" + call.call_id[:22], "name": call.name, "input": given}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        blocks.append({"type": "text", "text": reply.text})
    return blocks + [_tool_use(call, from_json(call.arguments)) for call in reply.calls]


def _stream(message: dict[str, Any], prompt: Prompt, reply: Reply) -> tuple[tuple[bytes, int], ...]:
    opening: dict[str, Any] = message | {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(prompt.count_tokens(), 1),
    }
    events: list[tuple[bytes, int]] = [(named_event({"type": "message_start", "message": opening}), 0)]
    index = 0
    if reply.text or not reply.calls:
        pieces = [{"type": "text_delta", "text": piece} for piece in reply.pieces()]
        events += _block(index, {"type": "text", "text": ""}, pieces)
        index += 1
    for call in reply.calls:
        parts = ["", *tokens.pieces(call.arguments)]
        pieces = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        events += _block(index, _tool_use(call, {}), pieces)
        index += 1
    events.insert(2, (b'event: ping\ndata: {"type": "ping"}\n\n', 0))
    delta = {
        "type": "message_delta",
        "delta": {"stop_reason": _stop(reply), "stop_sequence": None},
        "usage": {"output_tokens": reply.count_tokens()},
    }
    events.append((named_event(delta), 0))
    events.append((named_event({"type": "message_stop"}), 0))
    return tuple(events)


def _block(index: int, opening: dict[str, Any], deltas: list[dict[str, Any]]) -> list[tuple[bytes, int]]:
    events = [(named_event({"type": "content_block_start", "index": index, "content_block": opening}), 0)]
    events += [(named_event({"type": "content_block_delta", "index": index, "delta": delta}), 1) for delta in deltas]
    events.append((named_event({"type": "content_block_stop", "index": index}), 0))
    return events
