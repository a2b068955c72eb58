"""What happens, as one numbered sequence that a reader can leave and come back to."""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from homeostat.core.clock import Clock
from homeostat.core.codec import from_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import Ids, ProjectId
from homeostat.core.limits import (
    EVENT_BATCH_MAX,
    EVENT_GAP_SECONDS,
    EVENT_READER_SECONDS,
    EVENTS_KEPT_MAX,
    EVENTS_TAIL_MAX,
    READERS_MAX,
    READERS_WOKEN_MAX,
    RESUME_SECONDS,
)
from homeostat.core.ports.bus import Bus, Subscription
from homeostat.core.records.event import Channel, Event, subject
from homeostat.fleet.updates import Change, Fell, Heard, Joined


class Kind(StrEnum):
    """What an event tells."""

    PRESENCE = "presence"
    TURN = "turn"
    DELIVERABLE = "deliverable"
    CALL = "call"
    PHASE = "phase"
    APPROVAL = "approval"
    ALERT = "alert"
    POLICY = "policy"
    BUDGET = "budget"
    RUN = "run"
    MEMORY = "memory"


# Where each kind is said: component, suffix.
STEADY: Final = {
    ("agent", "health"): Kind.PHASE,
    ("agent", "approval"): Kind.APPROVAL,
    ("agent", "alert"): Kind.ALERT,
    ("immune", "alert"): Kind.ALERT,
    ("gateway", "policies"): Kind.POLICY,
    ("agent", "budget_warning"): Kind.BUDGET,
    ("run", "budget_warning"): Kind.BUDGET,
    ("run", "moved"): Kind.RUN,
    ("immune", "memory"): Kind.MEMORY,
}
BUSY: Final = {
    ("agent", "state"): Kind.TURN,
    ("agent", "task"): Kind.DELIVERABLE,
    ("agent", "vitals"): Kind.CALL,
}
"""Kinds that cost something to say: nobody says them while nobody reads."""

BUSY_KINDS: Final = frozenset(BUSY.values())

_PLACE: Final = re.compile(r"[0-9]{1,18}")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Entry:
    """One event with its number, ready to be sent."""

    seq: int
    kind: Kind
    project: ProjectId
    data: bytes


class Feed:
    """Keeps the last events in order. A reader that fell too far behind is told of the gap, and reads anew."""

    def __init__(self, *, bus: Bus, clock: Clock, ids: Ids) -> None:
        self.stream: Final = ids.scope()
        self.seq = 0
        self.told = 0
        self.readers = 0
        self._bus = bus
        self._clock = clock
        self._kept: deque[Entry] = deque(maxlen=EVENTS_KEPT_MAX)
        self._steady: deque[Entry] = deque(
            maxlen=EVENTS_TAIL_MAX
        )  # outlives a flood of calls, and times without readers
        self._levels: dict[tuple[str, str], Event] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._waking: deque[asyncio.Future[None]] = deque()
        self._written: dict[tuple[int, ProjectId, frozenset[Kind]], tuple[int, bytes]] = {}
        self._handing_out: asyncio.TimerHandle | None = None
        self._busy: list[Subscription] = []
        self._following = asyncio.Lock()
        self._left_at = clock.monotonic()

    async def listen(self) -> None:
        for component, suffix in STEADY:
            await self._bus.subscribe(subject("*", Channel.EVT, component, "*", suffix), self._on_event)

    async def run(self) -> None:
        """Stop asking for what is costly a while after the last reader has left."""
        while True:
            await asyncio.sleep(RESUME_SECONDS / 4)
            await self.tick()

    async def tick(self) -> None:
        async with self._following:
            if self._busy and not self.readers and self._clock.monotonic() - self._left_at > RESUME_SECONDS:
                busy, self._busy = self._busy, []
                for subscription in busy:
                    await subscription.cancel()
                self._kept.clear()
                self.told = self.seq = self.seq + 1  # nobody resumes across a time in which nobody listened

    # --- what happens --------------------------------------------------------------------------------------

    async def _on_event(self, event: Event) -> None:
        if event.suffix == "state":
            # How a head stands is a level: of several states within a moment only the last is so.
            self._levels[event.project, event.target] = event
        else:
            self._add_event(event)
        self._stir()

    def hear(self, change: Change) -> None:
        """Take what the fleet says of who is there; heartbeats have a feed of their own."""
        match change:
            case Joined():
                told = {"agent_id": change.agent.agent_id, "event": "registered", "presence": change.agent.presence}
            case Fell():
                told = {"agent_id": change.agent_id, "event": change.event, "presence": change.presence}
            case Heard():
                return
        self._add(Kind.PRESENCE, change.project, told)
        self._stir()

    def _add_event(self, event: Event) -> None:
        kind = STEADY.get((event.component, event.suffix)) or BUSY[event.component, event.suffix]
        try:
            said = from_json(event.payload)
        except MalformedPayload:
            return
        self._add(kind, event.project, _told(kind, event.target, said))

    def _add(self, kind: Kind, project: ProjectId, told: dict[str, Any]) -> None:
        self.seq += 1
        data = _encode({"seq": self.seq, "kind": kind, "at_ms": self._clock.now_ms(), **told})
        entry = Entry(self.seq, kind, project, data)
        self._kept.append(entry)
        if kind not in BUSY_KINDS:
            self._steady.append(entry)

    def _stir(self) -> None:
        if self._handing_out is None:
            self._handing_out = asyncio.get_running_loop().call_later(self.gap, self._hand_out)

    def _hand_out(self) -> None:
        """Let everybody read up to here. What comes meanwhile waits: so all of them are written the same text."""
        self._handing_out = None
        levels, self._levels = self._levels, {}
        for event in levels.values():
            self._add_event(event)
        self.told = self.seq
        self._written.clear()
        asleep = not self._waking
        self._waking += self._waiting
        self._waiting = []
        if asleep:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake readers a few at a time: whoever asks for something else does not wait for all of them."""
        for _ in range(min(READERS_WOKEN_MAX, len(self._waking))):
            _wake(self._waking.popleft())
        if self._waking:
            asyncio.get_running_loop().call_soon(self._wake_some)

    # --- reading -------------------------------------------------------------------------------------------

    async def follow(self, project: ProjectId, kinds: frozenset[Kind], last_id: str | None) -> "FeedReader":
        """Begin to read: behind the event whose id is shown if that is still known, else from now on."""
        async with self._following:
            if not self._busy:
                for component, suffix in BUSY:
                    wanted = subject("*", Channel.EVT, component, "*", suffix)
                    self._busy.append(await self._bus.subscribe(wanted, self._on_event))
        stream, _, after = (last_id or "").partition(".")
        known = stream == self.stream and _PLACE.fullmatch(after) is not None and self.reaches(int(after))
        self.readers += 1
        return FeedReader(self, project, kinds, int(after) if known else self.seq, missed=bool(last_id) and not known)

    @property
    def gap(self) -> float:
        """How long events are gathered: longer for many readers, so that writing to them takes no more of the time."""
        return max(EVENT_GAP_SECONDS, self.readers * EVENT_READER_SECONDS)

    @property
    def full(self) -> bool:
        return self.readers >= READERS_MAX

    def reaches(self, after: int) -> bool:
        """Whether everything behind a number is still here."""
        return self.first - 1 <= after <= self.seq

    def since(self, after: int) -> Iterator[Entry]:
        """What was handed out behind a number, oldest first."""
        untold = self.seq - self.told
        fresh = min(self.seq - after, len(self._kept))
        for index in range(len(self._kept) - fresh, len(self._kept) - untold):
            yield self._kept[index]

    def past(self) -> Iterator[Entry]:
        """Everything that is here, handed out or not; before what can be resumed, only what seldom happens."""
        yield from (entry for entry in self._steady if entry.seq < self.first)
        yield from self._kept

    @property
    def first(self) -> int:
        """The number of the oldest event from which on none is missing."""
        return self._kept[0].seq if self._kept else self.seq + 1

    def text(self, reader: "FeedReader") -> bytes:
        """What is new for a reader, as server-sent events; those who stand at the same place share one text."""
        key = (reader.place, reader.project, reader.kinds)
        found = self._written.get(key)
        if found is None:
            text = text_of(self.stream, reader.take())
            found = self._written[key] = (reader.place, text)
        reader.place = found[0]
        return found[1]

    def news(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def leave(self) -> None:
        self.readers -= 1
        self._left_at = self._clock.monotonic()


class FeedReader:
    """One reader's place in the sequence."""

    def __init__(self, feed: Feed, project: ProjectId, kinds: frozenset[Kind], place: int, *, missed: bool) -> None:
        self._feed = feed
        self.project = project
        self.kinds = kinds
        self.place = place
        self._missed = missed
        self._before: list[Entry] = []  # older than what can be resumed, and told first

    @property
    def stream(self) -> str:
        return self._feed.stream

    @property
    def id(self) -> str:
        """What to show to go on from here."""
        return f"{self._feed.stream}.{self.place}"

    @property
    def behind(self) -> bool:
        return self.place < self._feed.told

    def missed(self) -> bool:
        """Whether something was lost since the last look; asked once, it is told once."""
        if not self._feed.reaches(self.place):
            self.place, self._missed = self._feed.seq, True
        missed, self._missed = self._missed, False
        return missed

    def take(self) -> list[Entry]:
        """What is new for this reader, as much as fits one writing."""
        found, self._before = self._before, []
        if found:
            return found
        for entry in self._feed.since(self.place):
            self.place = entry.seq
            if self._hears(entry):
                found.append(entry)
                if len(found) == EVENT_BATCH_MAX:
                    break
        return found

    def text(self) -> bytes:
        """The same, as it is sent."""
        return text_of(self.stream, self.take()) if self._before else self._feed.text(self)

    def rewind(self, count: int) -> None:
        """Begin so many events back, as far as they are here."""
        found = [entry for entry in self._feed.past() if self._hears(entry)][-count:]
        first = self._feed.first
        self.place = next((entry.seq - 1 for entry in found if entry.seq >= first), self.place)
        # Nobody can resume behind these: whoever saw one of them last goes on from here.
        self._before = [replace(entry, seq=self.place) for entry in found if entry.seq < first]

    def _hears(self, entry: Entry) -> bool:
        return entry.project == self.project and (not self.kinds or entry.kind in self.kinds)

    async def news(self, seconds: float) -> None:
        """Wait until something happens, but not for ever."""
        if not self.behind:
            news = self._feed.news()
            # A timer each, and no time-out: of a thousand readers who are woken several times a second that is felt.
            enough = asyncio.get_running_loop().call_later(seconds, _wake, news)
            try:
                await news
            finally:
                enough.cancel()

    def close(self) -> None:
        self._feed.leave()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def text_of(stream: str, entries: Iterable[Entry]) -> bytes:
    """Events as they are sent to a reader."""
    name = stream.encode()
    return b"".join(
        b"id: %b.%d\nevent: %b\ndata: %b\n\n" % (name, one.seq, one.kind.encode(), one.data) for one in entries
    )


def _told(kind: Kind, target: str, said: Any) -> dict[str, Any]:
    """The part of an announcement that a reader can use, by names that do not change with its maker."""
    match kind:
        case Kind.PHASE:
            step = said["step"]
            names = ("source", "event", "target", "cause", "actor", "incident_id")
            return {"agent_id": target, "phase": said["phase"], **{name: step.get(name) for name in names}}
        case Kind.CALL:
            names = ("latency_ms", "tokens_in", "tokens_out", "cost_usd", "error", "model", "source", "run_id")
            return {"agent_id": target, "call_id": said["sample_id"], **{name: said.get(name) for name in names}}
        case Kind.TURN | Kind.DELIVERABLE:
            return {"agent_id": target, "turn_id": said.get("agent_turn_id"), **said}
        case Kind.ALERT:
            reason = next((said[name] for name in ("reason", "why", "problem", "alert") if said.get(name)), "")
            return {
                "target": target,
                **{name: value for name, value in said.items() if name != "kind"},
                "reason": reason,
            }
        case Kind.BUDGET:
            told = {"holder_kind" if name == "kind" else name: value for name, value in said.items()}
            return {"holder": target, **told}
        case _:
            return {"target": target, **said}
