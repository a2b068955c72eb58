"""Every bus keeps the suite of its port, on a real server that is killed and comes back."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count

import nats
import pytest

from homeostat.adapters.doorbells.local import LocalBus, LocalSubscription
from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.core.codec import Json
from homeostat.core.errors import BusUnavailable
from homeostat.core.limits import BUS_RECEIPT_SECONDS
from homeostat.core.ports.bus import Bus, Handler
from homeostat.core.records.event import Channel, Event, subject
from homeostat.testing.servers import NatsServer, stand_still
from homeostat.testing.suites.bus import (
    CHECKS,
    CHECKS_OF_A_WIRE_THAT_BREAKS,
    Check,
    Listener,
    a_cancelled_listener_hears_no_more,
    a_listener_that_fails_hears_on_and_harms_nobody,
    a_lost_wire_is_said_and_found_again,
    a_pattern_that_takes_every_kind_hears_each_event_once,
    a_wildcard_takes_one_name_or_the_rest,
    an_event,
    an_event_reaches_every_listener_unchanged,
    events_arrive_in_the_order_they_were_published,
    many_listeners_all_hear_everything,
    odd_names_are_kept_apart,
    publish_at_last,
    wanted_follows_the_listeners,
)

numbers = count(1)


@pytest.fixture
def project() -> str:
    return f"bus-{next(numbers)}"


class LocalWire:
    """One process, one bus."""

    breakable = False

    def __init__(self, make: Callable[[], Bus] = LocalBus) -> None:
        self._bus = make()

    async def party(self) -> Bus:
        return self._bus

    async def lose(self) -> None:
        raise NotImplementedError

    async def restore(self) -> None:
        raise NotImplementedError


class NatsWire:
    """A server, and a bus per party."""

    def __init__(self, url: str, server: NatsServer | None = None) -> None:
        self._url = url
        self._server = server
        self.parties: list[NatsBus] = []

    @property
    def breakable(self) -> bool:
        return self._server is not None

    async def party(self) -> NatsBus:
        bus = NatsBus(self._url)
        self.parties.append(bus)
        assert await bus.open(10)
        return bus

    async def lose(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.kill)

    async def restore(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        for bus in self.parties:
            await bus.close()


@asynccontextmanager
async def nats_wire(url: str, server: NatsServer | None = None) -> AsyncGenerator[NatsWire]:
    wire = NatsWire(url, server)
    try:
        yield wire
    finally:
        await wire.close()


@pytest.fixture(scope="module")
def mortal() -> Iterator[NatsServer]:
    """A server of this module's own, to be killed at will."""
    with NatsServer() as server:
        yield server


def named(check: Check) -> str:
    return check.__name__


@pytest.mark.parametrize("check", CHECKS, ids=named)
async def test_the_local_bus(check: Check, project: str) -> None:
    await check(LocalWire(), project)


@pytest.mark.parametrize("check", CHECKS, ids=named)
async def test_the_nats_bus(check: Check, project: str, nats_url: str) -> None:
    async with nats_wire(nats_url) as wire:
        await check(wire, project)


@pytest.mark.parametrize("check", CHECKS_OF_A_WIRE_THAT_BREAKS, ids=named)
async def test_the_nats_bus_on_a_server_that_dies(check: Check, project: str, mortal: NatsServer) -> None:
    async with nats_wire(mortal.url, mortal) as wire:
        await check(wire, project)


# --- buses that are broken on purpose --------------------------------------------------------------------------


class Deaf(LocalBus):
    async def publish(self, events: tuple[Event, ...]) -> None:
        await super().publish(events[1:])


class Literal(LocalBus):
    async def subscribe(self, pattern: str, handler: Handler) -> LocalSubscription:
        return await super().subscribe(pattern.replace(".>", ".none"), handler)


class Careless(LocalBus):
    """Takes every name for a plain one."""

    async def publish(self, events: tuple[Event, ...]) -> None:
        for event in events:
            plain = event.target.replace("%2E", ".").replace(" ", "")
            await super().publish(
                (Event(event.event_id, event.project, event.channel, "agent", plain, event.suffix, event.payload),)
            )


class Shuffling(LocalBus):
    async def publish(self, events: tuple[Event, ...]) -> None:
        await super().publish(tuple(reversed(events)))


class Echoing(LocalBus):
    async def publish(self, events: tuple[Event, ...]) -> None:
        await super().publish((*events, *events))


class Fragile(LocalBus):
    async def publish(self, events: tuple[Event, ...]) -> None:
        for event in events:
            for subscription in tuple(self._subscriptions):
                if subscription.matches(event):
                    await subscription.handler(event)


class Clinging(LocalBus):
    def remove(self, subscription: object) -> None:
        pass


class Lonely(LocalBus):
    """Has room for three listeners."""

    async def subscribe(self, pattern: str, handler: Handler) -> LocalSubscription:
        if len(self._subscriptions) >= 3:
            del self._subscriptions[0]
        return await super().subscribe(pattern, handler)


class Eager(LocalBus):
    def wanted(self, suffix: str) -> bool:
        return super().wanted(suffix) or suffix == "state"


BROKEN: list[tuple[type[LocalBus], Check]] = [
    (Deaf, an_event_reaches_every_listener_unchanged),
    (Literal, a_wildcard_takes_one_name_or_the_rest),
    (Careless, odd_names_are_kept_apart),
    (Shuffling, events_arrive_in_the_order_they_were_published),
    (Echoing, a_pattern_that_takes_every_kind_hears_each_event_once),
    (Fragile, a_listener_that_fails_hears_on_and_harms_nobody),
    (Clinging, a_cancelled_listener_hears_no_more),
    (Lonely, many_listeners_all_hear_everything),
    (Eager, wanted_follows_the_listeners),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=lambda value: value.__name__)
async def test_a_broken_bus_is_found_out(
    broken: type[LocalBus], check: Check, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeostat.testing.suites.bus.PATIENCE_SECONDS", 0.2)
    with pytest.raises((AssertionError, RuntimeError)):
        await check(LocalWire(broken), project)


class Pretender:
    """Claims to have handed over what it dropped."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus
        self.wanted, self.subscribe, self.close = bus.wanted, bus.subscribe, bus.close

    async def publish(self, events: tuple[Event, ...]) -> None:
        try:
            await self._bus.publish(events)
        except BusUnavailable:
            return


async def test_a_bus_that_hides_a_loss_is_found_out(project: str, mortal: NatsServer) -> None:
    class Pretending(NatsWire):
        async def party(self) -> Bus:  # pyright: ignore[reportIncompatibleMethodOverride]
            return Pretender(await super().party())

    wire = Pretending(mortal.url, mortal)
    try:
        with pytest.raises(AssertionError, match="nobody is there"):
            await a_lost_wire_is_said_and_found_again(wire, project)
    finally:
        if not mortal.running:
            mortal.start()
        await wire.close()


# --- what is NATS' own -----------------------------------------------------------------------------------------


async def test_hostile_bytes_on_our_subjects_harm_nobody(project: str, nats_url: str) -> None:
    async with nats_wire(nats_url) as wire:
        bus = await wire.party()
        listener = Listener()
        subscriptions = [
            await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener),
            await bus.subscribe(subject(project, Channel.CMD, "agent", "*", "wakeup"), listener),
        ]
        stranger = await nats.connect(nats_url)
        kept, passing = (
            an_event("x", project=project).subject,
            an_event("x", project=project, channel=Channel.CMD, suffix="wakeup").subject,
        )
        elsewhere = (
            b'{"event_id":"e","project":"other","channel":"evt","component":"agent","target":"ann",'
            b'"suffix":"task","payload":{}}'
        )
        hostile = [b"", b"\xff\xfe\x00", b"null", b"[]", b"{}", b'"' * 9, b"[" * 100_000, b"\x00" * 1000, elsewhere]
        for body in hostile:
            await stranger.publish(kept, body)
            await stranger.publish(passing, body)
            await stranger.publish("hs.interest.v1", body)
        await stranger.flush()
        await stranger.close()
        await bus.publish((an_event("1", project=project),))
        await bus.publish((an_event("2", project=project, channel=Channel.CMD, suffix="wakeup"),))
        await listener.until("1", "2")
        assert sorted(listener.ids) == ["1", "2"]
        assert [subscription.foreign for subscription in subscriptions] == [len(hostile)] * 2


async def test_a_repeated_event_is_kept_once(project: str, nats_url: str) -> None:
    async with nats_wire(nats_url) as wire:
        bus = await wire.party()
        listener = Listener()
        await bus.subscribe(subject(project, Channel.EVT, "agent", "*", ">"), listener)
        again = an_event("again", project=project)
        same_id = an_event("again", project=project, suffix="step")
        await bus.publish((again,))
        await bus.publish((again, same_id, again))
        await bus.publish((an_event("last", project=project),))
        await listener.until("last")
        assert [(event.event_id, event.suffix) for event in listener.heard] == [
            ("again", "task"),
            ("again", "step"),
            ("last", "task"),
        ]


async def test_a_slow_listener_blocks_neither_publisher_nor_neighbours(project: str, nats_url: str) -> None:
    async with nats_wire(nats_url) as wire:
        bus = await wire.party()
        release, slow, quick = asyncio.Event(), Listener(), Listener()

        async def wait(event: Event) -> None:
            await release.wait()
            await slow(event)

        pattern = subject(project, Channel.EVT, "agent", "*", "task")
        await bus.subscribe(pattern, wait)
        await bus.subscribe(pattern, quick)
        ids = [str(number) for number in range(2_000)]
        for first in range(0, len(ids), 500):
            await bus.publish(tuple(an_event(event_id, project=project) for event_id in ids[first : first + 500]))
        await quick.until(*ids)
        assert slow.ids == []
        release.set()
        await slow.until(*ids)
        assert slow.ids == ids


async def test_a_listener_that_lags_misses_signals_and_no_events(
    project: str, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeostat.adapters.doorbells.nats.subscription.BUS_PENDING_MAX", 10)
    async with nats_wire(nats_url) as wire:
        bus = await wire.party()
        release, slow = asyncio.Event(), Listener()

        async def wait(event: Event) -> None:
            await release.wait()
            await slow(event)

        subscription = await bus.subscribe(f"hs.v1.{project}.>", wait)
        rings = tuple(an_event(f"r{n}", project=project, channel=Channel.CMD, suffix="wakeup") for n in range(50))
        await bus.publish(rings)
        await bus.publish(tuple(an_event(f"e{n}", project=project) for n in range(50)))
        release.set()
        await slow.until(*(f"e{n}" for n in range(50)))
        assert subscription.missed >= 30
        await bus.publish((an_event("r-last", project=project, channel=Channel.CMD, suffix="wakeup"),))
        await slow.until("r-last")


async def test_a_server_that_hangs_blocks_no_publisher(project: str, mortal: NatsServer) -> None:
    async with nats_wire(mortal.url, mortal) as wire:
        bus = await wire.party()
        listener = Listener()
        await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
        chunk = Json('"' + "x" * (64 << 10) + '"')
        os.kill(mortal.pid, signal.SIGSTOP)
        await asyncio.to_thread(stand_still, mortal.pid)
        try:
            async with asyncio.timeout(2 * BUS_RECEIPT_SECONDS):
                with pytest.raises(BusUnavailable):
                    await bus.publish((an_event("unanswered", project=project),))

            async def flood() -> None:
                for number in range(1_000):
                    event = an_event(f"{number}", project=project, channel=Channel.STR, suffix="c", payload=chunk)
                    async with asyncio.timeout(1):
                        await bus.publish((event,))
                    await asyncio.sleep(0)

            with pytest.raises(BusUnavailable, match="does not read"):
                await flood()
        finally:
            os.kill(mortal.pid, signal.SIGCONT)
        await publish_at_last(bus, an_event("after", project=project))
        await listener.until("after")


async def test_a_stream_that_vanished_is_made_anew_and_followed(project: str, mortal: NatsServer) -> None:
    async with nats_wire(mortal.url, mortal) as wire:
        bus = await wire.party()
        listener = Listener()
        await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
        await bus.publish((an_event("before", project=project),))
        await listener.until("before")
        stranger = await nats.connect(mortal.url)
        await stranger.jetstream().delete_stream("HS_EVT")
        await stranger.close()
        await publish_at_last(bus, an_event("after", project=project))
        await wire.lose()
        await wire.restore()
        await publish_at_last(bus, an_event("later", project=project))
        await listener.until("after", "later")


async def test_what_cannot_be_sent_does_not_hold_up_the_rest(project: str, nats_url: str) -> None:
    async with nats_wire(nats_url) as wire:
        bus = await wire.party()
        listener = Listener()
        await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
        huge = an_event("huge", project=project, payload=Json('"' + "x" * (2 << 20) + '"'))
        await bus.publish((an_event("1", project=project), huge, an_event("2", project=project)))
        await listener.until("1", "2")
        assert listener.ids == ["1", "2"]


async def test_a_bus_starts_although_its_server_does_not(project: str) -> None:
    with NatsServer() as server:
        url = server.url
        server.kill()
        bus = NatsBus(url)
        try:
            assert not await bus.open(0.05)
            assert not bus.wanted("state")
            listener = Listener()
            await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
            with pytest.raises(BusUnavailable):
                await bus.publish((an_event("early", project=project),))
            await asyncio.to_thread(server.start)
            await publish_at_last(bus, an_event("late", project=project))
            await listener.until("late")
        finally:
            await bus.close()
