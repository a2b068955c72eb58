"""Model calls from inside a turn: chat completions through the gateway, whole or as a stream."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from homeostat.agent.errors import ModelRefused, ModelUnavailable
from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ids import Ids
from homeostat.core.limits import DEFERRAL_SECONDS, DEFERRAL_SECONDS_MAX, MODEL_ATTEMPTS_MAX
from homeostat.core.ports.upstream import Headers, Upstream, UpstreamRequest, UpstreamResponse
from homeostat.core.records.turn import Turn
from homeostat.core.wire.sse import EventCutter, payload

TARGET: Final = b"/v1/chat/completions"

OnText = Callable[[str], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call the model wants made. Arguments that are not an object are kept as the model wrote them."""

    call_id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the model answered. `message` can be put into the next call's messages as it is."""

    text: str
    tool_calls: tuple[ToolUse, ...]
    finish_reason: str
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    model: str = ""
    message: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return self.text


def headers_of(turn: Turn) -> Headers:
    """Who asks, and as part of what: the gateway meters by these."""
    headers = [
        (b"x-agent-id", turn.agent_id.encode()),
        (b"x-homeostat-turn-id", turn.turn_id.encode()),
        (b"traceparent", f"00-{turn.trace_id}-{turn.turn_id[-16:]}-01".encode()),
    ]
    if turn.run_id is not None:
        headers.append((b"x-homeostat-run-id", turn.run_id.encode()))
    return headers


class Models:
    """Sends chat completions to an upstream, and tries again what is worth trying again."""

    def __init__(self, upstream: Upstream, *, ids: Ids | None = None, sleep: Sleep = asyncio.sleep) -> None:
        self._upstream = upstream
        self._ids = ids or Ids()
        self._sleep = sleep

    async def complete(self, body: dict[str, Any], headers: Headers, on_text: OnText | None = None) -> dict[str, Any]:
        """The answer to one call, as plain data that a step can keep."""
        if on_text is not None:
            body = body | {"stream": True, "stream_options": {"include_usage": True}}
        content = to_json(body, what="the model call").encode()
        request = UpstreamRequest(b"POST", TARGET, [(b"content-type", b"application/json"), *headers], content)
        pause = DEFERRAL_SECONDS
        for attempt in range(1, MODEL_ATTEMPTS_MAX + 1):
            try:
                return await self._once(request, on_text)
            except (ModelUnavailable, UpstreamFailed) as problem:
                hopeless = isinstance(problem, ModelUnavailable) and problem.facts.get("hopeless")
                if hopeless or attempt == MODEL_ATTEMPTS_MAX:
                    raise
            await self._sleep(self._ids.uniform(pause / 2, pause))
            pause = min(pause * 2, DEFERRAL_SECONDS_MAX)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, request: UpstreamRequest, on_text: OnText | None) -> dict[str, Any]:
        response = await self._upstream.send(request)
        try:
            if response.status >= 400:
                raise _refusal(response, await _whole(response))
            if on_text is None:
                return _kept(from_json(await _whole(response)))
            return await _follow(response, on_text)
        except MalformedPayload as problem:
            raise ModelUnavailable(problem=f"its answer was no JSON: {problem}") from problem
        finally:
            response.close()

    async def close(self) -> None:
        await self._upstream.close()


async def _whole(response: UpstreamResponse) -> bytes:
    blocks: list[bytes] = []
    while block := await response.read():
        blocks.append(block)
    return b"".join(blocks)


def _refusal(response: UpstreamResponse, body: bytes) -> ModelRefused | ModelUnavailable:
    try:
        read = from_json(body)
        answer: dict[str, Any] = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        error = answer.get("error")
        told = (
            cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error or answer.get("detail")
        )
    except MalformedPayload:
        told = None
    words = str(told or body[:200].decode(errors="replace") or "no reason was given")
    if response.status in (408, 409, 429) or response.status >= 500:
        stay = dict(response.headers).get(b"x-should-retry") == b"false"
        return ModelUnavailable(problem=f"{response.status} {words}", status=response.status, hopeless=stay)
    return ModelRefused(status=response.status, problem=words)


def _kept(answer: Any) -> dict[str, Any]:
    """What is worth keeping of an answer."""
    body = _record(answer)
    choices = _records(body.get("choices"))
    if not choices:
        raise ModelUnavailable(problem="its answer has no choices")
    return {
        "message": _record(choices[0].get("message")),
        "finish_reason": _word(choices[0].get("finish_reason")),
        "usage": _record(body.get("usage")),
        "model": _word(body.get("model")),
    }


# A model's provider is a stranger: what it sends in another shape than agreed is the same as what it does not send.


def _record(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _records(value: Any) -> list[dict[str, Any]]:
    return [item for item in cast("list[Any]", value) if isinstance(item, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


async def _follow(response: UpstreamResponse, on_text: OnText) -> dict[str, Any]:
    """Read a stream to its end, handing on the words as they come."""
    said: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    kept: dict[str, Any] = {"finish_reason": "", "usage": {}, "model": ""}
    async for chunk in _chunks(response):
        kept["model"] = _word(chunk.get("model")) or kept["model"]
        kept["usage"] = _record(chunk.get("usage")) or kept["usage"]
        for choice in _records(chunk.get("choices"))[:1]:
            kept["finish_reason"] = _word(choice.get("finish_reason")) or kept["finish_reason"]
            delta = _record(choice.get("delta"))
            if text := _word(delta.get("content")):
                said.append(text)
                await on_text(text)
            _add_calls(calls, _records(delta.get("tool_calls")))
    if not kept["finish_reason"]:
        raise ModelUnavailable(problem="its stream broke off")
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said) or None}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return kept | {"message": message}


def _add_calls(calls: dict[int, dict[str, Any]], deltas: Iterable[dict[str, Any]]) -> None:
    for delta in deltas:
        index = delta.get("index")
        place = index if isinstance(index, int) else 0
        known = calls.setdefault(place, {"type": "function", "function": {"arguments": ""}})
        if call_id := _word(delta.get("id")):
            known["id"] = call_id
        function = _record(delta.get("function"))
        if name := _word(function.get("name")):
            known["function"]["name"] = name
        known["function"]["arguments"] += _word(function.get("arguments"))


async def _chunks(response: UpstreamResponse) -> AsyncGenerator[dict[str, Any]]:
    cutter = EventCutter()
    while block := await response.read():
        for event in cutter.events(*cutter.cut(block)):
            if (data := payload(event)) and data != b"[DONE]":
                yield _record(from_json(data))


def read_completion(kept: dict[str, Any]) -> Completion:
    """A kept answer as an author reads it."""
    message = cast("dict[str, Any]", kept["message"])
    calls = [
        ToolUse(str(call.get("id", "")), str(call["function"].get("name", "")), _arguments(call["function"]))
        for call in cast("list[dict[str, Any]]", message.get("tool_calls") or [])
        if isinstance(call.get("function"), dict)
    ]
    text = message.get("content")
    return Completion(
        text=text if isinstance(text, str) else "",
        tool_calls=tuple(calls),
        finish_reason=kept["finish_reason"],
        usage=kept["usage"],
        model=kept["model"],
        message=message,
    )


def _arguments(function: dict[str, Any]) -> Any:
    text = function.get("arguments") or "{}"
    try:
        return from_json(text)
    except MalformedPayload:
        return text
