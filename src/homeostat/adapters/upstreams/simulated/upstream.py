"""The simulated model behind the upstream port: requests in, bytes out, at the pace of a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from homeostat.adapters.upstreams.simulated import anthropic_messages, openai_chat, openai_responses, openai_rest
from homeostat.adapters.upstreams.simulated.answering import Answer, Answerer, BadRequest, Desk, compact
from homeostat.adapters.upstreams.simulated.mind import Mind, Script, name_id
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import from_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ids import chance
from homeostat.core.ports.upstream import Headers, UpstreamRequest

POSTS: Final[dict[bytes, Answerer]] = {
    b"/chat/completions": openai_chat.answer,
    b"/responses": openai_responses.answer,
    b"/embeddings": openai_rest.embeddings,
    b"/messages": anthropic_messages.answer,
    b"/messages/count_tokens": anthropic_messages.count_tokens,
}

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the model is. Each call deviates from it by up to `spread`, as its seed has it."""

    first_token_seconds: float = 0.45
    token_seconds: float = 0.012
    spread: float = 0.4
    tokens_per_event: int = 1

    def of_call(self, luck: Any) -> tuple[float, float]:
        factor = luck.uniform(1.0 - self.spread, 1.0 + self.spread)
        return self.first_token_seconds * factor, self.token_seconds * factor


INSTANT: Final = Pace(0.0, 0.0)


class SimulatedResponse:
    """An answer that arrives piece by piece."""

    def __init__(self, status: int, headers: Headers, parts: list[tuple[bytes, float]], pause: Pause) -> None:
        self._status = status
        self._headers = headers
        self._parts = parts
        self._pause = pause
        self._next = 0
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def status(self) -> int:
        return self._status

    @property
    def headers(self) -> Headers:
        return self._headers

    @property
    def complete(self) -> bool:
        return all(seconds <= 0 for _, seconds in self._parts[self._next :])

    async def read(self) -> bytes:
        if self._closed:
            raise UpstreamFailed(upstream="simulated", problem="the answer was let go")
        if self._next >= len(self._parts):
            return b""
        _, seconds = self._parts[self._next]
        if seconds > 0:
            await self._wait(seconds)
        first = self._next
        self._next += 1
        while self._next < len(self._parts) and self._parts[self._next][1] <= 0:
            self._next += 1
        return b"".join(part for part, _ in self._parts[first : self._next])

    async def _wait(self, seconds: float) -> None:
        self._waiting = asyncio.ensure_future(self._pause(seconds))
        try:
            await self._waiting
        except asyncio.CancelledError:
            if self._closed:
                raise UpstreamFailed(upstream="simulated", problem="the answer was let go") from None
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()


class SimulatedUpstream:
    """Keeps the upstream port. Wrap it to break it: whatever fails in the world fails around it, not inside."""

    def __init__(
        self,
        *,
        seed: int = 0,
        pace: Pace | None = None,
        script: Script | None = None,
        clock: Clock | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._desk = Desk(Mind(seed=seed, script=script), clock or SystemClock(), seed)
        self._pace = pace or Pace()
        self._pause = pause
        self._seed = seed
        self.calls = 0

    async def send(self, request: UpstreamRequest) -> SimulatedResponse:
        self.calls += 1
        body = await _whole(request)
        anthropic = any(name == b"anthropic-version" for name, _ in request.headers)
        luck = chance(self._seed, request.target, body)
        request_id = "req_" + name_id(luck, 24)
        named = (b"request-id" if anthropic else b"x-request-id", request_id.encode())
        try:
            answer = self._answer(request, body, anthropic=anthropic)
        except BadRequest as problem:
            text = _problem(problem, request_id, anthropic=anthropic)
            return self._respond(problem.status, text, named)
        first, per_token = self._pace.of_call(luck)
        if not answer.streamed:
            if (seconds := first + per_token * answer.tokens) > 0:
                await self._pause(seconds)
            return self._respond(200, answer.body, named)
        if first > 0:
            await self._pause(first)
        headers: Headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            named,
        ]
        return SimulatedResponse(200, headers, _paced(answer, per_token, self._pace.tokens_per_event), self._pause)

    def _answer(self, request: UpstreamRequest, body: bytes, *, anthropic: bool) -> Answer:
        path = request.target.partition(b"?")[0].rstrip(b"/").removeprefix(b"/v1")
        if request.method == b"GET" and path == b"/models":
            return (openai_rest.anthropic_models if anthropic else openai_rest.models)(self._desk, {})
        answerer = POSTS.get(path)
        if answerer is None or request.method != b"POST":
            where = f"{request.method.decode()} {request.target.decode(errors='replace')}"
            raise BadRequest(f"Invalid URL ({where})", status=404)
        try:
            value = from_json(body)
        except MalformedPayload as problem:
            raise BadRequest("We could not parse the JSON body of your request.") from problem
        if not isinstance(value, dict):
            raise BadRequest("We could not parse the JSON body of your request.")
        try:
            return answerer(self._desk, cast("dict[str, Any]", value))
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise BadRequest(f"The request is not shaped as expected: {problem}") from problem

    def _respond(self, status: int, body: bytes, named: tuple[bytes, bytes]) -> SimulatedResponse:
        length = (b"content-length", str(len(body)).encode())
        return SimulatedResponse(
            status, [(b"content-type", b"application/json"), length, named], [(body, 0.0)], self._pause
        )

    async def close(self) -> None:
        """There is nothing to close."""


def _paced(answer: Answer, token_seconds: float, tokens_per_event: int) -> list[tuple[bytes, float]]:
    """Events with the time each takes to arrive; several tokens may come in one breath."""
    parts: list[tuple[bytes, float]] = []
    carried = 0
    for event, tokens in answer.events:
        carried += tokens
        late = tokens > 0 and carried % tokens_per_event == 0
        parts.append((event, token_seconds * tokens_per_event if late else 0.0))
    return parts


async def _whole(request: UpstreamRequest) -> bytes:
    if isinstance(request.body, bytes):
        return request.body
    return b"".join([piece async for piece in request.body])


def _problem(problem: BadRequest, request_id: str, *, anthropic: bool) -> bytes:
    kind = "not_found_error" if problem.status == 404 and anthropic else "invalid_request_error"
    if anthropic:
        return compact({"type": "error", "error": {"type": kind, "message": str(problem)}, "request_id": request_id})
    error = {"message": str(problem), "type": kind, "param": problem.param, "code": None}
    return compact({"error": error})
