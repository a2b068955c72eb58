"""One request, as an endpoint sees it."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from homeostat.access.logins import Session
from homeostat.app.assemble import System
from homeostat.core.codec import malformed
from homeostat.core.errors import MalformedPayload, PayloadTooLarge, Unauthenticated
from homeostat.core.ids import ProjectId, TraceId, digest_of
from homeostat.core.limits import (
    BODY_BYTES_MAX,
    DISCARD_BYTES_MAX,
    DISCARD_SECONDS_MAX,
    IDEMPOTENCY_KEY_CHARS_MAX,
    QUERY_BYTES_MAX,
)
from homeostat.core.records.access import NOBODY, Principal, PrincipalKind
from homeostat.core.wire.fields import Name
from homeostat.kernel.commands import Idempotency
from homeostat.server.patience import Patience

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

T = TypeVar("T")

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WANTED: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"idempotency-key",
        b"if-match",
        b"origin",
        b"prefer",
        b"traceparent",
        b"x-homeostat-csrf",
        b"x-homeostat-project",
    }
)
_TRACEPARENT: Final = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Call:
    """What was asked, by whom, in which project, as part of which trace."""

    __slots__ = (
        "_body",
        "_query",
        "_receive",
        "headers",
        "parameters",
        "patience",
        "principal",
        "scope",
        "session",
        "system",
        "trace_id",
    )

    def __init__(
        self, scope: Scope, receive: Receive, *, parameters: dict[str, str], system: System, patience: Patience
    ) -> None:
        self.scope = scope
        self._receive = receive
        self.parameters = parameters
        self.system = system
        self.patience = patience
        self.headers: dict[bytes, bytes] = {name: value for name, value in scope["headers"] if name in _WANTED}
        self.trace_id = _trace_of(self.headers.get(b"traceparent"))
        self.principal: Principal = NOBODY
        self.session: Session | None = None
        self._body: bytes | None = None
        self._query: dict[str, str] | None = None

    # --- who and what --------------------------------------------------------------------------------------

    @property
    def project(self) -> ProjectId:
        """The header's project, else the query's, else the caller's, else the server's own."""
        raw = self.headers.get(b"x-homeostat-project")
        named = raw.decode("latin-1") if raw is not None else self.query.get("project")
        if named is None:
            return self.principal.project or ProjectId(self.system.settings.project)
        try:
            return ProjectId(msgspec.convert(named, Name))
        except msgspec.ValidationError as problem:
            raise malformed(problem, what="project") from problem

    @property
    def bearer(self) -> str | None:
        """The key that came along; None if the caller shows none."""
        raw = self.headers.get(b"authorization")
        if raw is None:
            return None
        scheme, _, key = raw.partition(b" ")
        if scheme.lower() != b"bearer" or not key:
            raise Unauthenticated
        return key.strip().decode("latin-1")

    @property
    def dry_run(self) -> bool:
        """Whether the caller only wants to know what would happen."""
        return self.query.get("dry_run", "").lower() in {"1", "true", "yes"}

    @property
    def prefers_async(self) -> bool:
        """Whether the caller would rather look later than wait."""
        return b"respond-async" in self.headers.get(b"prefer", b"").lower()

    def actor(self, said: str) -> str:
        """Who does this: whoever proved who they are, or what they say where nobody has to."""
        return said if self.principal.kind is PrincipalKind.LOCAL else self.principal.name

    @property
    def idempotency(self) -> Idempotency | None:
        """The key of a caller, and of no other, tied to what was asked; the body has to be read by now."""
        raw = self.headers.get(b"idempotency-key")
        if raw is None:
            return None
        key = raw.decode("latin-1")
        if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARS_MAX or not key.isprintable():
            problem = f"it must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} printable characters"
            raise MalformedPayload(field="Idempotency-Key", problem=problem)
        asked = f"{self.scope['method']} {self.scope['path']}\n{(self._body or b'').decode('latin-1')}"
        said, caller = Idempotency(key, digest_of(asked)), self.principal
        return said if caller.kind is PrincipalKind.LOCAL else said.of(f"{caller.kind} {caller.name}")

    # --- the query -----------------------------------------------------------------------------------------

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            raw: bytes = self.scope["query_string"]
            self._query = _read_query(raw) if raw else {}
        return self._query

    def asked(self, shape: type[T]) -> T:
        """The query as a record; parameters it does not know are somebody else's."""
        try:
            return msgspec.convert(self.query, shape, strict=False)
        except msgspec.ValidationError as problem:
            raise malformed(problem, what="query", shape=shape) from problem

    # --- the body ------------------------------------------------------------------------------------------

    async def read(self, limit: int = BODY_BYTES_MAX) -> bytes:
        """The whole body, unless it is larger than such a body may be: then it is refused unread."""
        if self._body is None:
            self._body = await self._read(limit)
        return _bounded(self._body, limit)

    async def _read(self, limit: int) -> bytes:
        said = self.headers.get(b"content-length")
        if said is not None and (not said.isdigit() or int(said) > limit):
            raise PayloadTooLarge(what="the body", size=said.decode("latin-1"), limit=limit)
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return _bounded(body, limit)
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            message = await self._receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise PayloadTooLarge(what="the body", size=f"more than {limit}", limit=limit)
        return b"".join(parts)

    async def discard(self) -> None:
        """Let the rest of a refused body pass by, as far as that is bearable."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS_MAX):
                while size <= DISCARD_BYTES_MAX:
                    message = await self._receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return

    async def hung_up(self) -> None:
        """Ends when the caller does; only to be asked once the body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _trace_of(header: bytes | None) -> TraceId | None:
    """The trace this request is part of, if the caller says so; what is not valid is as good as absent."""
    found = _TRACEPARENT.fullmatch(header) if header is not None else None
    return TraceId(found[1].decode()) if found else None


def _bounded(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise PayloadTooLarge(what="the body", size=len(body), limit=limit)
    return body


def _read_query(raw: bytes) -> dict[str, str]:
    if len(raw) > QUERY_BYTES_MAX:
        raise PayloadTooLarge(what="the query", size=len(raw), limit=QUERY_BYTES_MAX)
    try:
        return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64))
    except (UnicodeDecodeError, ValueError) as problem:
        raise MalformedPayload(field="query", problem=str(problem)) from problem
