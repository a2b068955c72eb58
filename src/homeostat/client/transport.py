"""Requests that get through: pooled, repeated under one key while the server cannot be reached, errors told apart."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from homeostat.core import enforcement_errors, errors, gateway_errors, run_errors
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.errors import HomeostatError, InvalidRequest, ServerUnreachable, Unavailable
from homeostat.core.gateway_errors import UpstreamFailed, UpstreamTimedOut
from homeostat.core.ids import Ids
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.http.pool import HttpLimits, Pool

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

RETRY_SECONDS: Final = 10.0
BACKOFF_SECONDS_FIRST: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0
CONNECT_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 15.0  # beyond the time a request asks to be held open
CONNECTIONS_MAX: Final = 256
UNDER_WAY: Final = "request_under_way"  # another one under this key has not ended: it will have, or was abandoned

LIMITS: Final = HttpLimits(
    connect_seconds=CONNECT_SECONDS_MAX,
    connect_attempts=1,  # trying again is the transport's business
    first_byte_seconds=ANSWER_SECONDS_MAX,
    silence_seconds=ANSWER_SECONDS_MAX,
    connections_max=CONNECTIONS_MAX,
)
TARGET_SAFE: Final = "/?&=%:@!$'()*+,;~[]"  # what a path with its query may hold as it is; a line break is not in it

_NEXT: Final = re.compile(rb'<([^<>]+)>; *rel="?next"?')
_RESERVED: Final = frozenset({"type", "title", "status", "detail", "code", "hint", "trace_id"})
_RAISED_AGAIN: Final[dict[str, type[HomeostatError]]] = {
    kind.code: kind
    for module in (errors, run_errors, gateway_errors, enforcement_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, HomeostatError)
}  # those that other modules derive stay at home: they may be built from other facts, and borrow a code
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
        self.retry_seconds = retry_seconds
        self._lines: Headers = [(b"user-agent", b"homeostat"), (b"accept", b"application/json")]
        self._authorization = _header(b"authorization", f"Bearer {key}") if key else None
        self._pool = Pool(
            name=self.url, url=self.url, setting=f"the server at {self.url}", lines=self._lines, limits=LIMITS
        )
        self._http: httpx2.AsyncClient | None = None

    @property
    def http(self) -> "httpx2.AsyncClient":
        """A client for those who pass bytes on as they are. It takes long to load, and most do without."""
        if self._http is None:
            import httpx2  # noqa: PLC0415 — loaded where it is used

            headers = dict(self._lines if self._authorization is None else [*self._lines, self._authorization])
            self._http = httpx2.AsyncClient(base_url=self.url, headers=headers, trust_env=False)
        return self._http

    async def close(self) -> None:
        await self._pool.close()
        if self._http is not None:
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
        answer_seconds: float = ANSWER_SECONDS_MAX,
        bearer: str | None = None,
        retry_seconds: float | None = None,
    ) -> Received:
        """One request, however often it takes; the same key goes along each time, so it happens once.

        `bearer` speaks for somebody else than the client does, such as an agent.
        """
        headers: Headers = []
        if bearer is not None:
            headers.append(_header(b"authorization", f"Bearer {bearer}"))
        elif self._authorization is not None:
            headers.append(self._authorization)
        if project is not None:
            headers.append(_header(b"x-homeostat-project", project))
        if method == "POST":
            headers.append(_header(b"idempotency-key", key or self.ids.request_key()))
        content = b"" if body is None else _encode(body)
        if content:
            headers.append((b"content-type", b"application/json"))
        target = quote(path, safe=TARGET_SAFE) + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        request = UpstreamRequest(method.encode(), target.encode(), headers, content)
        patience = self.retry_seconds if retry_seconds is None else retry_seconds
        until = self.clock.monotonic() + patience
        backoff = BACKOFF_SECONDS_FIRST
        while True:
            try:
                return await self._once(request, answer_seconds + held_seconds)
            except Unavailable as error:
                if error.http_status == 500 or self.clock.monotonic() + backoff > until:
                    raise
            await asyncio.sleep(self.ids.uniform(backoff / 2, backoff))
            backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)

    async def _once(self, request: UpstreamRequest, seconds: float) -> Received:
        try:
            answer = await self._pool.exchange(request, first_byte_seconds=seconds)
            try:
                content = await answer.read()
                while not answer.complete:
                    content += await answer.read()
                content += answer.take()
            finally:
                answer.close()  # whoever gives up hangs up
        except UpstreamTimedOut as problem:
            raise ServerUnreachable(url=self.url, problem="it was silent for too long") from problem
        except UpstreamFailed as problem:
            raise ServerUnreachable(url=self.url, problem=problem.facts["problem"]) from problem
        if answer.status >= 400:
            raise error_of(answer.status, content)
        return Received(content, _next(answer.headers))


def _header(name: bytes, value: str) -> tuple[bytes, bytes]:
    """A line of a request's head, which nothing that is said in it can end."""
    if not value.isprintable():
        raise InvalidRequest(problem=f"{name.decode()} holds a character that cannot be printed")
    return name, value.encode()


def _next(headers: Headers) -> str | None:
    """Where the next page is, if a server says so."""
    for name, value in headers:
        if name == b"link" and (found := _NEXT.search(value)) is not None:
            return found[1].decode()
    return None


def error_of(status: int, content: bytes) -> HomeostatError:
    """The error a server raised, raised again: same facts, same words, and the same class where the client has it."""
    try:
        body: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        body = {}
    code = str(body.get("code"))
    facts = {name: fact for name, fact in body.items() if name not in _RESERVED or name == "trace_id"}
    kind = _RAISED_AGAIN.get(code)
    if kind is not None:
        error = kind(**facts)
    else:
        error = (Unavailable if status in {502, 503, 504} or code == UNDER_WAY else HomeostatError)(**facts)
        if "code" in body:
            error.code, error.http_status, error.hint = code, status, str(body.get("hint") or "")
    detail = body.get("detail")
    error.args = (detail if isinstance(detail, str) else f"the server answered {status}",)
    return error
