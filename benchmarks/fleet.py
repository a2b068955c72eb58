"""Heartbeats through HTTP on both keepers, the live feed at scale, the sweep, and memory per agent."""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import urllib.request
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import redis.asyncio
import uvloop

from benchmarks._http_load import Measured, pace, post, saturate
from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteFleet
from homeostat.app.stores import STORE_FILE
from homeostat.core.clock import SystemClock
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, key_digest
from homeostat.core.records.fleet import IntervalScope, IntervalSetting, Registration
from homeostat.fleet.fleet import Fleet
from homeostat.fleet.registry import Member
from homeostat.testing.children import child
from homeostat.testing.clock import ManualClock
from homeostat.testing.servers import RedisServer, free_port
from homeostat.testing.suites.status import status

ROUNDS = 5
SECONDS = 2.0
CONNECTIONS = 32
SATURATING_AGENTS = 500
FLEET = 10_000
FOLLOWERS = 1_000
BEATS_PER_SECOND = 1_000.0
FLEET_SECONDS = 20.0
SWEPT_FLEET = 100_000


def run() -> None:
    """Print every measurement beside its floor and its target."""
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_run())


async def _run() -> None:
    print("fleet")
    with RedisServer() as server:
        await _heartbeats(server)
        await _at_scale()
    await _sweep()
    await _memory()


# --- heartbeats through HTTP -----------------------------------------------------------------------------------


async def _heartbeats(server: RedisServer) -> None:
    with tempfile.TemporaryDirectory() as folder:
        agents = await _populate(Path(folder) / "local", SATURATING_AGENTS)
        shared = await _populate(Path(folder) / "redis", SATURATING_AGENTS)
        with (
            _constant() as floor,
            _homeostat(Path(folder) / "local") as local,
            _homeostat(Path(folder) / "redis", status_url=server.url) as remote,
        ):
            subjects = {
                "constant": (floor, _requests(agents)),
                "local": (local, _requests(agents)),
                "redis": (remote, _requests(shared)),
            }
            rounds = [
                {name: await _saturated(process, requests) for name, (process, requests) in subjects.items()}
                for _ in range(ROUNDS)
            ]
            trips = await _round_trips(server, remote, _requests(shared))
    sets = await _pipelined_sets(server)
    print(f"  floor: the same server answering a constant  {_median(rounds, 'constant').line()}")
    print(f"  floor: SET on one pipelined connection       {sets:8,.0f}/s")
    for name, title, target in (("local", "local keeper", 0.6), ("redis", "Redis keeper", 0.4)):
        best = _median(rounds, name)
        ratio = statistics.median(each[name].rate / each["constant"].rate for each in rounds)
        work = statistics.median(each["constant"].cpu_us / each[name].cpu_us for each in rounds)
        print(
            f"  heartbeats, {title:<33}{best.line()}   {ratio:.2f} of the constant (target {target}), "
            f"{work:.2f} by processor time"
        )
        assert all(each[name].failures == 0 for each in rounds), "every heartbeat is taken"
    print(f"  Redis round trips per heartbeat: one alone {trips[0]:.2f}, under load {trips[1]:.2f} (target 1)")


async def _saturated(process: "_Process", requests: Sequence[bytes]) -> Measured:
    """A rate, and the processor time each answer cost the server, which other work on the machine disturbs less."""
    seen = psutil.Process(process.pid)
    before = seen.cpu_times()
    measured = await saturate(process.port, requests, connections=CONNECTIONS, seconds=SECONDS)
    after = seen.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return replace(measured, cpu_us=spent / measured.asked * 1e6)


def _median(rounds: Sequence[dict[str, Measured]], name: str) -> Measured:
    return sorted((each[name] for each in rounds), key=lambda measured: measured.rate)[len(rounds) // 2]


async def _round_trips(server: RedisServer, remote: "_Process", requests: Sequence[bytes]) -> tuple[float, float]:
    counts: list[float] = []
    async with redis.asyncio.Redis.from_url(server.url) as connection:
        for connections in (1, CONNECTIONS):
            await connection.config_resetstat()
            measured = await saturate(remote.port, requests, connections=connections, seconds=1.0)
            stats = await connection.info("commandstats")
            counts.append(stats["cmdstat_evalsha"]["calls"] / measured.asked)
    return counts[0], counts[1]


async def _pipelined_sets(server: RedisServer) -> float:
    value = json.dumps({"x": "y" * 390})
    best = 0.0
    async with redis.asyncio.Redis.from_url(server.url) as connection:
        for _ in range(3):
            pipeline = connection.pipeline(transaction=False)
            for number in range(20_000):
                pipeline.set(f"floor:{number % 1_000}", value)
            began = time.perf_counter()
            await pipeline.execute()
            best = max(best, 20_000 / (time.perf_counter() - began))
    return best


# --- ten thousand agents, a thousand followers -----------------------------------------------------------------


async def _at_scale() -> None:
    with tempfile.TemporaryDirectory() as folder:
        agents = await _populate(Path(folder), FLEET, interval_seconds=FLEET / BEATS_PER_SECOND)
        with _homeostat(Path(folder)) as process:
            requests = _requests(agents)
            settle = 5.0
            followers = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "benchmarks._followers",
                str(process.port),
                str(FOLLOWERS),
                str(FLEET_SECONDS + settle),
                stdout=subprocess.PIPE,
            )
            assert followers.stdout is not None
            await followers.stdout.readline()
            await pace(process.port, requests, connections=64, per_second=BEATS_PER_SECOND, seconds=settle)
            before = psutil.Process(process.pid).cpu_times()
            measured = await pace(
                process.port,
                requests[int(settle * BEATS_PER_SECOND) :] + requests[: int(settle * BEATS_PER_SECOND)],
                connections=64,
                per_second=BEATS_PER_SECOND,
                seconds=FLEET_SECONDS,
            )
            after = psutil.Process(process.pid).cpu_times()
            told = json.loads((await followers.communicate())[0])
            silent = [agent for word in ("stale", "dead") for agent in _get(process.port, f"/v1/agents?status={word}")]
    cpu = (after.user + after.system - before.user - before.system) / FLEET_SECONDS
    print(f"  {FLEET:,} agents, {FOLLOWERS:,} followers                {measured.line()}   (target p99 50 ms)")
    print(
        f"    {measured.failures} failures, {len(silent)} called stale or dead (target 0), "
        f"server at {cpu:.0%} of a core, "
        f"{told['followers']:,} followers got {told['messages_per_second']:,.0f} messages/s, "
        f"{told['megabytes_per_second']:,.0f} MB/s"
    )


# --- the sweep and memory --------------------------------------------------------------------------------------


async def _sweep() -> None:
    """Time one look over a large fleet, with few due and with many."""
    async with _fleet_in_process(SWEPT_FLEET) as (fleet, clock, _):
        clock.advance(60)
        for member in list(fleet.registry.members())[1_000:]:
            await fleet.beat(member, msgspec.structs.replace(status(member.entry.agent_id), tags=member.entry.tags))
        gc.collect()
        times: dict[str, float] = {}
        for title, seconds in (("none", 29.0), ("1,000", 1.0), ("none again", 1.0)):
            clock.advance(seconds)
            began = time.perf_counter()
            marked = await fleet.sweeper.tick()
            times[f"{title} due ({marked} marked)"] = (time.perf_counter() - began) * 1000
        told = ", ".join(f"{title} {took:.2f} ms" for title, took in times.items())
        print(f"  sweep over {SWEPT_FLEET:,} agents: {told} (target 20 ms)")


async def _memory() -> None:
    """Count every byte that an agent with a full history costs, its registration included."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    async with _fleet_in_process(2_000) as (fleet, clock, members):
        said = {m.entry.agent_id: msgspec.structs.replace(status(m.entry.agent_id), tags=m.entry.tags) for m in members}
        for _ in range(61):
            clock.advance(30)
            for member in members:
                await fleet.beat(member, said[member.entry.agent_id])
        await fleet.broadcaster.tick()
        said.clear()
        fleet.broadcaster._kept.clear()  # noqa: SLF001 - its size does not depend on the fleet's
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"  memory per agent: {used / 2_000:,.0f} bytes (target 4,096)")


@asynccontextmanager
async def _fleet_in_process(size: int) -> "AsyncGenerator[tuple[Fleet, ManualClock, list[Member]]]":
    clock = ManualClock()
    engine = SqliteEngine(None)
    await engine.open()
    store = SqliteFleet(engine)
    await _enter(store, size)
    fleet = Fleet(
        store=store, keeper=LocalStatuses(store=store), bus=LocalBus(), clock=clock, ids=Ids(clock=clock), alone=True
    )
    await fleet.open()
    try:
        yield fleet, clock, list(fleet.registry.members())
    finally:
        await engine.close()


# --- servers and agents ----------------------------------------------------------------------------------------


class _Process:
    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid


@contextmanager
def _constant() -> Generator[_Process]:
    port = free_port()
    with _started([sys.executable, "-m", "benchmarks._constant", str(port)], port, {}) as process:
        yield process


@contextmanager
def _homeostat(folder: Path, *, status_url: str | None = None) -> Generator[_Process]:
    port = free_port()
    command = [sys.executable, "-m", "homeostat", "up", "--port", str(port), "--data-dir", str(folder)]
    with _started(command, port, {"HOMEOSTAT_STATUS_URL": status_url} if status_url else {}) as process:
        yield process


@contextmanager
def _started(command: list[str], port: int, environment: dict[str, str]) -> Generator[_Process]:
    with child(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield _Process(port, process.pid)


async def _populate(folder: Path, size: int, *, interval_seconds: float = 30.0) -> list[tuple[AgentId, str]]:
    """A store with so many agents in it; returns their ids and keys."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing else is under way
    engine = SqliteEngine(folder / STORE_FILE)
    await engine.open()
    try:
        store = SqliteFleet(engine)
        await store.set_interval(IntervalSetting(IntervalScope.DEFAULT, "", interval_seconds))
        return await _enter(store, size)
    finally:
        await engine.close()


async def _enter(store: SqliteFleet, size: int) -> list[tuple[AgentId, str]]:
    ids, clock = Ids(), SystemClock()
    agents = [(ids.agent("inference"), ids.secret()) for _ in range(size)]
    for start in range(0, size, 1_000):
        await store.save(
            [
                (
                    Registration(
                        agent_id=agent_id,
                        project=DEFAULT_PROJECT,
                        agent_type="inference",
                        tags=("gpu", "primary"),
                        hostname="worker-1",
                        pid=12345,
                        key_digest=key_digest(secret),
                        registered_at_ms=clock.now_ms(),
                    ),
                    None,
                )
                for agent_id, secret in agents[start : start + 1_000]
            ]
        )
    return agents


def _requests(agents: Sequence[tuple[AgentId, str]]) -> list[bytes]:
    return [post("/v1/agents/status", msgspec.json.encode(status(agent_id)), key=secret) for agent_id, secret in agents]


def _get(port: int, path: str) -> list[object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.load(answer)
