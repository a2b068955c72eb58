"""The last vitals of each agent and the last hour of model calls, kept in memory for those who look."""

import math
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from homeostat.core.clock import Clock, Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import (
    TRAFFIC_MINUTES,
    TRAFFIC_NAMES_MAX,
    VITALS_AGENTS_MAX,
    VITALS_KEPT_MAX,
    VITALS_SPARK_MAX,
)
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals

OTHER: Final = "other models"
LATENCY_BINS: Final = 48  # half octaves from 1 ms to a day
NAN: Final = math.nan

COLUMNS: Final = ("at_ms", "latency_ms", "tokens_in", "tokens_out", "cost_usd", "tool_calls", "retries", "error")
"""What is kept of a sample; not a number where it is not known."""

_decoder = msgspec.json.Decoder(Vitals)


def row_of(sample: Vitals) -> tuple[float, ...]:
    """A sample as a row of numbers."""
    return (
        sample.at_ms,
        NAN if sample.latency_ms is None else sample.latency_ms,
        NAN if sample.tokens_in is None else sample.tokens_in,
        NAN if sample.tokens_out is None else sample.tokens_out,
        NAN if sample.cost_usd is None else sample.cost_usd,
        len(sample.tools),
        sample.retries,
        sample.error,
    )


@dataclass(slots=True)
class Tally:
    """Calls of one kind within a time."""

    calls: int = 0
    errors: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    latencies: list[int] = field(default_factory=lambda: [0] * LATENCY_BINS)

    def count(self, sample: Vitals) -> None:
        self.calls += 1
        self.errors += sample.error
        self.tokens_in += sample.tokens_in or 0
        self.tokens_out += sample.tokens_out or 0
        self.cost_usd += sample.cost_usd or 0.0
        if sample.latency_ms is not None:
            place = int(2 * math.log2(max(sample.latency_ms, 1.0)))
            self.latencies[min(place, LATENCY_BINS - 1)] += 1

    def add(self, other: "Tally") -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.tokens_in += other.tokens_in
        self.tokens_out += other.tokens_out
        self.cost_usd += other.cost_usd
        for place, count in enumerate(other.latencies):
            self.latencies[place] += count

    def latency_ms(self, share: float) -> float | None:
        """The latency that this share of the calls stayed below, to half an octave."""
        wanted = share * sum(self.latencies)
        if not wanted:
            return None
        seen = 0
        for place, count in enumerate(self.latencies):
            seen += count
            if seen >= wanted:
                return 2 ** ((place + 1) / 2)
        return None


@dataclass(slots=True)
class Minute:
    """The calls of one minute, by model."""

    project: ProjectId
    minute: int
    models: dict[str, Tally] = field(default_factory=dict[str, Tally])

    def count(self, sample: Vitals) -> None:
        model = sample.model or "unknown"
        tally = self.models.get(model)
        if tally is None:
            if len(self.models) >= TRAFFIC_NAMES_MAX:
                model = OTHER
            tally = self.models.setdefault(model, Tally())
        tally.count(sample)

    @property
    def total(self) -> Tally:
        total = Tally()
        for tally in self.models.values():
            total.add(tally)
        return total


class VitalsLog:
    """Listens to vitals. What it holds is bounded, and begins when this process did."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self.since_ms: Final = clock.now_ms()
        self._rows: OrderedDict[AgentKey, deque[array[float]]] = OrderedDict()
        self._minutes: dict[ProjectId, deque[Minute]] = {}

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "vitals"), self._on_vitals)

    async def _on_vitals(self, event: Event) -> None:
        try:
            sample = _decoder.decode(event.payload)
        except msgspec.MsgspecError:
            return
        key = (event.project, AgentId(event.target))
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = deque(maxlen=VITALS_KEPT_MAX)
            if len(self._rows) > VITALS_AGENTS_MAX:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(key)
        rows.append(array("d", row_of(sample)))
        if sample.source != "turn":
            self._now(event.project).count(sample)

    def _now(self, project: ProjectId) -> Minute:
        minute = self._clock.now_ms() // 60_000
        minutes = self._minutes.get(project)
        if minutes is None:
            minutes = self._minutes[project] = deque(maxlen=TRAFFIC_MINUTES)
        if not minutes or minutes[-1].minute != minute:
            minutes.append(Minute(project, minute))
        return minutes[-1]

    def rows(self, key: AgentKey) -> "Iterator[array[float]]":
        """An agent's last samples, oldest first."""
        return iter(self._rows.get(key, ()))

    def agents(self, project: ProjectId) -> list[AgentId]:
        """Whose samples are here."""
        return [agent_id for owner, agent_id in self._rows if owner == project]

    def recent(self, key: AgentKey, name: str) -> list[float]:
        """One figure of an agent's last samples, oldest first."""
        place, rows = COLUMNS.index(name), self._rows.get(key, ())
        return [row[place] for row in islice(rows, max(0, len(rows) - VITALS_SPARK_MAX), None)]

    def minutes(self, project: ProjectId) -> list[Minute]:
        """The minutes of the last hour in which there were calls, oldest first."""
        first = self._clock.now_ms() // 60_000 - TRAFFIC_MINUTES
        return [one for one in self._minutes.get(project, ()) if one.minute > first]

    def began(self, now: Millis) -> Millis:
        """Since when the last hour is known."""
        return Millis(max(self.since_ms, now - TRAFFIC_MINUTES * 60_000))
