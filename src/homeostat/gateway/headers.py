"""Which headers pass through the gateway, and what it reads of them on the way."""

from collections.abc import Iterable

from homeostat.core.ids import RunId, TraceId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.ports.upstream import Headers

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What is between the agent and the gateway only. Its key above all.
PRIVATE = frozenset(
    {
        b"host",
        b"content-length",
        b"expect",
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-agent-id",
        b"x-homeostat-run-id",
        b"x-homeostat-key",
        b"cookie",
    }
)
NOT_FORWARDED = HOP_BY_HOP | PRIVATE
NOT_RETURNED = HOP_BY_HOP | {b"set-cookie"}
READ = frozenset({b"accept-encoding", b"x-stainless-retry-count", b"traceparent"})
ORDINARY = frozenset({b"", b"keep-alive", b"close"})
IDENTITY = (b"accept-encoding", b"identity")


class RequestHeaders:
    """One pass over a request's headers: what is forwarded, and what is meant for the gateway."""

    __slots__ = ("_named", "agent_id", "content_length", "forwarded", "key", "retries", "run_id", "trace_id")

    def __init__(self, lines: Iterable[tuple[bytes, bytes]], *, readable: bool) -> None:
        """`readable` asks the upstream for an answer that is not compressed, so that it can be metered."""
        self.key = b""
        self.agent_id = ""
        self.content_length = 0
        self.run_id: RunId | None = None
        self.trace_id: TraceId | None = None
        self.retries = 0
        self.forwarded: Headers = []
        self._named = b""
        forward = self.forwarded.append
        for line in lines:
            name = line[0]
            if name in NOT_FORWARDED:
                self._keep(name, line[1])
            elif name in READ:
                forward(self._read(name, line, readable=readable))
            else:
                forward(line)
        if self._named not in ORDINARY:
            self.forwarded = _unnamed(self.forwarded, self._named)

    def _read(self, name: bytes, line: tuple[bytes, bytes], *, readable: bool) -> tuple[bytes, bytes]:
        value = line[1]
        if name == b"accept-encoding":
            return IDENTITY if readable else line
        if name == b"x-stainless-retry-count":
            self.retries = int(value) if value.isdigit() and len(value) < 4 else 0
        else:
            self.trace_id = _trace_id(value)
        return line

    def _keep(self, name: bytes, value: bytes) -> None:
        if name == b"authorization":
            self.key = value[7:].strip() if value[:7].lower() == b"bearer " else self.key
        elif name in (b"x-api-key", b"api-key"):
            self.key = self.key or value
        elif name == b"content-length":
            self.content_length = int(value) if value.isdigit() else 0
        elif name == b"connection":
            self._named = value.lower()
        elif name == b"x-agent-id":
            self.agent_id = value.decode("latin-1")[:NAME_CHARS_MAX]
        elif name == b"x-homeostat-run-id":
            self.run_id = RunId(value.decode("latin-1")[:NAME_CHARS_MAX])


def answer_headers(lines: Headers) -> Headers:
    """What the agent gets of an upstream's headers."""
    kept = [line for line in lines if line[0] not in NOT_RETURNED]
    if len(kept) != len(lines):
        named = b",".join(value for name, value in lines if name == b"connection").lower()
        if named not in ORDINARY:
            kept = _unnamed(kept, named)
    return kept


def _unnamed(lines: Headers, named: bytes) -> Headers:
    """Without the headers that a Connection header names: they are for the next hop only."""
    dropped = {part.strip() for part in named.split(b",")}
    return [line for line in lines if line[0] not in dropped]


def content_type(lines: Headers) -> bytes:
    for name, value in lines:
        if name == b"content-type":
            return value
    return b""


def is_encoded(lines: Headers) -> bool:
    return any(name == b"content-encoding" and value.lower() != b"identity" for name, value in lines)


def _trace_id(value: bytes) -> TraceId | None:
    """The trace of a W3C `traceparent`, if that is what it is."""
    parts = value.split(b"-")
    if len(parts) < 4 or len(parts[1]) != 32:
        return None
    try:
        return TraceId(f"{int(parts[1], 16):032x}")
    except ValueError:
        return None
