"""What every bus must do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

from homeostat.core.codec import Json, to_json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import ProjectId
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject

PATIENCE_SECONDS: Final = 10.0
ODD_NAMES: Final = (
    *("plain", "a.b", "a%2Eb", "a b", "a%20b", "*", ">", "a*", "%", "", " ", "\t\r\n", "\x00", "\x7f"),
    *("agent-ü-東京-🜂", "hs.v1.>", "x" * 200, "." * 200, "\u3000" * 200, "\u3000" * 199 + "."),
)


class Wire(Protocol):
    """Where buses meet: gives out parties that hear each other, and can break if it is one that can."""

    @property
    def breakable(self) -> bool: ...

    async def party(self) -> Bus:
        """One more bus on this wire, connected."""
        ...

    async def lose(self) -> None:
        """Make the wire unusable for everyone."""
        ...

    async def restore(self) -> None: ...


class Listener:
    """Remembers what it heard, in order."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self._news = asyncio.Condition()

    async def __call__(self, event: Event) -> None:
        async with self._news:
            self.heard.append(event)
            self._news.notify_all()

    @property
    def ids(self) -> list[str]:
        return [event.event_id for event in self.heard]

    async def until(self, *event_ids: str) -> None:
        """Wait until all of these were heard."""
        missing = set(event_ids)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._news:
                await self._news.wait_for(lambda: missing <= set(self.ids))
        except TimeoutError:
            raise AssertionError(f"never heard of {sorted(missing - set(self.ids))[:5]}") from None

    async def anything(self, seconds: float) -> bool:
        """Wait a moment for the first event."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: bool(self.heard))
        return bool(self.heard)


def an_event(
    event_id: str,
    *,
    project: str,
    target: str = "ann",
    channel: Channel = Channel.EVT,
    suffix: str = "task",
    payload: Json | None = None,
) -> Event:
    body = Json('{"n":1}') if payload is None else payload
    return Event(event_id, ProjectId(project), channel, "agent", target, suffix, body)


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that becomes true by itself."""
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(what)


async def publish_at_last(bus: Bus, *events: Event) -> None:
    """Publish the way the relay does: again and again until it is accepted."""
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        with suppress(BusUnavailable):
            await bus.publish(events)
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the bus did not come back")


# --- hearing -------------------------------------------------------------------------------------------------


async def an_event_reaches_every_listener_unchanged(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    near, far = Listener(), Listener()
    payload = to_json({"text": 'ü "quoted" \\ 東京 🜂', "deep": [[["x"]]], "none": None, "big": 2**60})
    for channel, suffix in ((Channel.CMD, "wakeup"), (Channel.CMD, "call"), (Channel.EVT, "task"), (Channel.STR, "c")):
        pattern = subject(project, channel, "agent", "ann", suffix)
        await here.subscribe(pattern, near)
        await there.subscribe(pattern, far)
        said = an_event(f"unchanged:{suffix}", project=project, channel=channel, suffix=suffix, payload=payload)
        await here.publish((said,))
        await near.until(said.event_id)
        await far.until(said.event_id)
        assert near.heard[-1] == said
        assert far.heard[-1] == said


async def a_wildcard_takes_one_name_or_the_rest(wire: Wire, project: str) -> None:
    bus = await wire.party()
    one, rest, other = Listener(), Listener(), Listener()
    await bus.subscribe(f"hs.v1.{project}.main.evt.agent.*.task", one)
    await bus.subscribe(f"hs.v1.{project}.main.evt.>", rest)
    await bus.subscribe(f"hs.v1.{project}-b.main.evt.agent.*.task", other)
    await bus.publish(
        (
            an_event("1", project=project, target="ann"),
            an_event("2", project=project, target="bob"),
            an_event("3", project=project, suffix="step"),
            an_event("4", project=project, channel=Channel.CMD, suffix="wakeup"),
            an_event("5", project=f"{project}-b"),
            an_event("6", project=project),
        )
    )
    await one.until("6")
    await rest.until("6")
    await other.until("5")
    assert one.ids == ["1", "2", "6"]
    assert rest.ids == ["1", "2", "3", "6"]
    assert other.ids == ["5"]


async def odd_names_are_kept_apart(wire: Wire, project: str) -> None:
    bus = await wire.party()
    everyone = Listener()
    listeners = {name: Listener() for name in ODD_NAMES}
    await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), everyone)
    events = {name: an_event(f"{number}", project=project, target=name) for number, name in enumerate(ODD_NAMES)}
    for name, listener in listeners.items():
        await bus.subscribe(events[name].subject, listener)
    await bus.publish(tuple(events.values()))
    last = {name: an_event(f"{event.event_id}:last", project=project, target=name) for name, event in events.items()}
    await bus.publish(tuple(last.values()))
    for name, listener in listeners.items():
        await listener.until(last[name].event_id)
        assert [event.target for event in listener.heard] == [name, name]
    await everyone.until(*(event.event_id for event in last.values()))
    assert {event.target for event in everyone.heard} == set(ODD_NAMES)


async def events_arrive_in_the_order_they_were_published(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    kinds = ((Channel.EVT, "task"), (Channel.EVT, "vitals"), (Channel.CMD, "wakeup"), (Channel.STR, "chunk"))
    for channel, suffix in kinds:
        listener = Listener()
        await there.subscribe(subject(project, channel, "agent", "ann", suffix), listener)
        ids = [f"{suffix}:{number}" for number in range(600)]
        events = [an_event(event_id, project=project, channel=channel, suffix=suffix) for event_id in ids]
        for first in range(0, len(events), 40):
            await here.publish(tuple(events[first : first + 40]))
        await listener.until(*ids)
        assert listener.ids == ids


async def a_pattern_that_takes_every_kind_hears_each_event_once(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    patterns = (f"hs.v1.{project}.>", f"hs.v1.{project}.main.*.agent.*.*", f"hs.v1.{project}.main.*.*.ann.*")
    listeners = [Listener() for _ in patterns]
    for pattern, listener in zip(patterns, listeners, strict=True):
        await there.subscribe(pattern, listener)
    kinds = ((Channel.EVT, "task"), (Channel.EVT, "state"), (Channel.CMD, "call"), (Channel.CMD, "wakeup"))
    events = [an_event(f"{c}:{s}", project=project, channel=c, suffix=s) for c, s in (*kinds, (Channel.STR, "chunk"))]
    last = [
        an_event(f"{c}:{s}:last", project=project, channel=c, suffix=s) for c, s in (*kinds, (Channel.STR, "chunk"))
    ]
    await here.publish(tuple(events))
    await here.publish(tuple(last))
    for listener in listeners:
        await listener.until(*(event.event_id for event in (*events, *last)))
        assert sorted(listener.ids) == sorted(event.event_id for event in (*events, *last))


async def many_listeners_all_hear_everything(wire: Wire, project: str) -> None:
    parties = [await wire.party() for _ in range(4)]
    listeners = [Listener() for _ in range(40)]
    for number, listener in enumerate(listeners):
        suffix = "task" if number % 2 else "wakeup"
        channel = Channel.EVT if number % 2 else Channel.CMD
        await parties[number % 4].subscribe(subject(project, channel, "agent", "*", suffix), listener)
    ids = [str(number) for number in range(50)]
    for event_id in ids:
        tasks = an_event(event_id, project=project, target=f"agent-{event_id}")
        rings = an_event(event_id, project=project, channel=Channel.CMD, suffix="wakeup")
        await parties[0].publish((tasks, rings))
    for listener in listeners:
        await listener.until(*ids)
        assert listener.ids == ids


async def nobody_hears_what_was_said_before(wire: Wire, project: str) -> None:
    bus = await wire.party()
    await bus.publish((an_event("early", project=project),))
    listener = Listener()
    await bus.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
    await bus.publish((an_event("late", project=project),))
    await listener.until("late")
    assert listener.ids == ["late"]


async def nothing_may_be_published(wire: Wire, _project: str) -> None:
    bus = await wire.party()
    await bus.publish(())


# --- listeners that misbehave or leave -----------------------------------------------------------------------


async def a_listener_that_fails_hears_on_and_harms_nobody(wire: Wire, project: str) -> None:
    bus = await wire.party()
    witness, failing = Listener(), Listener()

    async def fail(event: Event) -> None:
        await failing(event)
        raise RuntimeError(event.event_id)

    pattern = subject(project, Channel.EVT, "agent", "*", "task")
    await bus.subscribe(pattern, fail)
    await bus.subscribe(pattern, witness)
    await bus.publish((an_event("1", project=project), an_event("2", project=project)))
    await failing.until("1", "2")
    await witness.until("1", "2")


async def a_cancelled_listener_hears_no_more(wire: Wire, project: str) -> None:
    bus = await wire.party()
    for channel, suffix in ((Channel.EVT, "task"), (Channel.CMD, "wakeup")):
        leaving, staying = Listener(), Listener()
        pattern = subject(project, channel, "agent", "*", suffix)
        subscription = await bus.subscribe(pattern, leaving)
        await bus.subscribe(pattern, staying)
        await bus.publish((an_event(f"{suffix}:1", project=project, channel=channel, suffix=suffix),))
        await leaving.until(f"{suffix}:1")
        await subscription.cancel()
        await bus.publish((an_event(f"{suffix}:2", project=project, channel=channel, suffix=suffix),))
        await staying.until(f"{suffix}:2")
        await subscription.cancel()
        await bus.publish((an_event(f"{suffix}:3", project=project, channel=channel, suffix=suffix),))
        await staying.until(f"{suffix}:3")
        assert leaving.ids == [f"{suffix}:1"]


async def a_listener_may_cancel_itself(wire: Wire, project: str) -> None:
    bus = await wire.party()
    leaving, staying = Listener(), Listener()
    pattern = subject(project, Channel.EVT, "agent", "*", "task")

    async def leave(event: Event) -> None:
        await subscription.cancel()
        await asyncio.sleep(0)
        await leaving(event)

    subscription = await bus.subscribe(pattern, leave)
    await bus.subscribe(pattern, staying)
    await bus.publish((an_event("1", project=project), an_event("2", project=project)))
    await leaving.until("1")
    await staying.until("2")
    assert leaving.ids == ["1"]


async def wanted_follows_the_listeners(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    await eventually(lambda: not here.wanted("state"), "nobody listens, and yet it is wanted")
    subscription = await there.subscribe(subject(project, Channel.EVT, "agent", "*", "state"), Listener())
    await eventually(lambda: here.wanted("state"), "somebody listens, and nobody knows")
    assert there.wanted("state")
    await subscription.cancel()
    await eventually(lambda: not here.wanted("state"), "the listener left, and it is still wanted")
    everything = await here.subscribe(f"hs.v1.{project}.>", Listener())
    assert here.wanted("state")
    await eventually(lambda: there.wanted("state"), "one who listens to everything is not seen")
    await everything.cancel()


# --- a wire that breaks --------------------------------------------------------------------------------------


async def a_lost_wire_is_said_and_found_again(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    listener, passing = Listener(), Listener()
    await there.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
    await there.subscribe(subject(project, Channel.CMD, "agent", "*", "wakeup"), passing)
    for turn in range(3):
        await wire.lose()
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                await here.publish((an_event(f"lost:{turn}", project=project),))
            except BusUnavailable:
                pass
            else:
                raise AssertionError("an event was accepted although nobody is there to take it")
        await wire.restore()
        ids = [f"{turn}:{number}" for number in range(20)]
        for event_id in ids:
            await publish_at_last(here, an_event(event_id, project=project))
        await listener.until(*ids)
        heard = [event_id for event_id in listener.ids if event_id in ids]
        assert sorted(set(heard), key=heard.index) == ids
    await _rings_again(here, passing, project)


async def a_listener_that_came_while_the_wire_was_lost_hears_later(wire: Wire, project: str) -> None:
    here, there = await wire.party(), await wire.party()
    await wire.lose()
    listener, passing = Listener(), Listener()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await there.subscribe(subject(project, Channel.EVT, "agent", "*", "task"), listener)
        await there.subscribe(subject(project, Channel.CMD, "agent", "*", "wakeup"), passing)
    await wire.restore()
    await _rings_again(here, passing, project)
    await publish_at_last(here, an_event("after", project=project))
    await listener.until("after")


async def _rings_again(bus: Bus, passing: Listener, project: str) -> None:
    """A signal may be lost while parties come back one after the other, but not for ever."""
    for number in range(int(PATIENCE_SECONDS / 0.05)):
        await publish_at_last(bus, an_event(f"ring:{number}", project=project, channel=Channel.CMD, suffix="wakeup"))
        if await passing.anything(0.05):
            return
    raise AssertionError("no doorbell was heard again")


Check = Callable[[Wire, str], Awaitable[None]]

CHECKS: Final[tuple[Check, ...]] = (
    an_event_reaches_every_listener_unchanged,
    a_wildcard_takes_one_name_or_the_rest,
    odd_names_are_kept_apart,
    events_arrive_in_the_order_they_were_published,
    a_pattern_that_takes_every_kind_hears_each_event_once,
    many_listeners_all_hear_everything,
    nobody_hears_what_was_said_before,
    nothing_may_be_published,
    a_listener_that_fails_hears_on_and_harms_nobody,
    a_cancelled_listener_hears_no_more,
    a_listener_may_cancel_itself,
    wanted_follows_the_listeners,
)

CHECKS_OF_A_WIRE_THAT_BREAKS: Final[tuple[Check, ...]] = (
    a_lost_wire_is_said_and_found_again,
    a_listener_that_came_while_the_wire_was_lost_hears_later,
)
