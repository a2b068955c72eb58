"""One connection to NATS, from its making to its end; the bus makes a new one when it breaks."""

# pyright: reportUnknownMemberType=false
# nats-py leaves the type of its futures and options open.

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Final, cast

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.js.api import Header, StreamConfig
from nats.js.errors import NotFoundError

from homeostat.adapters.doorbells.nats.wire import pack, parcels
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import digest_of
from homeostat.core.limits import (
    BUS_CONNECT_SECONDS,
    BUS_RECEIPT_SECONDS,
    BUS_UNSENT_BYTES_MAX,
)
from homeostat.core.records.event import Channel, Event, is_passing

log = logging.getLogger(__name__)

Kind = tuple[Channel, str]
_kind = cast("Callable[[Event], Kind]", attrgetter("channel", "suffix"))

LOST: Final = (NatsError, OSError, TimeoutError, RuntimeError)
"""How nats-py tells that a connection is gone; the last is uvloop's word for a socket that was closed."""

MESSAGE_ID = Header.MSG_ID.value
"""What JetStream drops repeats by. A digest, as ids may hold anything and headers may not."""


class Receipts:
    """A batch that is under way: how many receipts are missing, and the first refusal."""

    __slots__ = ("done", "missing", "refusal")

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.missing = 0
        self.refusal: str | None = None

    async def wait(self) -> None:
        """Until the last one is in; a refusal, or none in time, means that nothing is known to have been kept."""
        if self.missing:
            async with asyncio.timeout(BUS_RECEIPT_SECONDS):
                await self.done
        if self.refusal is not None:
            raise BusUnavailable(problem=self.refusal)

    def one(self, refusal: str | None) -> None:
        self.missing -= 1
        self.refusal = self.refusal or refusal
        if self.missing == 0:
            self.end()

    def end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Link:
    """A connection with the streams on its far side and the receipts on their way back.

    It never reconnects by itself: a client that does would keep what was published in between and send it late,
    while its publisher believes otherwise.
    """

    def __init__(self, urls: list[str], *, stream_configs: dict[Channel, StreamConfig]) -> None:
        self._urls = urls
        self._configs = stream_configs
        self.client = Client()
        self.streams = self.client.jetstream(timeout=BUS_CONNECT_SECONDS)
        self.closed = asyncio.Event()
        self._inbox = ""
        self._batches: dict[str, Receipts] = {}
        self._numbers = 0
        self._covered: set[Kind] = set()
        self.unsendable = 0

    async def open(self) -> None:
        await self.client.connect(
            self._urls,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(BUS_CONNECT_SECONDS),
            ping_interval=5,
            max_outstanding_pings=2,
            pending_size=2 * BUS_UNSENT_BYTES_MAX,
            flush_timeout=BUS_CONNECT_SECONDS,
            error_cb=_note,
            closed_cb=self._on_closed,
        )
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(f"{self._inbox}.*", cb=self._on_receipt)

    async def close(self) -> None:
        """End the connection; one that resists is left behind."""
        await self._on_closed()
        closing = asyncio.create_task(self.client.close())
        closing.add_done_callback(_ended)
        await asyncio.wait([closing], timeout=BUS_CONNECT_SECONDS)
        closing.cancel()

    async def cover(self, kinds: set[Kind]) -> None:
        """Make sure a stream keeps events of these kinds; signals of the same channels stay out of it."""
        for channel, config in self._configs.items():
            wanted = {_subjects(kind) for kind in kinds if kind[0] is channel}
            try:
                found = await self.streams.stream_info(config.name or "")
            except NotFoundError:
                subjects = sorted(wanted | {*(config.subjects or ())})
                await self.streams.add_stream(config.evolve(subjects=subjects))
                continue
            present = set(found.config.subjects or ())
            if not wanted <= present:
                await self.streams.update_stream(found.config.evolve(subjects=sorted(wanted | present)))
        self._covered |= kinds

    # --- publishing ----------------------------------------------------------------------------------------

    async def send(self, events: tuple[Event, ...]) -> None:
        """Send a batch in one go, then wait for the receipts of what is to be kept."""
        kinds = {kind for kind in set(map(_kind, events)) - self._covered if not is_passing(*kind)}
        try:
            if kinds:
                await self.cover(kinds)
            with self._expecting() as (receipts, reply):
                receipts.missing = 1  # held back until everything is sent, lest a quick receipt seem the last
                for parcel in parcels(events):
                    await self._send_one(parcel, receipts, reply)
                receipts.one(None)
                await receipts.wait()
        except BusUnavailable:
            self._covered.clear()  # a stream may be gone: look before the next batch
            raise
        except LOST as problem:
            raise BusUnavailable(problem=str(problem) or type(problem).__name__) from problem

    async def _send_one(self, parcel: Sequence[Event], receipts: Receipts, reply: str) -> None:
        event = parcel[0]
        if self.closed.is_set():
            raise BusUnavailable(problem="the connection was lost")
        if self.client.pending_data_size > BUS_UNSENT_BYTES_MAX:
            raise BusUnavailable(problem="the server does not read what is sent to it")
        try:
            subject, body = event.subject, pack(parcel)
            if event.passing:
                await self.client.publish(subject, body)
                return
            named = "\n".join([subject, *[one.event_id for one in parcel]])
            headers = {MESSAGE_ID: digest_of(named)} if event.event_id else None
            await self.client.publish(subject, body, reply=reply, headers=headers)
            receipts.missing += 1
        except (MaxPayloadError, ValueError) as problem:
            # No later attempt could send it, and holding it back would hold back everything behind it.
            self.unsendable += len(parcel)
            log.error("an event cannot be sent and is left out: %s: %s", event.subject[:200], problem)  # noqa: TRY400

    async def settle(self) -> None:
        """Return once the server has taken in everything sent so far.

        A message to oneself stands in line behind it; the ping of the client's own `flush` would overtake.
        """
        with self._expecting() as (receipts, reply):
            receipts.missing = 1
            await self.client.publish(reply)
            await receipts.wait()

    @contextmanager
    def _expecting(self) -> Generator[tuple[Receipts, str]]:
        """Receipts of one batch, and the subject they come back to."""
        self._numbers += 1
        number, receipts = str(self._numbers), Receipts()
        self._batches[number] = receipts
        try:
            yield receipts, f"{self._inbox}.{number}"
        finally:
            del self._batches[number]

    async def _on_receipt(self, message: Msg) -> None:
        receipts = self._batches.get(message.subject[len(self._inbox) + 1 :])
        if receipts is not None:
            receipts.one(_refusal(message))

    async def _on_closed(self) -> None:
        self.closed.set()
        for receipts in self._batches.values():
            receipts.refusal = receipts.refusal or "the connection was lost"
            receipts.end()


def _refusal(message: Msg) -> str | None:
    """Why an event was not kept; None if it was."""
    if message.headers and message.headers.get(Header.STATUS) == "503":
        return "no stream keeps events of this kind; is JetStream enabled?"
    if b'"error"' not in message.data:
        return None
    try:
        return str(msgspec.json.decode(message.data)["error"]["description"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return "JetStream refused it"


def _subjects(kind: Kind) -> str:
    return f"hs.v1.*.main.{kind[0].value}.*.*.{kind[1]}"


def _ended(closing: asyncio.Task[None]) -> None:
    if not closing.cancelled() and (problem := closing.exception()) is not None:
        log.debug("a connection ended badly: %s", problem)


async def _note(problem: Exception) -> None:
    log.debug("nats: %s", problem or type(problem).__name__)
