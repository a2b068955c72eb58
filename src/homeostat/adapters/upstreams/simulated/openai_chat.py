"""Chat completions, in one piece and as a stream."""

from typing import Any, cast

from homeostat.adapters.upstreams.simulated import tokens
from homeostat.adapters.upstreams.simulated.answering import (
    Answer,
    BadRequest,
    Desk,
    compact,
    data_event,
    mapping,
    model_of,
    objects,
    text_of,
    whole_number,
)
from homeostat.adapters.upstreams.simulated.mind import ModelCall, Prompt, Reply, Said, ToolOffer, name_id
from homeostat.core.ids import chance

CHOICES_MAX = 16


def answer(desk: Desk, body: dict[str, Any]) -> Answer:
    prompt = read(body)
    choices = whole_number(body, "n") or 1
    if choices > CHOICES_MAX:
        raise BadRequest(f"Invalid 'n': expected at most {CHOICES_MAX}.", param="n")
    replies = [desk.mind.reply(prompt, choice=number) for number in range(choices)]
    luck = chance(desk.seed, "chat", compact(body))
    envelope: dict[str, Any] = {
        "id": "chatcmpl-" + name_id(luck, 29),
        "created": desk.created,
        "model": prompt.model,
        "system_fingerprint": f"fp_{luck.getrandbits(40):010x}",
    }
    usage = usage_of(prompt.count_tokens(), sum(reply.count_tokens() for reply in replies))
    total = sum(reply.count_tokens() for reply in replies)
    if body.get("stream"):
        options = mapping(body.get("stream_options"))
        return Answer(events=_stream(envelope, replies, usage if options.get("include_usage") else None), tokens=total)
    whole = {
        "id": envelope["id"],
        "object": "chat.completion",
        "created": envelope["created"],
        "model": envelope["model"],
        "choices": [_choice(index, reply) for index, reply in enumerate(replies)],
        "usage": usage,
        "service_tier": "default",
        "system_fingerprint": envelope["system_fingerprint"],
    }
    return Answer(compact(whole), tokens=total)


def read(body: dict[str, Any]) -> Prompt:
    """A request as the mind sees it."""
    messages = objects(body.get("messages"), "messages")
    if not messages:
        raise BadRequest("Invalid 'messages': empty array. Expected an array with minimum length 1.", param="messages")
    tools = [mapping(tool.get("function")) for tool in objects(body.get("tools") or [], "tools")]
    must_call, may_call = read_choice(body.get("tool_choice"))
    wanted = mapping(body.get("response_format"))
    schema: dict[str, Any] | None = None
    if wanted.get("type") == "json_schema":
        schema = mapping(wanted.get("json_schema")).get("schema")
    elif wanted.get("type") == "json_object":
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    return Prompt(
        model=model_of(body),
        messages=tuple(
            Said(
                "system" if message.get("role") == "developer" else str(message.get("role", "user")),
                text_of(message.get("content")),
                tuple(
                    str(mapping(call.get("function")).get("name", ""))
                    for call in objects(message.get("tool_calls") or [], "tool_calls")
                ),
            )
            for message in messages
        ),
        tools=tuple(ToolOffer(str(tool.get("name", "")), mapping(tool.get("parameters"))) for tool in tools),
        must_call=must_call,
        may_call=may_call,
        parallel=body.get("parallel_tool_calls", True) is not False,
        max_tokens=whole_number(body, "max_completion_tokens") or whole_number(body, "max_tokens"),
        json_schema=schema,
        overhead_text=compact(tools).decode() if tools else "",
    )


def read_choice(choice: object) -> tuple[str | None, bool]:
    """Which tool must be called, and whether any may."""
    if choice == "none":
        return None, False
    if choice == "required":
        return "any", True
    if isinstance(choice, dict):
        named = cast("dict[str, Any]", choice)
        return str(cast("dict[str, Any]", named.get("function") or named).get("name", "")) or None, True
    return None, True


def usage_of(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _finish(reply: Reply) -> str:
    if reply.truncated:
        return "length"
    return "tool_calls" if reply.calls else "stop"


def _tool_call(call: ModelCall) -> dict[str, Any]:
    return {
        "id": "call_" + call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _choice(index: int, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.calls]
    message |= {"refusal": None, "annotations": []}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": _finish(reply)}


def _stream(
    envelope: dict[str, Any], replies: list[Reply], usage: dict[str, Any] | None
) -> tuple[tuple[bytes, int], ...]:
    def chunk(choices: list[dict[str, Any]], used: dict[str, Any] | None = None) -> bytes:
        value = {
            "id": envelope["id"],
            "object": "chat.completion.chunk",
            "created": envelope["created"],
            "model": envelope["model"],
            "service_tier": "default",
            "system_fingerprint": envelope["system_fingerprint"],
            "choices": choices,
        }
        return data_event(value if usage is None else value | {"usage": used})

    events: list[tuple[bytes, int]] = []
    for index, reply in enumerate(replies):

        def delta(said: dict[str, Any], finish: str | None = None, index: int = index) -> list[dict[str, Any]]:
            return [{"index": index, "delta": said, "logprobs": None, "finish_reason": finish}]

        content = None if reply.calls and not reply.text else ""
        events.append((chunk(delta({"role": "assistant", "content": content, "refusal": None})), 0))
        events += [(chunk(delta({"content": piece})), 1) for piece in reply.pieces()]
        for number, call in enumerate(reply.calls):
            opening = {"index": number, **_tool_call(call)}
            opening["function"] = {"name": call.name, "arguments": ""}
            events.append((chunk(delta({"tool_calls": [opening]})), 1))
            for piece in tokens.pieces(call.arguments):
                part = {"index": number, "function": {"arguments": piece}}
                events.append((chunk(delta({"tool_calls": [part]})), 1))
        events.append((chunk(delta({}, _finish(reply))), 0))
    if usage is not None:
        events.append((chunk([], usage), 0))
    events.append((b"data: [DONE]\n\n", 0))
    return tuple(events)
