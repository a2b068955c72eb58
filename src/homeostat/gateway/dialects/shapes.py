"""What the gateway reads of requests and answers, whichever API they belong to."""

from contextlib import suppress
from typing import Any, Protocol

import msgspec
import xxhash
from msgspec import Raw, Struct

from homeostat.core.errors import MalformedPayload
from homeostat.core.limits import NAME_CHARS_MAX, TOOL_CALLS_SEEN_MAX
from homeostat.core.records.call import Api, ToolUse, Usage

_any = msgspec.json.Decoder()
_canonical = msgspec.json.Encoder(order="deterministic")
_members = msgspec.json.Decoder(dict[str, Raw])
_encoder = msgspec.json.Encoder()

# Parts whose tokens their bytes do not bound. As quotes inside a JSON string are escaped, these are real JSON tokens.
_OPAQUE = (b'"image_url"', b'"image"', b'"input_image"', b'"input_file"', b'"file"', b'"document"', b'"input_audio"')
CAP_FIELDS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
READ = CAP_FIELDS | {"model", "n", "best_of", "stream", "tools", "functions"}
_RESPONSES = Api.OPENAI_RESPONSES
_ELSEWHERE = (b'"previous_response_id"', b'"conversation"', b'"prompt"')


class Ask(Struct, gc=False):
    """A request as far as it was read. `body` is what will be sent; whoever changes it changes the fields as well.

    `unbounded` is a request that has members, and under no name one that bounds the answer. `tool_speaks` where a tool
    has said something in it. One of `words` has only messages that are plain texts: none of them has parts.
    """

    api: Api
    body: bytes
    model: str = ""
    streamed: bool = False
    wants_usage: bool = True
    output_cap: int | None = None
    cap_field: str = "max_tokens"
    answers: int = 1
    generates: bool = True
    prompt_hash: str = ""
    tools: tuple[str, ...] = ()
    unbounded: bool = False
    tool_speaks: bool = False
    words: bool = False

    def opaque_parts(self) -> int:
        """How many parts may weigh more tokens than they have bytes."""
        if self.words:
            return 0
        body = self._unescaped()  # `in` takes a sequence of bytes for a number first, and an exception to learn better
        if (
            body.find(b"image") >= 0
            or body.find(b'file"') >= 0
            or body.find(b'"document"') >= 0
            or body.find(b'_audio"') >= 0
        ):
            return sum(body.count(mark) for mark in _OPAQUE)
        return 0

    def refers_elsewhere(self) -> bool:
        """Whether the prompt is partly kept by the upstream, so that its length cannot be known here."""
        if self.api is not _RESPONSES:
            return False
        body = self._unescaped()
        return any(mark in body for mark in _ELSEWHERE)

    def goes_on(self) -> bool:
        """Whether the upstream goes on with it in the background, and will tell whoever fetches it what it used."""
        if self.api is not _RESPONSES:
            return False
        members: dict[str, Raw] = try_decode(_members, self.body) or {}
        return bytes(members.get("background", b"false")) not in {b"false", b"null"}

    def _unescaped(self) -> bytes:
        """The request with its names as whoever reads it reads them: `image\\u005furl` is found by no search."""
        if self.body.find(b"\\u00") < 0:
            return self.body
        return _encoder.encode(decode_ask(_any, self.body))

    def edit(self, changes: dict[str, object]) -> None:
        """Set members of the request, or remove those that are None; all others stay as they were written.

        Raises `MalformedPayload` for a name that is no text, which nobody had to read before.
        """
        members: dict[str, Any] = decode_ask(_members, self.body)
        for name, value in changes.items():
            if value is None:
                members.pop(name, None)
            else:
                members[name] = value
        self.body = _encoder.encode(members)

    def say_once(self) -> None:
        """Leave what was read as the only one of its name, for a policy is to hold for what others read as well.

        Some take the first of two members and some the last, as here. Raises `MalformedPayload` for one that whoever
        does not tell `Model` from `model` takes for another.
        """
        members: dict[str, Any] = decode_ask(_members, self.body)
        for name in members:
            if name not in READ and (meant := name.casefold()) in READ:
                raise MalformedPayload(field="body", problem=f"{name!r} may be read as {meant!r}")
        self.body = _encoder.encode(members)

    def cap_output(self, tokens: int) -> None:
        """Bound the answer, under every name by which a bound can be given."""
        self.output_cap = tokens
        name = self.cap_field
        if self.unbounded:
            self.unbounded = False
            self.body = f'{{"{name}":{tokens},'.encode() + self.body.lstrip()[1:]
        else:
            self.edit({**dict.fromkeys(CAP_FIELDS - {name}), name: tokens})


class Reading(Struct, gc=False):
    """What an answer told. Without `usage` it told nothing."""

    usage: Usage | None = None
    model: str = ""
    tools: tuple[ToolUse, ...] = ()


class StreamReader(Protocol):
    """Looks at an answer while it passes. `feed` returns what the client gets of a block, usually the block itself."""

    @property
    def usage(self) -> Usage | None:
        """What the upstream reported, once it has."""
        ...

    @property
    def begun(self) -> Usage | None:
        """What the upstream reported at the beginning, should the end never come."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def spoke(self) -> bool:
        """Whether the first token has gone by."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the stream came to its own end."""
        ...

    def feed(self, block: bytes) -> bytes: ...

    def finish(self) -> bytes:
        """What is still held back when the stream ends."""
        ...

    @property
    def between_events(self) -> bool: ...

    @property
    def tools(self) -> tuple[ToolUse, ...]: ...

    @property
    def seen_tokens(self) -> int:
        """How many tokens went by, as far as one can tell by looking."""
        ...


class Dialect(Protocol):
    """One API: how to read it."""

    @property
    def api(self) -> Api: ...

    def ask(self, body: bytes) -> Ask:
        """Read a request. Raises `MalformedPayload`."""
        ...

    def answer(self, body: bytes) -> Reading:
        """Read a whole answer; one that cannot be read told nothing."""
        ...

    def stream(self, *, hides_usage: bool) -> StreamReader: ...


def decode_ask(decoder: "msgspec.json.Decoder[Any]", body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedPayload(field="body", problem=str(problem)) from problem


def try_decode(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:
    """What an upstream sent, or None where that is garbage."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def tool_use(name: str, arguments: str | bytes | Raw) -> ToolUse:
    """A tool call with the digest of its arguments, in which neither spaces nor the order of names matter."""
    if isinstance(arguments, str):
        arguments = arguments.encode()
    # Models break off in the middle of arguments; equal garbage has equal digests as well.
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        arguments = _canonical.encode(_any.decode(arguments))
    return ToolUse(name[:NAME_CHARS_MAX], xxhash.xxh3_64_hexdigest(arguments))


class ToolPieces:
    """Tool calls that arrive in pieces."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[object, tuple[str, list[str]]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def begin(self, key: object, name: str) -> None:
        if len(self._calls) < TOOL_CALLS_SEEN_MAX:
            self._calls.setdefault(key, (name, []))

    def add(self, key: object, piece: str) -> None:
        if (call := self._calls.get(key)) is not None:
            call[1].append(piece)

    def all(self) -> tuple[ToolUse, ...]:
        return tuple(tool_use(name, "".join(pieces)) for name, pieces in self._calls.values())
