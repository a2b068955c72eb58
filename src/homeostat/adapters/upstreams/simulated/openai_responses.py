"""The responses API, in one piece and as a stream of named events."""

from typing import Any

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
from homeostat.adapters.upstreams.simulated.mind import ModelCall, Prompt, Reply, Said, ToolOffer
from homeostat.adapters.upstreams.simulated.openai_chat import read_choice
from homeostat.core.ids import chance


def answer(desk: Desk, body: dict[str, Any]) -> Answer:
    prompt = read(body)
    reply = desk.mind.reply(prompt)
    luck = chance(desk.seed, "responses", compact(body))
    response = _response(f"resp_{luck.getrandbits(192):048x}", desk.created, prompt, body)
    items = _items(reply, f"{luck.getrandbits(176):044x}")
    usage = {
        "input_tokens": prompt.count_tokens(),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.count_tokens(),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt.count_tokens() + reply.count_tokens(),
    }
    ended = response | {
        "status": "incomplete" if reply.truncated else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reply.truncated else None,
        "output": items,
        "usage": usage,
    }
    if body.get("stream"):
        return Answer(events=_stream(response, reply, items, ended), tokens=reply.count_tokens())
    return Answer(compact(ended), tokens=reply.count_tokens())


def read(body: dict[str, Any]) -> Prompt:
    given = body.get("input")
    messages: list[Said] = []
    if body.get("instructions"):
        messages.append(Said("system", text_of(body["instructions"])))
    if isinstance(given, str):
        messages.append(Said("user", given))
    else:
        messages += [_said(item) for item in objects(given, "input")]
    if not messages:
        raise BadRequest("Missing required parameter: 'input'.", param="input")
    tools = [tool for tool in objects(body.get("tools") or [], "tools") if tool.get("type") == "function"]
    must_call, may_call = read_choice(body.get("tool_choice"))
    wanted = mapping(mapping(body.get("text")).get("format"))
    return Prompt(
        model=model_of(body),
        messages=tuple(messages),
        tools=tuple(ToolOffer(str(tool.get("name", "")), mapping(tool.get("parameters"))) for tool in tools),
        must_call=must_call,
        may_call=may_call,
        parallel=body.get("parallel_tool_calls", True) is not False,
        max_tokens=whole_number(body, "max_output_tokens"),
        json_schema=wanted.get("schema") if wanted.get("type") == "json_schema" else None,
        overhead_text=compact(tools).decode() if tools else "",
    )


def _said(item: dict[str, Any]) -> Said:
    match item.get("type", "message"):
        case "function_call":
            return Said("assistant", "", (str(item.get("name", "")),))
        case "function_call_output":
            return Said("tool", text_of(item.get("output")))
        case _:
            role = str(item.get("role", "user"))
            return Said("system" if role == "developer" else role, text_of(item.get("content")))


def _response(response_id: str, created: int, prompt: Prompt, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": prompt.model,
        "output": [],
        "parallel_tool_calls": prompt.parallel,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": None,
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def _items(reply: Reply, suffix: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        items.append(_message(f"msg_{suffix}", [_part(reply.text)], "incomplete" if reply.truncated else "completed"))
    items += [_function_call(call, call.arguments, "completed") for call in reply.calls]
    return items


def _message(item_id: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "status": status, "content": content, "role": "assistant"}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _function_call(call: ModelCall, arguments: str, status: str) -> dict[str, Any]:
    return {
        "id": "fc_" + call.call_id,
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": "call_" + call.call_id,
        "name": call.name,
    }


class _Events:
    """Events in order, each with its sequence number."""

    def __init__(self) -> None:
        self.made: list[tuple[bytes, int]] = []

    def add(self, kind: str, carries: int = 0, **fields: Any) -> None:
        value: dict[str, Any] = {"type": kind, "sequence_number": len(self.made), **fields}
        self.made.append((named_event(value), carries))


def _stream(
    response: dict[str, Any], reply: Reply, items: list[dict[str, Any]], ended: dict[str, Any]
) -> tuple[tuple[bytes, int], ...]:
    events = _Events()
    events.add("response.created", response=response)
    events.add("response.in_progress", response=response)
    for index, item in enumerate(items):
        if item["type"] == "message":
            _stream_text(events, index, item, reply)
        else:
            call = next(call for call in reply.calls if "fc_" + call.call_id == item["id"])
            _stream_call(events, index, item, call)
    events.add("response.incomplete" if reply.truncated else "response.completed", response=ended)
    return tuple(events.made)


def _stream_text(events: _Events, index: int, item: dict[str, Any], reply: Reply) -> None:
    at: dict[str, Any] = {"item_id": item["id"], "output_index": index, "content_index": 0}
    opening = _message(item["id"], [], "in_progress")
    events.add("response.output_item.added", output_index=index, item=opening)
    events.add("response.content_part.added", **at, part=_part(""))
    for piece in reply.pieces():
        events.add("response.output_text.delta", 1, **at, delta=piece, logprobs=[])
    events.add("response.output_text.done", **at, text=reply.text, logprobs=[])
    events.add("response.content_part.done", **at, part=_part(reply.text))
    events.add("response.output_item.done", output_index=index, item=item)


def _stream_call(events: _Events, index: int, item: dict[str, Any], call: ModelCall) -> None:
    at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    events.add("response.output_item.added", output_index=index, item=_function_call(call, "", "in_progress"))
    for piece in tokens.pieces(call.arguments):
        events.add("response.function_call_arguments.delta", 1, **at, delta=piece)
    events.add("response.function_call_arguments.done", **at, arguments=call.arguments)
    events.add("response.output_item.done", output_index=index, item=item)
