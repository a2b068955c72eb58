"""The live feed: one numbered sequence of updates, and any number of readers who see their part of it.

Readers with the same filter share a channel, and a channel's messages are encoded once, whoever reads them. A reader
holds nothing but its place in the channel's last messages: one that falls behind them is given a fresh snapshot instead
of a queue that grows. Nobody who publishes ever waits for anybody who reads.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from homeostat.core.clock import Clock
from homeostat.core.errors import Overloaded
from homeostat.core.ids import DEFAULT_PROJECT, ProjectId
from homeostat.core.limits import (
    FRAME_GAP_SECONDS,
    FRAME_UPDATES_MAX,
    FRAMES_KEPT_MAX,
    READERS_MAX,
    READERS_WOKEN_MAX,
    RELAY_GAP_SECONDS,
    RESUME_SECONDS,
    SNAPSHOT_REUSE_SECONDS,
    UPDATES_KEPT_MAX,
)
from homeostat.core.wire.fleet import AgentRow, DeltaMessage, SnapshotMessage
from homeostat.fleet.updates import About, Change, Heard, Joined, Update

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Interest:
    """Whom a reader wants to see: a project's agents of a type, with a tag, both, or all."""

    agent_type: str | None = None
    tag: str | None = None
    project: ProjectId = DEFAULT_PROJECT

    def covers(self, about: About) -> bool:
        return (
            self.project == about.project
            and (self.agent_type is None or self.agent_type == about.agent_type)
            and (self.tag is None or self.tag in about.tags)
        )

    def hears(self, change: Change) -> bool:
        """Whether a reader is told: also of an agent that it would not look for any more."""
        return self.covers(change) or (
            isinstance(change, Joined) and change.was is not None and self.covers(change.was)
        )


@dataclass(slots=True)
class Frame:
    """One message and the stretch of the sequence it covers. `made` is what its senders have made of it."""

    since: int
    seq: int
    text: str
    made: Any = None


Rows = Callable[[Interest], AsyncIterator[list[AgentRow]]]
Relay = Callable[[list[Change]], Awaitable[None]]


class Channel:
    """The messages for one filter, the last of them kept."""

    __slots__ = ("base", "building", "frames", "interest", "readers", "seq", "snapshot", "snapshot_at", "waiting")

    def __init__(self, interest: Interest, seq: int) -> None:
        self.interest = interest
        self.seq = seq
        self.frames: deque[Frame] = deque()
        self.base = 0
        self.readers = 0
        self.waiting: list[asyncio.Future[None]] = []
        self.snapshot: list[Frame] = []
        self.snapshot_at = 0.0
        self.building = asyncio.Lock()

    def add(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.seq = frame.seq
        if len(self.frames) > FRAMES_KEPT_MAX:
            self.frames.popleft()
            self.base += 1

    def place_after(self, seq: int) -> int:
        """The number of the first message that tells anything beyond a point of the sequence."""
        number = self.base + len(self.frames)
        for frame in reversed(self.frames):
            if frame.seq <= seq:
                break
            number -= 1
        return number


class Broadcaster:
    """Numbers what happens, makes messages of it, and wakes readers a few at a time."""

    def __init__(self, *, clock: Clock, stream: str, rows: Rows, relay: Relay | None = None) -> None:
        self.stream = stream
        self.seq = 0
        self.readers = 0
        self.resyncs = 0
        self.followed = relay is not None
        self.told: Callable[[Change], None] = lambda _: None
        self._followed_at = clock.monotonic()
        self._clock = clock
        self._rows = rows
        self._relay = relay
        self._kept: deque[Update] = deque(maxlen=UPDATES_KEPT_MAX)
        self._fresh: list[Update] = []
        self._to_relay: deque[Change] = deque(maxlen=UPDATES_KEPT_MAX)
        self._relayed = asyncio.Event()
        self._channels: dict[Interest, Channel] = {}
        self._to_serve: set[Channel] = set()
        self._stirred = asyncio.Event()
        self._urgent = asyncio.Event()

    # --- publishing ----------------------------------------------------------------------------------------

    def pass_over(self) -> None:
        """Number a heartbeat that nobody follows, and that nobody could resume behind."""
        self.seq += 1

    def publish(self, change: Change, *, relay: bool = True) -> None:
        """Take a change into the sequence. Heartbeats wait for company; everything else is told at once."""
        self.seq += 1
        if not isinstance(change, Heard):
            self.told(change)
        if not self.followed:
            return
        update = Update(self.seq, change)
        self._kept.append(update)
        self._fresh.append(update)
        if relay and self._relay is not None:
            self._to_relay.append(change)
            self._relayed.set()
        self._stirred.set()
        if not isinstance(change, Heard):
            self._urgent.set()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            await self.tick()
            try:
                async with asyncio.timeout(FRAME_GAP_SECONDS):
                    await self._urgent.wait()
            except TimeoutError:
                continue

    async def tick(self) -> int:
        """Make messages of what is new and hand them out; returns how many updates they tell."""
        self._stirred.clear()
        self._urgent.clear()
        told = self._cut()
        if not self.readers and self._relay is None and self._quiet_seconds() > RESUME_SECONDS:
            self.followed = False
            self._kept.clear()
        channels, self._to_serve = self._to_serve, set()
        await self._serve(channels)
        return told

    def _quiet_seconds(self) -> float:
        return self._clock.monotonic() - self._followed_at

    def _cut(self) -> int:
        """Make messages of all that is new, so that whatever begins now begins between two messages."""
        fresh, self._fresh = self._fresh, []
        parts: dict[Interest, list[Update]] = {}
        if self._channels:
            for update in fresh:
                for interest in _audience(update.change):
                    if interest in self._channels:
                        parts.setdefault(interest, []).append(update)
        for interest, updates in parts.items():
            channel = self._channels[interest]
            for frame in self._deltas(updates, channel.seq, self.seq):
                channel.add(frame)
            self._to_serve.add(channel)
        return len(fresh)

    def _deltas(self, updates: list[Update], since: int, upto: int) -> Iterator[Frame]:
        """Messages that lead from one point of the sequence to another, at least one."""
        for start in range(0, max(1, len(updates)), FRAME_UPDATES_MAX):
            part = updates[start : start + FRAME_UPDATES_MAX]
            seq = upto if start + FRAME_UPDATES_MAX >= len(updates) else part[-1].seq
            message = DeltaMessage(stream=self.stream, since=since, seq=seq, updates=[u.encoded for u in part])
            yield Frame(since, seq, _encoder.encode(message).decode())
            since = seq

    async def _serve(self, channels: set[Channel]) -> None:
        """Wake readers in small groups, so that heartbeats are answered in between."""
        woken = 0
        for channel in channels:
            waiting, channel.waiting = channel.waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
                    woken += 1
                    if woken % READERS_WOKEN_MAX == 0:
                        await asyncio.sleep(0)

    async def run_relay(self) -> None:
        """Tell other processes. They hear of it late if the bus is slow, and readers here do not wait for that."""
        while True:
            await self._relayed.wait()
            self._relayed.clear()
            await self.tick_relay()
            await asyncio.sleep(RELAY_GAP_SECONDS)

    async def tick_relay(self) -> int:
        """Hand over what happened here; what cannot be handed over is lost, as the next heartbeat makes up for it."""
        changes = list(self._to_relay)
        self._to_relay.clear()
        if changes and self._relay is not None:
            await self._relay(changes)
        return len(changes)

    # --- reading -------------------------------------------------------------------------------------------

    def subscribe(self, interest: Interest, *, stream: str | None = None, after: int | None = None) -> "Reader":
        """Begin to read: from a point of the sequence if it is this stream's and still known, else from a snapshot."""
        if self.readers >= READERS_MAX:
            raise Overloaded(problem=f"{self.readers} readers follow the fleet")
        self._cut()
        self.followed = True
        missed = self._since(interest, after) if stream == self.stream and after is not None else None
        reader = Reader(self, self.enter(interest))
        self.readers += 1
        if missed is not None:
            reader.resume(missed, self.seq)
        return reader

    def _since(self, interest: Interest, after: int) -> list[Frame] | None:
        """What a reader missed, or None if that is not known any more."""
        first = self._kept[0].seq if self._kept else self.seq + 1
        if after > self.seq or after + 1 < first:
            return None
        missed = [update for update in self._kept if update.seq > after and interest.hears(update.change)]
        return list(self._deltas(missed, after, self.seq))

    def enter(self, interest: Interest) -> Channel:
        self._cut()
        channel = self._channels.get(interest)
        if channel is None:
            channel = self._channels[interest] = Channel(interest, self.seq)
        channel.readers += 1
        return channel

    def leave(self, channel: Channel) -> None:
        self._followed_at = self._clock.monotonic()
        channel.readers -= 1
        if channel.readers == 0:
            del self._channels[channel.interest]

    async def snapshot(self, channel: Channel) -> list[Frame]:
        """Everybody a channel is about, as of one point of the sequence. Readers who come together share it."""
        async with channel.building:
            age = self._clock.monotonic() - channel.snapshot_at
            usable = channel.snapshot and age < SNAPSHOT_REUSE_SECONDS
            if usable and (channel.base == 0 or channel.snapshot[-1].seq >= channel.frames[0].since):
                return channel.snapshot
            self._cut()
            seq = self.seq
            pages = [page async for page in self._rows(channel.interest)] or [[]]
            channel.snapshot = [self._page(seq, part, len(pages), page) for part, page in enumerate(pages, start=1)]
            channel.snapshot_at = self._clock.monotonic()
            return channel.snapshot

    def _page(self, seq: int, part: int, parts: int, agents: list[AgentRow]) -> Frame:
        message = SnapshotMessage(stream=self.stream, seq=seq, part=part, parts=parts, agents=agents)
        return Frame(0, seq, _encoder.encode(message).decode())


def _audience(change: Change) -> Iterable[Interest]:
    """Every filter whose readers are told, each once."""
    if isinstance(change, Joined) and change.was is not None:
        return {*_interests(change), *_interests(change.was)}
    return _interests(change)


def _interests(about: About) -> Iterator[Interest]:
    """Every filter that lets this through."""
    for agent_type in (None, about.agent_type):
        yield Interest(agent_type, None, about.project)
        for tag in about.tags:
            yield Interest(agent_type, tag, about.project)


class Reader:
    """One follower of the feed: a channel and a place in it."""

    __slots__ = ("_ahead", "_broadcaster", "_channel", "_future", "_place")

    def __init__(self, broadcaster: Broadcaster, channel: Channel) -> None:
        self._broadcaster = broadcaster
        self._channel = channel
        self._ahead: deque[Frame] = deque()
        self._place: int | None = None
        self._future: asyncio.Future[None] | None = None

    def resume(self, missed: list[Frame], seq: int) -> None:
        self._ahead = deque(missed)
        self._place = self._channel.place_after(seq)

    def change(self, interest: Interest) -> None:
        """See other agents from now on, beginning with a snapshot of them."""
        self._broadcaster.leave(self._channel)
        self._channel = self._broadcaster.enter(interest)
        self._ahead.clear()
        self._place = None
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def next(self) -> Frame:
        """The next message to send."""
        while True:
            if self._ahead:
                return self._ahead.popleft()
            channel = self._channel
            if self._place is None or self._place < channel.base:
                await self._synchronise(channel)
            elif self._place < channel.base + len(channel.frames):
                self._place += 1
                return channel.frames[self._place - 1 - channel.base]
            else:
                self._future = asyncio.get_running_loop().create_future()
                channel.waiting.append(self._future)
                await self._future

    async def _synchronise(self, channel: Channel) -> None:
        if self._place is not None:
            self._broadcaster.resyncs += 1
        snapshot = await self._broadcaster.snapshot(channel)
        if channel is self._channel:
            self._ahead = deque(snapshot)
            self._place = channel.place_after(snapshot[-1].seq)

    def close(self) -> None:
        self._broadcaster.leave(self._channel)
        self._broadcaster.readers -= 1
