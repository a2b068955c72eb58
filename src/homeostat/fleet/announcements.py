"""What processes tell each other about the fleet. All may be lost: heartbeats repeat, and the register is polled."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from homeostat.core.codec import Json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, Ids
from homeostat.core.limits import ANNOUNCED_CHANGES_MAX
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.fleet.updates import Change, Fell, Heard, Joined

log = logging.getLogger(__name__)

COMPONENT = "fleet"
SUFFIX = "status"


class _Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What one process heard in a moment."""

    heard: list[Heard] = msgspec.field(default_factory=list[Heard])
    fell: list[Fell] = msgspec.field(default_factory=list[Fell])
    joined: list[Joined] = msgspec.field(default_factory=list[Joined])
    settings: bool = False


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Announcement)

Hear = Callable[[list[Change], bool], Awaitable[None]]


class Announcer:
    """Carries changes to the other processes, and theirs to this one."""

    def __init__(self, *, bus: Bus, ids: Ids, origin: str, hear: Hear) -> None:
        self._bus = bus
        self._ids = ids
        self._origin = origin
        self._hear = hear

    async def listen(self) -> None:
        for channel in (Channel.STR, Channel.EVT):
            await self._bus.subscribe(subject("*", channel, COMPONENT, "*", SUFFIX), self._on_announcement)

    async def tell(self, changes: list[Change], *, settings: bool = False) -> None:
        """Heartbeats go at most once, the rest at least once; what the bus does not take is not kept."""
        events: list[Event] = []
        for start in range(0, max(1, len(changes)), ANNOUNCED_CHANGES_MAX):
            part = changes[start : start + ANNOUNCED_CHANGES_MAX]
            heard = [change for change in part if isinstance(change, Heard)]
            fell = [change for change in part if isinstance(change, Fell)]
            joined = [change for change in part if isinstance(change, Joined)]
            if heard:
                events.append(self._event(Channel.STR, _Announcement(heard=heard)))
            if fell or joined or settings:
                events.append(self._event(Channel.EVT, _Announcement(fell=fell, joined=joined, settings=settings)))
        try:
            await self._bus.publish(tuple(events))
        except BusUnavailable as error:
            log.warning("other processes do not hear how agents are: %s", error)

    def _event(self, channel: Channel, announcement: _Announcement) -> Event:
        body = Json(_encoder.encode(announcement).decode())
        return Event(self._ids.scope(), DEFAULT_PROJECT, channel, COMPONENT, self._origin, SUFFIX, body)

    async def _on_announcement(self, event: Event) -> None:
        if event.target == self._origin:
            return
        try:
            said = _decoder.decode(event.payload)
        except msgspec.MsgspecError as problem:
            log.warning("an announcement of %s could not be read: %s", event.target, problem)
            return
        await self._hear([*said.joined, *said.heard, *said.fell], said.settings or bool(said.joined or said.fell))
