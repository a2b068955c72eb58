"""Events as bytes, and patterns as what NATS has to be asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import cast

import msgspec

from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId
from homeostat.core.limits import BUS_PARCEL_BYTES_MAX
from homeostat.core.records.event import GATHERED, PASSING, Channel, Event

CHANNEL_AT = 4  # hs.v1.{project}.main.{channel}.{component}.{target}.{suffix}
SUFFIX_AT = 7
KEPT_CHANNELS = (Channel.CMD, Channel.EVT)


class Foreign(ValueError):
    """Bytes on one of our subjects that are not one of our events."""


class _Envelope(msgspec.Struct, omit_defaults=True):
    event_id: str
    project: str
    channel: Channel
    component: str
    target: str
    suffix: str
    payload: msgspec.Raw
    more: tuple[tuple[str, msgspec.Raw], ...] = ()  # ids and payloads of those that follow it on the same subject


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Envelope)
_address = cast("Callable[[Event], tuple[str, ...]]", attrgetter("suffix", "target", "project", "component", "channel"))


def parcels(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Events in their order, cut into what goes into one message: neighbours of one subject, where that may be."""
    for address, neighbours in groupby(events, _address):
        most = BUS_PARCEL_BYTES_MAX if address[0] in GATHERED else 0
        parcel: list[Event] = []
        size = 0
        for event in neighbours:
            size += len(event.payload)
            if parcel and size > most:
                yield parcel
                parcel, size = [], len(event.payload)
            parcel.append(event)
        yield parcel


def pack(events: Sequence[Event]) -> bytes:
    """Events of one subject as one JSON object, their payloads inside."""
    first, *others = events
    return _encoder.encode(
        _Envelope(
            first.event_id,
            first.project,
            first.channel,
            first.component,
            first.target,
            first.suffix,
            msgspec.Raw(first.payload),
            tuple([(event.event_id, msgspec.Raw(event.payload)) for event in others]),
        )
    )


def unpack(subject: str, body: bytes) -> list[Event]:
    """Read events back; what claims another address than it was sent to is refused."""
    try:
        envelope = _decoder.decode(body)
        said = [(envelope.event_id, envelope.payload), *envelope.more]
        payloads = [(event_id, Json(bytes(payload).decode())) for event_id, payload in said]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise Foreign(str(problem)) from problem
    channel, component, target = envelope.channel, envelope.component, envelope.target
    project, suffix = ProjectId(envelope.project), envelope.suffix
    events = [Event(event_id, project, channel, component, target, suffix, payload) for event_id, payload in payloads]
    if events[0].subject != subject:
        raise Foreign(f"it says it is for {events[0].subject}")
    if envelope.more and suffix not in GATHERED:
        raise Foreign(f"{suffix} comes one at a time")
    return events


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
