"""The bus on NATS: doorbells and chunks by plain subjects, everything else through streams that keep it a while."""

# pyright: reportUnknownMemberType=false
# nats-py leaves the type of its futures and options open.

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from nats.aio.msg import Msg
from nats.js.api import RetentionPolicy, StorageType, StreamConfig

from homeostat.adapters.doorbells.nats import interest
from homeostat.adapters.doorbells.nats.interest import Interest
from homeostat.adapters.doorbells.nats.link import LOST, Link
from homeostat.adapters.doorbells.nats.subscription import NatsSubscription
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import Ids
from homeostat.core.limits import (
    BUS_BATCH_MAX,
    BUS_BEAT_SECONDS,
    BUS_CONNECT_SECONDS,
    BUS_KEEP_BYTES,
    BUS_KEEP_SECONDS,
    BUS_RECONNECT_SECONDS,
)
from homeostat.core.ports.bus import Handler
from homeostat.core.records.event import PASSING, Channel, Event

log = logging.getLogger(__name__)

STREAMS = {Channel.CMD: "HS_CMD", Channel.EVT: "HS_EVT"}
REPEATS_SECONDS = 120.0  # how far apart two messages with one id are still known to be the same
TICK_SECONDS = 1.0


class NatsBus:
    """Reconnects for ever; while it is away, publishing raises `BusUnavailable` at once.

    A listener hears what is said after `subscribe` has returned, or, if the server was away at that time, after the
    connection was made. From then on commands and events reach it even if it loses its connection in between, as long
    as the streams keep them; signals (`wakeup`, `served`, `revoke`, `state`) and chunks only while it is connected.
    Nothing said before is told to a late joiner: it reads the store first. Events of one publisher arrive in order.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        ids: Ids | None = None,
        keep_seconds: float = BUS_KEEP_SECONDS,
        keep_bytes: int = BUS_KEEP_BYTES,
        replicas: int = 1,
    ) -> None:
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        self._ids = ids or Ids()
        self._configs = {
            channel: StreamConfig(
                name=name,
                subjects=[f"hs.v1.*.main.{channel.value}.*.*.{'call' if channel is Channel.CMD else 'task'}"],
                retention=RetentionPolicy.LIMITS,
                storage=StorageType.FILE,
                max_age=keep_seconds,
                max_bytes=keep_bytes,
                duplicate_window=min(REPEATS_SECONDS, keep_seconds),
                num_replicas=replicas,
            )
            for channel, name in STREAMS.items()
        }
        self._interest = Interest(self._ids.scope())
        self._subscriptions: list[NatsSubscription] = []
        self._link: Link | None = None
        self._connected = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._sound = True
        self._closing = False

    @classmethod
    async def connect(cls, url: str) -> Self:
        """A bus on one server, or on a cluster whose addresses are separated by commas."""
        bus = cls(url.split(","))
        await bus.open()
        return bus

    async def open(self, seconds: float = BUS_CONNECT_SECONDS) -> bool:
        """Start connecting, and wait a little for the first connection; False if it goes on in the background."""
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="nats")
        try:
            async with asyncio.timeout(seconds):
                await self._connected.wait()
        except TimeoutError:
            log.warning("the bus is away; announcements wait until it is back")
        return self._connected.is_set()

    async def close(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.close()
        self._refresh()
        if self._link is not None:
            with suppress(*LOST):
                await self._say(self._link)
        self._closing = True
        if (runner := self._runner) is not None:
            # nats-py lets a cancellation fall where it flushes, so one may not be enough.
            while not runner.done():
                runner.cancel()
                await asyncio.wait([runner], timeout=TICK_SECONDS)

    # --- publishing ----------------------------------------------------------------------------------------

    async def publish(self, events: tuple[Event, ...]) -> None:
        """Hand events over; what is to be kept is kept when this returns, unless the server loses its disk."""
        for first in range(0, len(events), BUS_BATCH_MAX):
            link = self._link
            if link is None:
                raise BusUnavailable(problem="there is no connection")
            await link.send(events[first : first + BUS_BATCH_MAX])

    def wanted(self, suffix: str) -> bool:
        """Kept kinds always are: who comes later may still ask for them. Signals only if somebody listens now."""
        if suffix not in PASSING:
            return True
        return self._link is not None and self._interest.wanted(suffix)

    # --- listening -----------------------------------------------------------------------------------------

    async def subscribe(self, pattern: str, handler: Handler) -> NatsSubscription:
        subscription = NatsSubscription(pattern, handler, stream_names=STREAMS, gone=self._remove)
        self._subscriptions.append(subscription)
        self._refresh()
        if (link := self._link) is not None:
            try:
                self._sound &= await subscription.attach(link)
                await self._say(link)
                await link.settle()
            except (BusUnavailable, *LOST) as problem:
                log.warning("listening to %s begins later: %s", pattern, problem or type(problem).__name__)
                self._sound = False
        return subscription

    async def _remove(self, subscription: NatsSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._refresh()
            if self._link is not None:
                with suppress(*LOST):
                    await self._say(self._link)

    def _refresh(self) -> None:
        self._interest.mine = frozenset(subscription.suffix for subscription in self._subscriptions)

    # --- the connection ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Make a connection, look after it, and make another when it is gone."""
        shortest, longest = BUS_RECONNECT_SECONDS
        pause = shortest
        while not self._closing:
            link = Link(self._urls, stream_configs=self._configs)
            try:
                await self._stand_up(link)
                pause = shortest
                await self._look_after(link)
                log.warning("the connection to the bus was lost")
            except (BusUnavailable, *LOST) as problem:
                log.info("the bus is away: %s", problem or type(problem).__name__)
            except Exception:
                log.exception("the bus failed; it is connected anew")
            finally:
                self._link = None
                self._connected.clear()
                await link.close()
            await asyncio.sleep(self._ids.uniform(pause / 2, pause))
            pause = min(pause * 2, longest)

    async def _stand_up(self, link: Link) -> None:
        await link.open()
        self._interest.reset()

        async def hear(message: Msg) -> None:
            if self._interest.hear(message.data):
                await self._say(link)

        await link.client.subscribe(interest.SUBJECT, cb=hear)
        await self._repair(link)
        self._link = link
        await self._say(link, asks=True)
        await link.settle()
        self._connected.set()

    async def _repair(self, link: Link) -> None:
        """Make what should be there: streams, and a place in them for every listener."""
        try:
            await link.cover(set())
            self._sound = True
        except LOST as problem:
            log.warning("the streams are not there: %s", problem or type(problem).__name__)
            self._sound = False
        for subscription in tuple(self._subscriptions):
            self._sound &= await subscription.attach(link)

    async def _look_after(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + BUS_BEAT_SECONDS
        while not (self._closing or link.closed.is_set()):
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await link.closed.wait()
            except TimeoutError:
                pass
            if link.closed.is_set():
                return
            if not self._sound:
                await self._repair(link)
            for subscription in tuple(self._subscriptions):
                self._sound &= await subscription.attach(link)
            if loop.time() >= beat_at:
                beat_at = loop.time() + BUS_BEAT_SECONDS
                self._interest.prune()
                if self._interest.mine:
                    await self._say(link)

    async def _say(self, link: Link, *, asks: bool = False) -> None:
        await link.client.publish(interest.SUBJECT, self._interest.word(asks=asks))
