"""One listener: what is heard on plain subjects and in streams goes through one line to one handler."""

# pyright: reportUnknownMemberType=false
# nats-py leaves the type of its futures and options open.

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from homeostat.adapters.doorbells.nats.following import Following, Reply
from homeostat.adapters.doorbells.nats.link import LOST, Link
from homeostat.adapters.doorbells.nats.wire import Foreign, interests, passes, unpack
from homeostat.core.limits import BUS_PENDING_MAX
from homeostat.core.ports.bus import Handler
from homeostat.core.records.event import Channel, Event

log = logging.getLogger(__name__)


class NatsSubscription:
    """Calls its handler in order. A handler that fails is reported and hears the next event."""

    def __init__(
        self,
        pattern: str,
        handler: Handler,
        *,
        stream_names: Mapping[Channel, str],
        gone: Callable[["NatsSubscription"], Awaitable[None]],
    ) -> None:
        wanted = interests(pattern)
        self.pattern = pattern
        self.suffix = wanted.suffix
        self._handler = handler
        self._gone = gone
        self._plain = wanted.plain
        self._plain_subscription: Subscription | None = None
        self._followings = [
            Following(stream_names[channel], subject, deliver=self._take, reply_later=self._later)
            for channel, subject in wanted.streams
        ]
        self._line: deque[Event | Reply] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._attaching = asyncio.Lock()
        self._attached: Client | None = None
        self._worker = asyncio.create_task(self._work(), name=f"listener of {pattern}")
        self.missed = 0
        self.foreign = 0

    # --- connections ---------------------------------------------------------------------------------------

    async def attach(self, link: Link) -> bool:
        """Listen on this connection, again where that broke off; False if some of it was not possible yet."""
        async with self._attaching:
            if self._closed:
                return True
            if self._attached is not link.client:
                self._attached = link.client
                for following in self._followings:
                    await following.detach()
                if self._plain:
                    self._plain_subscription = await link.client.subscribe(self.pattern, cb=self._take_plain)
            broken = [following for following in self._followings if not following.check()]
            for following in broken:
                try:
                    await following.attach(link.client, link.streams)
                except LOST as problem:
                    log.warning("cannot follow %s yet: %s", self.pattern, problem or type(problem).__name__)
                    return False
            return True

    async def cancel(self) -> None:
        """No event is handled after this; one that is being handled may come to its end."""
        self._closed = True
        self._arrived.set()
        for following in self._followings:
            await following.detach()
        if self._plain_subscription is not None:
            with suppress(*LOST):
                await self._plain_subscription.unsubscribe()
        await self._gone(self)

    async def close(self) -> None:
        """End at once, the handler included."""
        self._closed = True
        if self._worker is not asyncio.current_task():
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    # --- the line ------------------------------------------------------------------------------------------

    async def _take_plain(self, message: Msg) -> None:
        """What is kept comes by the stream, this is for the rest. A listener that lags misses it."""
        if not passes(message.subject):
            return
        if len(self._line) >= BUS_PENDING_MAX:
            self.missed += 1
            if _now_and_then(self.missed):
                log.warning("the listener of %s is too slow and has missed %d signals", self.pattern, self.missed)
            return
        self._take(message)

    def _take(self, message: Msg) -> None:
        try:
            events = unpack(message.subject, message.data)
        except Foreign as problem:
            self.foreign += 1
            if _now_and_then(self.foreign):
                log.warning("%d messages were not events, the last on %s: %s", self.foreign, message.subject, problem)
            return
        self._line.extend(events)
        self._arrived.set()

    def _later(self, reply: Reply) -> None:
        self._line.append(reply)
        self._arrived.set()

    async def _work(self) -> None:
        while not self._closed:
            if not self._line:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            entry = self._line.popleft()
            try:
                if isinstance(entry, Event):
                    await self._handler(entry)
                else:
                    with suppress(*LOST):
                        await entry()
            except Exception:
                log.exception("a listener of %s failed", self.pattern)


def _now_and_then(count: int) -> bool:
    """The first, second, fourth, eighth … time: a flood of bad messages is no flood of words."""
    return count & (count - 1) == 0
