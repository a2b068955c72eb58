"""Heartbeats in this process's memory, written down in the store now and then."""

import asyncio
from collections.abc import Collection, Sequence
from itertools import islice

import msgspec

from homeostat.adapters.statuses.lanes import Lanes, Line
from homeostat.adapters.statuses.samples import Samples
from homeostat.core.clock import Millis
from homeostat.core.errors import Unavailable
from homeostat.core.ids import AgentId
from homeostat.core.limits import (
    AGENT_EXPIRY_SECONDS,
    DEAD_INTERVALS,
    LISTENING_GAP_SECONDS,
    STALE_INTERVALS,
    SWEEP_ROWS_MAX,
)
from homeostat.core.machines.liveness import Liveness, verdict_due
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.records.fleet import (
    Admission,
    AgentStatus,
    Beat,
    Census,
    IntervalSetting,
    Mark,
    Roll,
    Sample,
    Silence,
    Standing,
)

_COUNTED = frozenset({Liveness.ALIVE.value, Liveness.STALE.value})
_DEAD = frozenset({Liveness.DEAD.value})
_AFTER = {Liveness.STALE: STALE_INTERVALS, Liveness.DEAD: DEAD_INTERVALS}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AgentStatus)


class _Entry:
    """One agent. Its status is held as JSON, which takes half the memory of the record."""

    __slots__ = ("counted_ms", "interval_ms", "line", "presence", "received_ms", "samples", "since_ms", "status")

    def __init__(self, now: Millis, interval_ms: int) -> None:
        self.presence = Liveness.ALIVE
        self.since_ms = self.received_ms = self.counted_ms = now
        self.interval_ms = interval_ms
        self.status: bytes | None = None
        self.samples: Samples | None = None
        self.line: Line | None = None


class LocalStatuses:
    """The keeper for one process; others hear of its agents through the bus. `shared` says that there may be others."""

    def __init__(
        self, *, store: RegistryStore, expiry_seconds: float = AGENT_EXPIRY_SECONDS, shared: bool = False
    ) -> None:
        self._store = store
        self._shared = shared
        self._expiry_ms = int(expiry_seconds * 1000)
        self._entries: dict[AgentId, _Entry] = {}
        self._lanes = Lanes()
        self._count = dict.fromkeys(Liveness, 0)
        self._looked_ms: Millis | None = None
        self._changed: set[AgentId] = set()
        self._dropped: set[AgentId] = set()

    # --- coming and going ----------------------------------------------------------------------------------

    async def listen(
        self, now: Millis, known: Sequence[Admission], settings: Sequence[IntervalSetting]
    ) -> Collection[AgentId]:
        del settings
        if self._looked_ms is None:
            standings = await self._store.standings()
            for standing in standings:
                self._restore(standing, now)
            # Since any of them was heard or judged nobody listened, or a clock runs ahead, and would forget the dead.
            last = max((max(one.received_ms, one.since_ms) for one in standings), default=now)
            self._lanes.shift(max(0, now - last), _DEAD)
        elif abs(now - self._looked_ms) > LISTENING_GAP_SECONDS * 1000:
            self._forgive(now - self._looked_ms)
        self._looked_ms = now
        wanted = {admission.registration.agent_id for admission in known}
        strangers = [agent_id for agent_id in self._entries if agent_id not in wanted]
        await self.drop(strangers)
        for admission in known:
            if admission.registration.agent_id not in self._entries:
                await self.admit(now, admission)
        return strangers

    def _restore(self, standing: Standing, now: Millis) -> None:
        entry = _Entry(now, standing.interval_ms)
        entry.presence = standing.presence
        entry.since_ms = standing.since_ms
        entry.received_ms = standing.received_ms
        entry.status = None if standing.status is None else _encoder.encode(standing.status)
        self._entries[standing.agent_id] = entry
        self._count[entry.presence] += 1
        self._place(standing.agent_id, entry)

    def _forgive(self, gap_ms: int) -> None:
        self._lanes.shift(gap_ms, _COUNTED)
        if gap_ms > 0:  # the dead are at most forgotten later: a clock that runs a day ahead would take them all
            self._lanes.shift(gap_ms, _DEAD)
        for entry in self._entries.values():
            if entry.presence.value in _COUNTED:
                entry.counted_ms = Millis(entry.counted_ms + gap_ms)

    async def admit(self, now: Millis, admission: Admission) -> None:
        agent_id = admission.registration.agent_id
        entry = self._entries.get(agent_id)
        if entry is None:
            entry = self._enter(agent_id, now, admission.interval_ms)
        self._hear(agent_id, entry, now, admission.interval_ms)

    def _enter(self, agent_id: AgentId, now: Millis, interval_ms: int) -> _Entry:
        self._entries[agent_id] = entry = _Entry(now, interval_ms)
        self._count[entry.presence] += 1
        return entry

    async def drop(self, agent_ids: Collection[AgentId]) -> None:
        for agent_id in agent_ids:
            if (entry := self._entries.pop(agent_id, None)) is not None:
                assert entry.line is not None
                del entry.line[agent_id]
                self._count[entry.presence] -= 1
                self._changed.discard(agent_id)
            self._dropped.add(agent_id)

    # --- heartbeats ----------------------------------------------------------------------------------------

    async def beat(self, beat: Beat) -> bool:
        return self.beat_at_once(beat)

    def beat_at_once(self, beat: Beat) -> bool:
        entry = self._entries.get(beat.status.agent_id)
        if entry is None:
            return False
        self._take(entry, beat)
        return True

    async def learn(self, beats: Sequence[Beat]) -> None:
        for beat in beats:
            entry = self._entries.get(beat.status.agent_id)
            if entry is None:
                self._take(self._enter(beat.status.agent_id, beat.received_ms, beat.interval_ms), beat)
            elif beat.received_ms > entry.received_ms:
                self._take(entry, beat)

    async def agree(self, agent_id: AgentId, presence: Liveness, since_ms: Millis, interval_ms: int) -> bool:
        entry = self._entries.get(agent_id)
        if entry is None:
            entry = self._enter(agent_id, since_ms, interval_ms)
        elif (
            entry.presence in {presence, Liveness.DEAD}
            or since_ms < entry.counted_ms + _AFTER[presence] * entry.interval_ms
        ):
            return False
        self._pass(agent_id, entry, presence, since_ms)
        return True

    def _take(self, entry: _Entry, beat: Beat) -> None:
        entry.status = _encoder.encode(beat.status)
        if entry.samples is None:
            entry.samples = Samples()
        entry.samples.add(beat)
        self._hear(beat.status.agent_id, entry, beat.received_ms, beat.interval_ms)

    def _hear(self, agent_id: AgentId, entry: _Entry, now: Millis, interval_ms: int) -> None:
        if entry.presence is Liveness.ALIVE and entry.interval_ms == interval_ms and entry.line is not None:
            # Nearly every heartbeat: the same line, a later place.
            entry.received_ms = entry.counted_ms = now
            entry.line[agent_id] = Millis(now + STALE_INTERVALS * interval_ms)
            entry.line.move_to_end(agent_id)
            self._changed.add(agent_id)
            return
        if entry.presence is not Liveness.ALIVE:
            self._count[entry.presence] -= 1
            self._count[Liveness.ALIVE] += 1
            entry.presence = Liveness.ALIVE
            entry.since_ms = now
        entry.received_ms = entry.counted_ms = now
        entry.interval_ms = interval_ms
        self._place(agent_id, entry)

    def _place(self, agent_id: AgentId, entry: _Entry) -> None:
        if entry.line is not None:
            del entry.line[agent_id]
        date = verdict_due(
            entry.presence,
            counted_ms=entry.counted_ms,
            since_ms=entry.since_ms,
            interval_ms=entry.interval_ms,
            expiry_ms=self._expiry_ms,
        )
        entry.line = self._lanes.place((entry.presence.value, entry.interval_ms), agent_id, date)
        self._changed.add(agent_id)

    # --- silence -------------------------------------------------------------------------------------------

    async def roll(self, now: Millis, limit: int) -> Roll:
        self._looked_ms = now
        silent = tuple(self._silence(agent_id, date) for agent_id, date in self._lanes.due(now, limit))
        return Roll(silent, None if silent else self._lanes.next_ms())

    def _silence(self, agent_id: AgentId, date: Millis) -> Silence:
        entry = self._entries[agent_id]
        return Silence(agent_id, entry.presence, entry.counted_ms, entry.interval_ms, date)

    async def heard_elsewhere(self, silent: Sequence[Silence], now: Millis) -> Collection[AgentId]:
        if not self._shared:
            return ()
        found = await self._store.standings_of([silence.agent_id for silence in silent])
        return [standing.agent_id for standing in found if self._adopt(standing, now)]

    def _adopt(self, written: Standing, now: Millis) -> bool:
        """Hold an agent as another process does that heard it later; if it is silent there too, it is judged here."""
        entry = self._entries.get(written.agent_id)
        ahead = written.received_ms > now + LISTENING_GAP_SECONDS * 1000  # written by a clock that was wrong
        if entry is None or ahead or written.received_ms <= entry.received_ms:
            return False
        if written.presence is not Liveness.ALIVE and entry.presence is not Liveness.DEAD:
            return False
        entry.received_ms, entry.counted_ms, entry.interval_ms = written.received_ms, now, written.interval_ms
        entry.status = None if written.status is None else _encoder.encode(written.status)
        self._pass(written.agent_id, entry, written.presence, written.since_ms)
        return True

    async def mark(self, marks: Sequence[Mark]) -> list[AgentId]:
        return [mark.silence.agent_id for mark in marks if self._mark(mark)]

    def _mark(self, mark: Mark) -> bool:
        agent_id = mark.silence.agent_id
        entry = self._entries.get(agent_id)
        if entry is None or entry.line is None or entry.line[agent_id] != mark.silence.due_ms:
            return False
        self._pass(agent_id, entry, mark.presence, mark.since_ms)
        return True

    def _pass(self, agent_id: AgentId, entry: _Entry, presence: Liveness, since_ms: Millis) -> None:
        self._count[entry.presence] -= 1
        self._count[presence] += 1
        entry.presence = presence
        entry.since_ms = since_ms
        self._place(agent_id, entry)

    # --- reading -------------------------------------------------------------------------------------------

    async def standings(self, agent_ids: Sequence[AgentId]) -> dict[AgentId, Standing]:
        entries = self._entries
        return {agent_id: _standing(agent_id, entries[agent_id]) for agent_id in agent_ids if agent_id in entries}

    async def history(self, agent_id: AgentId, *, since: Millis, limit: int) -> list[Sample]:
        entry = self._entries.get(agent_id)
        return [] if entry is None or entry.samples is None else entry.samples.newest(since, limit)

    async def show_interval(self, setting: IntervalSetting) -> None:
        """Nobody reads this keeper from outside."""

    async def census(self) -> Census:
        return Census(self._count[Liveness.ALIVE], self._count[Liveness.STALE], self._count[Liveness.DEAD])

    async def fallen(self) -> dict[AgentId, Liveness]:
        return {agent_id: one for one in (Liveness.STALE, Liveness.DEAD) for agent_id in self._lanes.among(one.value)}

    # --- the store -----------------------------------------------------------------------------------------

    async def save(self) -> None:
        if dropped := tuple(self._dropped):
            await self._store.drop_standings(dropped)
            self._dropped.difference_update(dropped)
        changed = iter(sorted(self._changed))  # neighbours lie on the same pages of the file
        while batch := tuple(islice(changed, SWEEP_ROWS_MAX)):
            await self._save(batch)
            await asyncio.sleep(0)  # a store that saves in the loop would keep it for all of them

    async def _save(self, batch: tuple[AgentId, ...]) -> None:
        """Write some down; what changes meanwhile, or could not be written, is written next time."""
        self._changed.difference_update(batch)
        try:
            await self._store.save_standings([_standing(i, self._entries[i]) for i in batch if i in self._entries])
        except Unavailable:
            self._changed.update(batch)
            raise

    async def close(self) -> None:
        await self.save()


def _standing(agent_id: AgentId, entry: _Entry) -> Standing:
    return Standing(
        agent_id,
        entry.presence,
        entry.since_ms,
        entry.received_ms,
        entry.counted_ms,
        entry.interval_ms,
        None if entry.status is None else _decoder.decode(entry.status),
    )
