"""Events as bytes, and patterns as what NATS has to be asked for."""

from dataclasses import dataclass

import msgspec

from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId
from homeostat.core.records.event import PASSING, Channel, Event

CHANNEL_AT = 4  # hs.v1.{project}.main.{channel}.{component}.{target}.{suffix}
SUFFIX_AT = 7
KEPT_CHANNELS = (Channel.CMD, Channel.EVT)


class Foreign(ValueError):
    """Bytes on one of our subjects that are not one of our events."""


class _Envelope(msgspec.Struct):
    event_id: str
    project: str
    channel: Channel
    component: str
    target: str
    suffix: str
    payload: msgspec.Raw


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Envelope)


def pack(event: Event) -> bytes:
    """An event as one JSON object, its payload inside."""
    return _encoder.encode(
        _Envelope(
            event.event_id,
            event.project,
            event.channel,
            event.component,
            event.target,
            event.suffix,
            msgspec.Raw(event.payload.encode()),
        )
    )


def unpack(subject: str, body: bytes) -> Event:
    """Read an event back; one that claims another address than it was sent to is refused."""
    try:
        envelope = _decoder.decode(body)
        payload = Json(bytes(envelope.payload).decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise Foreign(str(problem)) from problem
    event = Event(
        envelope.event_id,
        ProjectId(envelope.project),
        envelope.channel,
        envelope.component,
        envelope.target,
        envelope.suffix,
        payload,
    )
    if event.subject != subject:
        raise Foreign(f"it says it is for {event.subject}")
    return event


def passes(subject: str) -> bool:
    """Whether what is said here is kept by no stream."""
    tokens = subject.split(".")
    return len(tokens) <= SUFFIX_AT or tokens[CHANNEL_AT] not in KEPT_CHANNELS or tokens[-1] in PASSING


@dataclass(frozen=True, slots=True)
class Interests:
    """What a pattern takes: a plain subscription, streams with the filter for each, and the kinds it may hear."""

    plain: bool
    streams: tuple[tuple[Channel, str], ...]
    suffix: str


def interests(pattern: str) -> Interests:
    """Take a pattern apart. One that spans both kinds listens twice and hears each event once."""
    tokens = pattern.split(".")
    open_ended = tokens[-1] == ">"
    suffix = "*" if open_ended or tokens[-1] == "*" else tokens[-1]
    if not open_ended and len(tokens) != SUFFIX_AT + 1:
        return Interests(plain=True, streams=(), suffix=suffix)
    channel = tokens[CHANNEL_AT] if len(tokens) > CHANNEL_AT and tokens[CHANNEL_AT] != ">" else "*"
    streams = tuple(
        (kept, _filter(tokens, kept)) for kept in KEPT_CHANNELS if channel in ("*", kept) and suffix not in PASSING
    )
    plain = channel in ("*", Channel.STR) or suffix in {"*", *PASSING}
    return Interests(plain=plain, streams=streams, suffix=suffix)


def _filter(tokens: list[str], channel: Channel) -> str:
    """The part of a pattern that lies within one stream."""
    head = tokens[:CHANNEL_AT]
    if ">" in head:
        defaults = ["hs", "v1", "*", "main"]
        known = head[: head.index(">")]
        head = [*known, *defaults[len(known) :]]
    tail = tokens[CHANNEL_AT + 1 :] or [">"]
    return ".".join([*head, channel.value, *tail])
