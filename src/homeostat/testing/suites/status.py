"""What every status keeper promises. Each case gets an empty keeper; times are given, so no case waits."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, key_digest
from homeostat.core.limits import DEAD_INTERVALS, HISTORY_SAMPLES_MAX, LISTENING_GAP_SECONDS, STALE_INTERVALS
from homeostat.core.machines.liveness import Liveness
from homeostat.core.ports.fleet import StatusKeeper
from homeostat.core.records.fleet import (
    Admission,
    AgentStatus,
    Beat,
    Census,
    Mark,
    Registration,
    ReportedStatus,
    Roll,
    Sample,
    Silence,
    Standing,
    sample_of,
)

START: Final = Millis(1_750_000_000_000)
INTERVAL_MS: Final = 30_000
LIMIT: Final = 100


def admission(name: str, *, interval_ms: int = INTERVAL_MS, agent_type: str = "inference") -> Admission:
    """An agent to admit."""
    entry = Registration(
        agent_id=AgentId(name),
        project=DEFAULT_PROJECT,
        agent_type=agent_type,
        tags=("gpu", "primary"),
        hostname="worker-1",
        pid=12345,
        key_digest=key_digest(name),
        registered_at_ms=START,
    )
    return Admission(entry, interval_ms)


def status(name: str, *, items: int = 142) -> AgentStatus:
    """A heartbeat's content; its own clock is six years slow, which must not matter."""
    return AgentStatus(
        agent_id=AgentId(name),
        agent_type="inference",
        tags=("gpu", "primary"),
        timestamp=datetime(2019, 1, 28, 12, 0, tzinfo=UTC),
        started_at=datetime(2019, 1, 28, 11, 0, tzinfo=UTC),
        uptime_seconds=3600.0,
        status=ReportedStatus.RUNNING,
        last_action="Processed observation obs-456 … ü",
        last_action_at=None,
        items_processed=items,
        queue_depth=3,
        processing_time_avg_ms=250.5,
        error_count=2,
        memory_mb=156.3,
        push_interval_seconds=5.0,
    )


def beat(name: str, at_ms: int, *, interval_ms: int = INTERVAL_MS, items: int = 142) -> Beat:
    return Beat(status(name, items=items), Millis(at_ms), interval_ms)


def after(intervals: float, *, interval_ms: int = INTERVAL_MS) -> Millis:
    """An instant so many intervals past the start."""
    return Millis(START + round(intervals * interval_ms))


async def hold(keeper: StatusKeeper, *names: str, interval_ms: int = INTERVAL_MS) -> None:
    """Begin to listen, with these agents heard at the start."""
    await keeper.listen(START, [admission(name, interval_ms=interval_ms) for name in names], [])


async def standing(keeper: StatusKeeper, name: str) -> Standing:
    found = await keeper.standings([AgentId(name)])
    assert AgentId(name) in found, f"{name} is not held"
    return found[AgentId(name)]


async def judge(keeper: StatusKeeper, verdict: Liveness, now: Millis) -> list[AgentId]:
    """Give everybody who is due the same verdict; returns whom it reached."""
    roll = await keeper.roll(now, LIMIT)
    return await keeper.mark([Mark(silence, verdict, now) for silence in roll.silent])


# --- cases -------------------------------------------------------------------------------------------------------


async def a_heartbeat_is_shown_as_it_was_sent(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    assert await keeper.beat(beat("a", START + 5))
    seen = await standing(keeper, "a")
    assert seen == Standing(
        AgentId("a"), Liveness.ALIVE, START, Millis(START + 5), Millis(START + 5), INTERVAL_MS, status("a")
    )


async def a_stranger_is_not_taken(keeper: StatusKeeper) -> None:
    await hold(keeper)
    assert not await keeper.beat(beat("a", START))
    assert await keeper.standings([AgentId("a")]) == {}
    assert (await keeper.roll(after(100), LIMIT)).silent == ()


async def one_who_left_stays_away(keeper: StatusKeeper) -> None:
    await hold(keeper, "a", "b")
    await keeper.beat(beat("a", START))
    await keeper.drop([AgentId("a")])
    assert not await keeper.beat(beat("a", START + 1))
    assert await keeper.standings([AgentId("a")]) == {}
    assert await keeper.history(AgentId("a"), since=Millis(0), limit=LIMIT) == []
    assert [s.agent_id for s in (await keeper.roll(after(100), LIMIT)).silent] == ["b"]
    assert await keeper.census() == Census(alive=1)


async def silence_is_due_after_three_intervals_and_then_after_five(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.beat(beat("a", START))
    early = await keeper.roll(Millis(after(STALE_INTERVALS) - 1), LIMIT)
    assert early == Roll(next_ms=after(STALE_INTERVALS))
    due = await keeper.roll(after(STALE_INTERVALS), LIMIT)
    assert due.silent == (Silence(AgentId("a"), Liveness.ALIVE, START, INTERVAL_MS, after(STALE_INTERVALS)),)
    assert await judge(keeper, Liveness.STALE, after(STALE_INTERVALS)) == ["a"]
    seen = await standing(keeper, "a")
    assert (seen.presence, seen.since_ms) == (Liveness.STALE, after(STALE_INTERVALS))
    assert (await keeper.roll(Millis(after(DEAD_INTERVALS) - 1), LIMIT)).silent == ()
    assert [s.presence for s in (await keeper.roll(after(DEAD_INTERVALS), LIMIT)).silent] == [Liveness.STALE]


async def the_dead_stay_with_their_last_words(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.beat(beat("a", START))
    await judge(keeper, Liveness.DEAD, after(DEAD_INTERVALS))
    for _ in range(3):
        seen = await standing(keeper, "a")
        assert (seen.presence, seen.status) == (Liveness.DEAD, status("a"))
    assert await keeper.census() == Census(dead=1)


async def the_dead_come_up_again_when_their_time_is_over(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    died = after(DEAD_INTERVALS)
    await judge(keeper, Liveness.DEAD, died)
    roll = await keeper.roll(died, LIMIT)
    assert roll.silent == ()
    assert roll.next_ms is not None
    assert roll.next_ms > died
    assert [s.presence for s in (await keeper.roll(roll.next_ms, LIMIT)).silent] == [Liveness.DEAD]


async def a_clock_that_ran_ahead_forgets_nobody(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    died = after(DEAD_INTERVALS)
    await judge(keeper, Liveness.DEAD, died)
    forgotten = (await keeper.roll(died, LIMIT)).next_ms
    assert forgotten is not None
    for ahead in (forgotten, died, forgotten):  # and is set right, and runs ahead once more
        await keeper.listen(ahead, [admission("a")], [])
        assert (await keeper.roll(ahead, LIMIT)).silent == ()


async def a_heartbeat_revives(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    for verdict in (Liveness.STALE, Liveness.DEAD):
        now = Millis((await standing(keeper, "a")).received_ms + DEAD_INTERVALS * INTERVAL_MS)
        await judge(keeper, verdict, now)
        assert await keeper.beat(beat("a", now + 1))
        seen = await standing(keeper, "a")
        assert (seen.presence, seen.since_ms, seen.received_ms) == (Liveness.ALIVE, now + 1, now + 1)
        assert await keeper.census() == Census(alive=1)


async def a_heartbeat_between_look_and_verdict_wins(keeper: StatusKeeper) -> None:
    await hold(keeper, "a", "b")
    now = after(STALE_INTERVALS)
    roll = await keeper.roll(now, LIMIT)
    await keeper.beat(beat("a", now))
    assert await keeper.mark([Mark(silence, Liveness.STALE, now) for silence in roll.silent]) == ["b"]
    assert (await standing(keeper, "a")).presence is Liveness.ALIVE
    assert (await standing(keeper, "b")).presence is Liveness.STALE


async def a_verdict_is_passed_once(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    now = after(STALE_INTERVALS)
    roll = await keeper.roll(now, LIMIT)
    marks = [Mark(silence, Liveness.STALE, now) for silence in roll.silent]
    assert await keeper.mark(marks) == ["a"]
    assert await keeper.mark(marks) == []


async def each_is_judged_by_the_interval_it_was_given(keeper: StatusKeeper) -> None:
    await hold(keeper, "quick", "slow")
    await keeper.beat(beat("quick", START, interval_ms=100))
    await keeper.beat(beat("slow", START, interval_ms=3_600_000))
    now = Millis(START + 300)
    assert [s.agent_id for s in (await keeper.roll(now, LIMIT)).silent] == ["quick"]
    await keeper.beat(beat("quick", now, interval_ms=3_600_000))
    roll = await keeper.roll(Millis(now + 10_000), LIMIT)
    assert roll.silent == ()


async def a_look_is_bounded(keeper: StatusKeeper) -> None:
    names = [f"a{number:02}" for number in range(25)]
    await hold(keeper, *names)
    now = after(STALE_INTERVALS)
    seen: list[str] = []
    for _ in range(3):
        found = (await keeper.roll(now, 10)).silent
        assert len(found) <= 10
        seen += await keeper.mark([Mark(silence, Liveness.STALE, now) for silence in found])
    assert sorted(seen) == names
    assert (await keeper.roll(now, 10)).silent == ()


async def reading_changes_nothing(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.beat(beat("a", START))
    first = await standing(keeper, "a")
    for now in (after(1), after(STALE_INTERVALS), after(1000)):
        await keeper.roll(now, LIMIT)
        await keeper.history(AgentId("a"), since=Millis(0), limit=LIMIT)
        assert await standing(keeper, "a") == first
        assert await keeper.census() == Census(alive=1)


async def history_is_in_order_and_trimmed(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    beats = [beat("a", START + 1000 * number, items=number) for number in range(HISTORY_SAMPLES_MAX + 7)]
    for each in beats:
        await keeper.beat(each)
    whole = await keeper.history(AgentId("a"), since=Millis(0), limit=1000)
    assert _same(whole, [sample_of(each) for each in beats[-HISTORY_SAMPLES_MAX:]])
    newest = await keeper.history(AgentId("a"), since=Millis(0), limit=5)
    assert _same(newest, [sample_of(each) for each in beats[-5:]])
    late = await keeper.history(AgentId("a"), since=beats[-3].received_ms, limit=1000)
    assert _same(late, [sample_of(each) for each in beats[-3:]])
    assert await keeper.history(AgentId("b"), since=Millis(0), limit=5) == []


async def registering_again_counts_as_heard_and_keeps_the_status(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.beat(beat("a", START))
    await judge(keeper, Liveness.DEAD, after(DEAD_INTERVALS))
    await keeper.admit(after(6), admission("a"))
    seen = await standing(keeper, "a")
    assert (seen.presence, seen.counted_ms, seen.status) == (Liveness.ALIVE, after(6), status("a"))
    assert (await keeper.roll(Millis(after(9) - 1), LIMIT)).silent == ()
    assert len((await keeper.roll(after(9), LIMIT)).silent) == 1


async def silence_while_nobody_listened_does_not_count(keeper: StatusKeeper) -> None:
    await hold(keeper, "a", "b")
    await keeper.beat(beat("a", START))
    await keeper.roll(after(1), LIMIT)
    back = after(1000)
    await keeper.listen(back, [admission("a"), admission("b")], [])
    assert (await keeper.roll(back, LIMIT)).silent == ()
    assert (await standing(keeper, "a")).received_ms == START
    assert len((await keeper.roll(Millis(back + 2 * INTERVAL_MS), LIMIT)).silent) == 2


async def a_clock_that_was_set_back_hides_nobody(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.roll(after(1), LIMIT)
    back = Millis(after(1) - 1_000_000_000)
    await keeper.listen(back, [admission("a")], [])
    assert (await keeper.roll(Millis(back + 2 * INTERVAL_MS - 1), LIMIT)).silent == ()
    assert len((await keeper.roll(Millis(back + 2 * INTERVAL_MS), LIMIT)).silent) == 1


async def a_short_pause_is_no_excuse(keeper: StatusKeeper) -> None:
    await hold(keeper, "a")
    await keeper.roll(after(2.9), LIMIT)
    now = Millis(after(2.9) + int(LISTENING_GAP_SECONDS * 1000) - 1)
    await keeper.listen(now, [admission("a")], [])
    assert len((await keeper.roll(now, LIMIT)).silent) == 1


async def to_listen_again_admits_the_missing_and_drops_strangers(keeper: StatusKeeper) -> None:
    await hold(keeper, "a", "b")
    await keeper.beat(beat("b", START + 1))
    assert list(await keeper.listen(Millis(START + 2), [admission("b"), admission("c")], [])) == ["a"]
    held = await keeper.standings([AgentId("a"), AgentId("b"), AgentId("c")])
    assert {name: seen.received_ms for name, seen in held.items()} == {"b": START + 1, "c": START + 2}
    assert await keeper.census() == Census(alive=2)


async def the_census_adds_up(keeper: StatusKeeper) -> None:
    await hold(keeper, "a", "b", "c", "d")
    now = after(STALE_INTERVALS)
    await keeper.beat(beat("d", now))
    roll = await keeper.roll(now, LIMIT)
    verdicts = {"a": Liveness.STALE, "b": Liveness.STALE, "c": Liveness.DEAD}
    assert {silence.agent_id for silence in roll.silent} == set(verdicts)
    await keeper.mark([Mark(silence, verdicts[silence.agent_id], now) for silence in roll.silent])
    assert await keeper.census() == Census(alive=1, stale=2, dead=1)
    assert await keeper.fallen() == verdicts
    await keeper.drop([AgentId("b"), AgentId("c")])
    assert await keeper.census() == Census(alive=1, stale=1)
    assert await keeper.fallen() == {"a": Liveness.STALE}


async def nobody_is_asked_about_in_vain(keeper: StatusKeeper) -> None:
    await hold(keeper)
    assert await keeper.standings([]) == {}
    assert await keeper.mark([]) == []
    await keeper.drop([])
    await keeper.learn([])
    assert await keeper.roll(START, LIMIT) == Roll()


def _same(found: list[Sample], wanted: list[Sample]) -> bool:
    """Whether two histories tell the same, measures to six digits."""
    return [_rounded(sample) for sample in found] == [_rounded(sample) for sample in wanted]


def _rounded(sample: Sample) -> Sample:
    return replace(
        sample,
        processing_time_avg_ms=float(f"{sample.processing_time_avg_ms:.6g}"),
        memory_mb=float(f"{sample.memory_mb:.6g}"),
    )


Case = Callable[[StatusKeeper], Awaitable[None]]

CASES: Final[tuple[Case, ...]] = (
    a_heartbeat_is_shown_as_it_was_sent,
    a_stranger_is_not_taken,
    one_who_left_stays_away,
    silence_is_due_after_three_intervals_and_then_after_five,
    the_dead_stay_with_their_last_words,
    the_dead_come_up_again_when_their_time_is_over,
    a_clock_that_ran_ahead_forgets_nobody,
    a_heartbeat_revives,
    a_heartbeat_between_look_and_verdict_wins,
    a_verdict_is_passed_once,
    each_is_judged_by_the_interval_it_was_given,
    a_look_is_bounded,
    reading_changes_nothing,
    history_is_in_order_and_trimmed,
    registering_again_counts_as_heard_and_keeps_the_status,
    silence_while_nobody_listened_does_not_count,
    a_clock_that_was_set_back_hides_nobody,
    a_short_pause_is_no_excuse,
    to_listen_again_admits_the_missing_and_drops_strangers,
    the_census_adds_up,
    nobody_is_asked_about_in_vain,
)
