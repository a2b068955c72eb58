"""Which headers pass through the gateway, and what it reads of them on the way."""

from collections.abc import Iterable
from copy import copy
from hashlib import sha256
from typing import Final, Self

from homeostat.core.ids import RunId, TraceId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.ports.upstream import HOP_BY_HOP, UNSHARED, Headers

# What is between the agent and the gateway only. Its key above all.
PRIVATE: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"expect",
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-agent-id",
        b"x-homeostat-run-id",
        b"x-homeostat-turn-id",
        b"x-homeostat-key",
        b"cookie",
    }
)
KEYS: Final = frozenset({b"x-api-key", b"api-key"})
READ: Final = frozenset({b"accept-encoding", b"x-stainless-retry-count", b"traceparent", b"origin"})
NOTICED: Final = HOP_BY_HOP | PRIVATE | READ
READ_OF_ANSWERS: Final = UNSHARED | {b"content-type", b"content-encoding"}
ORDINARY: Final = frozenset({b"", b"keep-alive", b"close"})
IDENTITY: Final = (b"accept-encoding", b"identity")
PLAIN: Final = frozenset({b"", b"utf-8", b"utf8"})
NO_HOST: Final = b"\r\n"  # of a request that names several: no host is called like this


class RequestHeaders:
    """One pass over a request's headers: what is forwarded, and what is meant for the gateway.

    Of the agent's key it keeps the digest.
    """

    __slots__ = (
        "agent_id",
        "content_length",
        "digest",
        "forwarded",
        "host",
        "origin",
        "retries",
        "run_id",
        "said_run_id",
        "trace_id",
        "turn_id",
        "written",
    )

    def __init__(self, lines: Iterable[tuple[bytes, bytes]], *, readable: bool) -> None:
        """`readable` asks the upstream for an answer that is not compressed, so that it can be metered."""
        self.digest = ""
        self.written = b""  # what is forwarded, as it is on the wire, of a head that is said again and again
        self.host: bytes | None = None
        self.origin: bytes | None = None
        self.agent_id = ""
        self.turn_id = ""
        self.content_length = 0
        self.run_id: RunId | None = None
        self.said_run_id: RunId | None = None  # what the caller says, believed only to its disadvantage
        self.trace_id: TraceId | None = None
        self.retries = 0
        self.forwarded: Headers = []
        forward = self.forwarded.append
        named = key = other = b""
        for line in lines:
            name, value = line
            if name not in NOTICED:
                forward(line)
            elif name == b"authorization":
                if value[:7].lower() == b"bearer ":
                    key = value[7:].strip()
            elif name == b"content-length":
                self.content_length = int(value) if value.isdigit() else 0
            elif name == b"connection":
                named = value.lower()
            elif name in READ:
                forward(self._read(name, line, readable=readable))
            elif name in KEYS:
                other = other or value
            else:
                self._keep(name, value)
        if named not in ORDINARY:
            self.forwarded = _unnamed(self.forwarded, named)
        if key or other:
            self.digest = sha256(key or other).hexdigest()

    def write(self) -> Self:
        """Write down what is forwarded, for whoever will read this again."""
        self.written = b"".join([b"%b: %b\r\n" % line for line in self.forwarded])
        return self

    def counted(self, run_id: RunId | None, trace_id: TraceId | None) -> Self:
        """The same of a call that counts for this run. What was read of a head may be read by others, too."""
        other = copy(self)
        other.run_id, other.trace_id = run_id, trace_id
        return other

    @property
    def plain(self) -> bool:
        """Whether everybody takes the body for what it is here: UTF-8, and not compressed."""
        for name, value in self.forwarded:
            if name == b"content-encoding" and value.lower() != b"identity":
                return False
            if name == b"content-type" and value.lower().partition(b"charset")[2].strip(b"=*\"' ") not in PLAIN:
                return False
        return True

    def _read(self, name: bytes, line: tuple[bytes, bytes], *, readable: bool) -> tuple[bytes, bytes]:
        value = line[1]
        if name == b"accept-encoding":
            return IDENTITY if readable else line
        if name == b"x-stainless-retry-count":
            self.retries = int(value) if value.isdigit() and len(value) < 4 else 0
        elif name == b"origin":
            self.origin = value
        else:
            self.trace_id = _trace_id(value)
        return line

    def _keep(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self.host = value if self.host is None else NO_HOST
        elif name == b"x-agent-id":
            self.agent_id = value.decode("latin-1")[:NAME_CHARS_MAX]
        elif name == b"x-homeostat-run-id":
            self.run_id = self.said_run_id = RunId(value.decode("latin-1")[:NAME_CHARS_MAX])
        elif name == b"x-homeostat-turn-id":
            self.turn_id = value.decode("latin-1")[:NAME_CHARS_MAX]


class AnswerHeaders:
    """One pass over an upstream's headers: what the agent gets of them, and how the body is to be read."""

    __slots__ = ("encoded", "returned", "streams")

    def __init__(self, lines: Headers) -> None:
        self.streams = False  # whether the body is made of events
        self.encoded = False
        self.returned: Headers = []
        give = self.returned.append
        named = b""
        for line in lines:
            name = line[0]
            if name in READ_OF_ANSWERS:
                if name == b"content-type":
                    self.streams = line[1].startswith(b"text/event-stream")
                elif name == b"content-encoding":
                    self.encoded = line[1].lower() != b"identity"
                else:
                    if name == b"connection":
                        named = line[1].lower()
                    continue
            give(line)
        if named not in ORDINARY:
            self.returned = _unnamed(self.returned, named)

    def drop_length(self) -> None:
        """The body will not be as long as it was announced."""
        self.returned = [line for line in self.returned if line[0] != b"content-length"]


def _unnamed(lines: Headers, named: bytes) -> Headers:
    """Without the headers that a Connection header names: they are for the next hop only."""
    dropped = {part.strip() for part in named.split(b",")}
    return [line for line in lines if line[0] not in dropped]


def _trace_id(value: bytes) -> TraceId | None:
    """The trace of a W3C `traceparent`, if that is what it is."""
    parts = value.split(b"-")
    if len(parts) < 4 or len(parts[1]) != 32:
        return None
    try:
        return TraceId(f"{int(parts[1], 16):032x}")
    except ValueError:
        return None
