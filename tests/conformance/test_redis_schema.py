"""What others may rely on in Redis: names, types, contents, expiry, and what a heartbeat costs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis

from homeostat.adapters.statuses.redis import RedisStatuses
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId
from homeostat.core.limits import HISTORY_SAMPLES_MAX
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import IntervalScope, IntervalSetting
from homeostat.testing.suites.status import START, admission, after, beat, hold, judge, standing


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as connection:
        yield connection


@asynccontextmanager
async def keeper_on(url: str) -> AsyncGenerator[RedisStatuses]:
    keeper = RedisStatuses(url=url)
    try:
        yield keeper
    finally:
        await keeper.close()


async def test_the_keys_are_those_that_were_promised(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a", interval_ms=5_000)
        await keeper.beat(beat("a", START + 7, interval_ms=5_000))

        status = json.loads(server.get("agent:status:a"))
        assert status == {
            "agent_id": "a",
            "agent_type": "inference",
            "tags": ["gpu", "primary"],
            "timestamp": "2019-01-28T12:00:00Z",
            "started_at": "2019-01-28T11:00:00Z",
            "uptime_seconds": 3600.0,
            "status": "running",
            "last_action": "Processed observation obs-456 … ü",
            "last_action_at": None,
            "items_processed": 142,
            "queue_depth": 3,
            "processing_time_avg_ms": 250.5,
            "error_count": 2,
            "memory_mb": 156.3,
            "push_interval_seconds": 5.0,
        }
        assert 24_000 < server.pttl("agent:status:a") <= 25_000

        assert json.loads(server.get("agent:registry:a")) == {
            "agent_type": "inference",
            "tags": ["gpu", "primary"],
            "registered_at": "2025-06-15T15:06:40.000Z",
        }
        assert server.ttl("agent:registry:a") == -1
        assert server.smembers("agent:active") == {"a"}
        [(sample, score)] = server.zrange("agent:history:a", 0, -1, withscores=True)
        assert score == START + 7
        assert json.loads(sample)["items_processed"] == 142


async def test_history_is_trimmed_where_it_lies(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a")
        for number in range(HISTORY_SAMPLES_MAX + 5):
            await keeper.beat(beat("a", START + number, items=number))
        assert server.zcard("agent:history:a") == HISTORY_SAMPLES_MAX


async def test_who_leaves_takes_every_key_along(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a")
        await keeper.beat(beat("a", START))
        await judge(keeper, Liveness.STALE, after(3))
        await keeper.drop([AgentId("a")])
        assert set(server.keys("*")) == {"agent:looked", "agent:listening"}


async def test_settings_are_shown(redis_url: str, server: Any) -> None:
    settings = [
        IntervalSetting(IntervalScope.AGENT, "inf-abc", 5.0),
        IntervalSetting(IntervalScope.TYPE, "inference", 10.0),
        IntervalSetting(IntervalScope.TAG, "gpu", 2.0),
        IntervalSetting(IntervalScope.DEFAULT, "", 30.0),
    ]
    shown = {
        "agent:config:inf-abc:push_interval": "5.0",
        "agent:config:type:inference:push_interval": "10.0",
        "agent:config:tag:gpu:push_interval": "2.0",
        "agent:config:default:push_interval": "30.0",
    }
    async with keeper_on(redis_url) as keeper:
        await keeper.listen(START, [], settings)
        assert {name: server.get(name) for name in server.keys("agent:config:*")} == shown
        await keeper.show_interval(IntervalSetting(IntervalScope.TAG, "gpu", None))
        assert not server.exists("agent:config:tag:gpu:push_interval")


async def test_an_agent_is_dead_after_its_status_has_expired(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a", interval_ms=100)
        await keeper.beat(beat("a", START, interval_ms=100))
        server.pexpire("agent:status:a", 0)  # as time would do after five intervals
        assert not server.exists("agent:status:a")
        assert await judge(keeper, Liveness.DEAD, Millis(START + 500)) == ["a"]
        seen = await standing(keeper, "a")
        assert seen.presence is Liveness.DEAD
        assert seen.status is not None


async def test_whoever_could_not_be_heard_is_not_judged_for_it(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a")
        assert not (await keeper.roll(after(1), 8)).lost
        assert 4_000 < server.pttl("agent:listening") <= 5_000
        server.pexpire("agent:listening", 0)  # as time would do, with Redis stopped, cut off, or back from an old dump
        assert (await keeper.roll(after(9), 8)).lost
        await keeper.listen(after(9), [admission("a")], [])
        assert not (await keeper.roll(after(9), 8)).silent
        assert await judge(keeper, Liveness.STALE, after(11)) == ["a"]


async def test_a_heartbeat_costs_one_round_trip(redis_url: str, server: Any) -> None:
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, "a")
        await keeper.beat(beat("a", START))
        server.config_resetstat()
        for number in range(50):
            await keeper.beat(beat("a", START + number))
        stats = server.info("commandstats")
        assert stats["cmdstat_evalsha"]["calls"] == 50
        sent = {name for name in stats if name in {"cmdstat_eval", "cmdstat_script|load", "cmdstat_multi"}}
        assert sent == set()


async def test_heartbeats_that_come_together_share_round_trips(redis_url: str, server: Any) -> None:
    names = [f"a{number}" for number in range(200)]
    async with keeper_on(redis_url) as keeper:
        await hold(keeper, *names)
        await keeper.beat(beat("a0", START))
        server.config_resetstat()
        assert all(await asyncio.gather(*(keeper.beat(beat(name, START + 1)) for name in names)))
        assert server.info("commandstats")["cmdstat_evalsha"]["calls"] < 10
        assert len(await keeper.standings([admission(name).registration.agent_id for name in names])) == 200


async def test_a_heartbeat_that_arrives_behind_a_later_one_undoes_nothing(redis_url: str, server: Any) -> None:
    """A server that stood still sends what it had taken, and meanwhile the agent was heard by another."""
    async with keeper_on(redis_url) as ours, keeper_on(redis_url) as theirs:
        await hold(ours, "a", interval_ms=1_000)
        assert await ours.beat(beat("a", START + 8_000, interval_ms=1_000))
        assert not (await ours.roll(Millis(START + 8_001), 10)).silent
        assert await theirs.beat(beat("a", START + 7, interval_ms=1_000))
        assert (await standing(ours, "a")).received_ms == START + 8_000
        assert not (await ours.roll(Millis(START + 8_002), 10)).silent
        assert server.zcard("agent:history:a") == 2

        day = START + 86_400_000
        assert await theirs.beat(beat("a", day, interval_ms=1_000)), "of a clock that was a day ahead"
        assert await ours.beat(beat("a", START + 8_500, interval_ms=1_000))
        assert (await standing(ours, "a")).received_ms == START + 8_500
