"""Both status keepers pass the suite, and keepers that break a promise fail it."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from itertools import islice

import pytest

from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.adapters.statuses.redis import RedisStatuses
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.fleet import SqliteFleet
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import Admission, Beat, IntervalSetting, Mark, Roll, Sample, Standing
from homeostat.testing.suites.status import CASES, Case, admission, after, beat, hold, judge


@asynccontextmanager
async def local(kind: type[LocalStatuses] = LocalStatuses) -> AsyncGenerator[LocalStatuses]:
    engine = SqliteEngine(None)
    await engine.open()
    try:
        yield kind(store=SqliteFleet(engine))
    finally:
        await engine.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_local_keeper(case: Case) -> None:
    async with local() as keeper:
        await case(keeper)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_redis_keeper(case: Case, redis_url: str) -> None:
    keeper = RedisStatuses(url=redis_url)
    try:
        await case(keeper)
    finally:
        await keeper.close()


# --- keepers that break a promise --------------------------------------------------------------------------------


class ForgetsTheDead(LocalStatuses):
    """Reading removes whoever is dead."""

    async def standings(self, agent_ids: Sequence[AgentId]) -> dict[AgentId, Standing]:
        found = await super().standings(agent_ids)
        dead = [agent_id for agent_id, seen in found.items() if seen.presence is Liveness.DEAD]
        await self.drop(dead)
        return {agent_id: seen for agent_id, seen in found.items() if agent_id not in dead}


class JudgesBlindly(LocalStatuses):
    """A verdict is passed whatever happened since."""

    async def mark(self, marks: Sequence[Mark]) -> list[AgentId]:
        for mark in marks:
            entry = self._entries[mark.silence.agent_id]
            entry.presence, entry.since_ms = mark.presence, mark.since_ms
        return [mark.silence.agent_id for mark in marks]


class Resurrects(LocalStatuses):
    """A late heartbeat brings back one who left."""

    async def beat(self, beat: Beat) -> bool:
        if beat.status.agent_id not in self._entries:
            await self.admit(beat.received_ms, admission(beat.status.agent_id))
        return await super().beat(beat)


class TrustsTheAgentsClock(LocalStatuses):
    """Silence counts from the time the agent says it is."""

    async def beat(self, beat: Beat) -> bool:
        said = Millis(int(beat.status.timestamp.timestamp() * 1000))
        return await super().beat(Beat(beat.status, said, beat.interval_ms))


class LooksAtEverybody(LocalStatuses):
    """A look returns all there are."""

    async def roll(self, now: Millis, limit: int) -> Roll:
        return await super().roll(now, limit * 1_000)


class HoldsSilenceAgainstThem(LocalStatuses):
    """Time during which nobody listened counts."""

    def _forgive(self, gap_ms: int) -> None:
        del gap_ms


class RemembersTooMuch(LocalStatuses):
    """History is not in order."""

    async def history(self, agent_id: AgentId, *, since: Millis, limit: int) -> list[Sample]:
        return list(islice(reversed(await super().history(agent_id, since=since, limit=limit)), limit))


class KeepsStrangers(LocalStatuses):
    """Whoever is held stays, registered or not."""

    async def listen(
        self, now: Millis, known: Sequence[Admission], settings: Sequence[IntervalSetting]
    ) -> Collection[AgentId]:
        del settings
        for each in known:
            if each.registration.agent_id not in self._entries:
                await self.admit(now, each)
        return []


BROKEN = (
    ForgetsTheDead,
    JudgesBlindly,
    Resurrects,
    TrustsTheAgentsClock,
    LooksAtEverybody,
    HoldsSilenceAgainstThem,
    RemembersTooMuch,
    KeepsStrangers,
)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_a_broken_keeper_fails(kind: type[LocalStatuses]) -> None:
    failed: list[str] = []
    for case in CASES:
        async with local(kind) as keeper:
            try:
                await case(keeper)
            except AssertionError:
                failed.append(case.__name__)
    assert failed, f"{kind.__name__} passes every case"


# --- what only one of them promises ------------------------------------------------------------------------------


async def test_the_local_keeper_is_restored_from_the_store() -> None:
    engine = SqliteEngine(None)
    await engine.open()
    store = SqliteFleet(engine)
    try:
        await store.save([(admission(name).registration, None) for name in ("a", "b")])
        before = LocalStatuses(store=store)
        await hold(before, "a", "b")
        await judge(before, Liveness.DEAD, after(5))
        await before.beat(beat("a", after(6)))
        await before.close()
        then = LocalStatuses(store=store)
        await then.listen(after(100), [admission("a"), admission("b")], [])
        was = await before.standings([AgentId("a"), AgentId("b")])
        found = await then.standings([AgentId("a"), AgentId("b")])
        assert {name: (s.presence, s.received_ms, s.status) for name, s in found.items()} == {
            name: (s.presence, s.received_ms, s.status) for name, s in was.items()
        }
        assert (await then.roll(after(102), 10)).silent == ()
        assert [s.agent_id for s in (await then.roll(after(103), 10)).silent] == ["a"]
    finally:
        await engine.close()


async def test_the_dead_are_not_forgotten_for_a_clock_that_begins_a_day_ahead() -> None:
    day = 24 * 3600_000
    async with local() as before:
        await before._store.save([(admission("a").registration, None)])
        await hold(before, "a")
        await judge(before, Liveness.DEAD, after(5))
        await before.save()
        then = LocalStatuses(store=before._store)
        ahead = Millis(after(6) + day)
        await then.listen(ahead, [admission("a")], [])
        assert (await then.roll(ahead, 10)).silent == ()
        assert [s.presence for s in (await then.roll(Millis(ahead + day), 10)).silent] == [Liveness.DEAD]
