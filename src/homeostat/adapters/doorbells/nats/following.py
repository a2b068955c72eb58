"""Following a stream: everything in it once and in order, across gaps, restarts and lost connections."""

# pyright: reportUnknownMemberType=false
# nats-py leaves the type of its futures and options open.

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, Header, StreamInfo

from homeostat.adapters.doorbells.nats.link import LOST
from homeostat.core.limits import BUS_BEAT_SECONDS

log = logging.getLogger(__name__)

SILENCES_MAX = 3  # heartbeats that may be missed before the consumer is made anew
DOMAINLESS = 9  # tokens of a reply subject without a JetStream domain in it

Deliver = Callable[[Msg], None]
Reply = Callable[[], Awaitable[None]]


class Following:
    """One place in one stream, remembered here and not by the server.

    The server pushes through a consumer that lives in its memory and acknowledges nothing. Whatever happens to it, the
    next one starts behind the last message that was taken in. Flow control keeps a slow listener from being flooded:
    what it has not heard yet waits in the stream, as long as the stream keeps it.
    """

    def __init__(self, stream: str, subject: str, *, deliver: Deliver, reply_later: Callable[[Reply], None]) -> None:
        self._stream = stream
        self._filter = subject
        self._deliver = deliver
        self._reply_later = reply_later
        self._created: datetime | None = None
        self._next_stream = 0
        self._next_consumer = 1
        self._heard_at = 0.0
        self._subscription: Subscription | None = None
        self.sound = False

    async def attach(self, client: Client, streams: JetStreamContext) -> None:
        """Start behind the last message that was taken in; the first time, behind the end of the stream."""
        await self.detach()
        inbox = client.new_inbox()
        self._next_consumer = 1

        async def take(message: Msg) -> None:
            if message.subject == inbox:
                self._control(client, message)
            elif self._subscription is mine and self.sound:
                self._take(message)

        mine = self._subscription = await client.subscribe(inbox, cb=take)
        start = self._place(await streams.stream_info(self._stream))
        self.sound = True
        self._heard_at = asyncio.get_running_loop().time()
        try:
            await streams.add_consumer(
                self._stream,
                ConsumerConfig(
                    deliver_subject=inbox,
                    filter_subject=self._filter,
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                    opt_start_seq=start,
                    ack_policy=AckPolicy.NONE,
                    max_deliver=1,
                    flow_control=True,
                    idle_heartbeat=BUS_BEAT_SECONDS,
                    mem_storage=True,
                    num_replicas=1,
                ),
            )
        except BaseException:
            self.sound = False
            raise

    async def detach(self) -> None:
        self.sound = False
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                await subscription.unsubscribe()
            except LOST as gone:
                log.debug("the connection of a consumer was gone first: %s", gone)

    def check(self) -> bool:
        """Whether the consumer still lives, as far as its heartbeats tell."""
        if self.sound and asyncio.get_running_loop().time() > self._heard_at + SILENCES_MAX * BUS_BEAT_SECONDS:
            self.sound = False
        return self.sound

    def _place(self, info: StreamInfo) -> int:
        """Where to go on. A stream that was made anew is read from its beginning: nothing in it was heard before."""
        if self._created is None:
            self._next_stream = info.state.last_seq + 1
        elif info.created != self._created:
            self._next_stream = 1
        self._created = info.created
        return self._next_stream

    def _take(self, message: Msg) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        tokens = message.reply.split(".")
        at = 5 if len(tokens) == DOMAINLESS else 7
        if int(tokens[at + 1]) != self._next_consumer:
            self.sound = False
            return
        self._next_consumer += 1
        self._next_stream = int(tokens[at]) + 1
        self._deliver(message)

    def _control(self, client: Client, message: Msg) -> None:
        """Heartbeats say how far the consumer is; a flow request is answered once what came before it was heard."""
        self._heard_at = asyncio.get_running_loop().time()
        headers = message.headers or {}
        last = headers.get(Header.LAST_CONSUMER)
        if last is not None and last.isdigit() and int(last) >= self._next_consumer:
            self.sound = False
        answer = message.reply or headers.get(Header.CONSUMER_STALLED)
        if answer:
            self._reply_later(lambda: client.publish(answer))
