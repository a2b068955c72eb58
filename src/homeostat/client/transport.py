"""Requests that get through: pooled, repeated under one key while the server cannot be reached, errors told apart."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from homeostat.core import enforcement_errors, run_errors
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.errors import HomeostatError, ServerUnreachable, Unavailable, by_code
from homeostat.core.ids import Ids

T = TypeVar("T")

RETRY_SECONDS: Final = 10.0
BACKOFF_SECONDS_FIRST: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0
CONNECT_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 15.0  # beyond the time a request asks to be held open
CONNECTIONS_MAX: Final = 256
UNDER_WAY: Final = "request_under_way"  # another one under this key has not ended: it will have, or was abandoned

_RESERVED: Final = frozenset({"type", "title", "status", "detail", "code", "hint", "trace_id"})
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Received:
    """An answer, as yet unread."""

    content: bytes
    next_path: str | None = None  # where the next page of a bare list is

    def read(self, shape: type[T]) -> T:
        return msgspec.json.decode(self.content, type=shape)


class Transport:
    """One server, reached over pooled connections."""

    def __init__(
        self,
        *,
        url: str,
        key: str | None = None,
        retry_seconds: float = RETRY_SECONDS,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.clock = clock or SystemClock()
        self.ids = ids or Ids(clock=self.clock)
        self.key = key
        self._retry_seconds = retry_seconds
        headers = {"user-agent": "homeostat", "accept": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            headers=headers,
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
            trust_env=False,
        )

    @property
    def http(self) -> httpx2.AsyncClient:
        """The connections, for those who pass bytes on as they are."""
        return self._http

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        project: str | None = None,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        held_seconds: float = 0.0,
        bearer: str | None = None,
        retry_seconds: float | None = None,
    ) -> Received:
        """One request, however often it takes; the same key goes along each time, so it happens once.

        `bearer` speaks for somebody else than the client does, such as an agent.
        """
        headers: dict[str, str] = {}
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        if project is not None:
            headers["x-homeostat-project"] = project
        if method == "POST":
            headers["idempotency-key"] = key or self.ids.request_key()
        content = None if body is None else _encode(body)
        if content is not None:
            headers["content-type"] = "application/json"
        timeout = httpx2.Timeout(ANSWER_SECONDS_MAX + held_seconds, connect=CONNECT_SECONDS_MAX)
        request = self._http.build_request(
            method, path, headers=headers, content=content, params=query or None, timeout=timeout
        )
        patience = self._retry_seconds if retry_seconds is None else retry_seconds
        until = self.clock.monotonic() + patience
        backoff = BACKOFF_SECONDS_FIRST
        while True:
            try:
                return await self._once(request)
            except Unavailable as error:
                if error.http_status == 500 or self.clock.monotonic() + backoff > until:
                    raise
            await asyncio.sleep(self.ids.uniform(backoff / 2, backoff))
            backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)

    async def _once(self, request: httpx2.Request) -> Received:
        try:
            response = await self._http.send(request)
        except httpx2.TransportError as problem:
            raise ServerUnreachable(url=self.url, problem=str(problem) or type(problem).__name__) from problem
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        return Received(response.content, response.links.get("next", {}).get("url"))


def error_of(status: int, content: bytes) -> HomeostatError:
    """The error a server raised, raised again: same facts, same words, and the same class where the client has it."""
    try:
        body: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        body = {}
    code = str(body.get("code"))
    facts = {name: fact for name, fact in body.items() if name not in _RESERVED or name == "trace_id"}
    kind = by_code().get(code) or run_errors.BY_CODE.get(code) or enforcement_errors.BY_CODE.get(code)
    if kind is not None:
        error = kind(**facts)
    else:
        error = (Unavailable if status in {502, 503, 504} or code == UNDER_WAY else HomeostatError)(**facts)
        if "code" in body:
            error.code, error.http_status, error.hint = code, status, str(body.get("hint") or "")
    detail = body.get("detail")
    error.args = (detail if isinstance(detail, str) else f"the server answered {status}",)
    return error
