"""Turns: how fast the kernel is beside a bare turn on the same engine in the same minute.

`HOMEOSTAT_BENCH_QUICK=1` takes smaller samples; `HOMEOSTAT_BENCH_ENGINES=sqlite` leaves PostgreSQL out.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from benchmarks._floors import PostgresFloor, SqliteFloor
from benchmarks._growth import growth
from benchmarks._measure import Report, cpu_seconds, heading, pairs, percentile, resident_bytes, wall
from benchmarks._processes import processes
from benchmarks._turns import Bench, agents, bench, message
from homeostat.app.stores import open_engine, turn_store
from homeostat.core import collector
from homeostat.core.ids import Scope
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.testing.servers import NatsServer, PostgresServer

QUICK = os.environ.get("HOMEOSTAT_BENCH_QUICK") == "1"
ENGINES = os.environ.get("HOMEOSTAT_BENCH_ENGINES", "sqlite,postgres").split(",")
PAIRS = 3 if QUICK else 7
Opening = AbstractAsyncContextManager[tuple[Any, Bench]]
PROCESS_TURNS = 1000 if QUICK else 4000
LOOPS = {1: 1000, 10: 1500, 50: 5000}
STARTS = 200 if QUICK else 1000
TOOL_TURNS = 500 if QUICK else 2000


def run() -> None:
    """Print and keep everything about turns."""
    report = Report("kernel")
    collector.settle()  # as a server does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, tempfile.TemporaryDirectory() as folder:
        if "sqlite" in ENGINES:
            with NatsServer() as bus:
                runner.run(_sqlite(report, Path(folder), bus.url))
        if "postgres" in ENGINES:
            with PostgresServer() as server, NatsServer() as bus:
                runner.run(_postgres(report, server, bus.url))
    report.write()


async def _sqlite(report: Report, folder: Path, bus_url: str) -> None:
    for clients, turns in LOOPS.items():
        await _sqlite_loop(report, folder, clients, turns)

    def opened(name: str) -> Opening:
        return _url_bench(f"sqlite://{folder / name}.db")

    async with opened("more") as (_, subject):
        await _more(report, "sqlite", subject)
    await processes(report, "sqlite", f"sqlite://{folder / 'shared'}.db", bus_url, turns=PROCESS_TURNS)
    await growth(report, "sqlite", opened, quick=QUICK)


async def _sqlite_loop(report: Report, folder: Path, clients: int, turns: int) -> None:
    heading(f"SQLite, synchronous=FULL, {clients} agents")
    floor = SqliteFloor(folder / f"floor{clients}.db")
    log = folder / f"turns{clients}.db-wal"
    url = f"sqlite://{folder / f'turns{clients}.db'}"
    async with _url_bench(url) as (engine, subject), _worker(subject, clients) as keys:
        engine.carries = False  # let the log grow, so that its size says what was written
        await engine.write(_never_checkpoint)
        await subject.closed_loop(keys, turns // 4)
        cpu, commits, size = cpu_seconds(), subject.kernel.flusher.commits, log.stat().st_size
        count = turns // clients * clients
        await subject.closed_loop(keys, turns)
        commits = (subject.kernel.flusher.commits - commits) / count
        report.add(
            f"sqlite c={clients} per turn",
            cpu_ms=(cpu_seconds() - cpu) / count * 1000,
            commits=commits,
            fsyncs=commits,
            wal_bytes=(log.stat().st_size - size) / count,
        )
        engine.carries = True
        await engine.write(_checkpoint)
        base, rate, ratio = await pairs(
            lambda: floor.rate(max(60, turns // 10)), lambda: subject.closed_loop(keys, turns), count=PAIRS
        )
        report.add(f"sqlite c={clients} turns/s", floor_S=base, ours=rate, ratio=ratio)
        if clients == 1:
            await _start_latency(report, "sqlite", subject, floor)
    floor.close()


def _never_checkpoint(connection: Any) -> None:
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _checkpoint(connection: Any) -> None:
    connection.execute("PRAGMA wal_autocheckpoint = 1000")


async def _postgres(report: Report, server: PostgresServer, bus_url: str) -> None:
    for clients, turns in LOOPS.items():
        await _postgres_loop(report, server, clients, turns)

    @asynccontextmanager
    async def opened(name: str) -> AsyncGenerator[tuple[Any, Bench]]:
        async with _url_bench(await _database(server, name)) as pair:
            yield pair

    async with opened("more") as (_, subject):
        await _more(report, "postgres", subject)
    await processes(report, "postgres", await _database(server, "shared"), bus_url, turns=PROCESS_TURNS)
    await growth(report, "postgres", opened, quick=QUICK)


async def _postgres_loop(report: Report, server: PostgresServer, clients: int, turns: int) -> None:
    heading(f"PostgreSQL, {clients} agents")
    url = await _database(server, f"turns{clients}")
    floor = PostgresFloor(await _database(server, f"floor{clients}"), clients)
    await floor.open()
    async with _url_bench(url) as (_, subject), _worker(subject, clients) as keys:
        await subject.closed_loop(keys, turns // 4)
        probe = await asyncpg.connect(url)
        cpu, commits, before = cpu_seconds(), subject.kernel.flusher.commits, await _wal(probe)
        count = turns // clients * clients
        await subject.closed_loop(keys, turns)
        after = await _wal(probe)
        await probe.close()
        report.add(
            f"postgres c={clients} per turn",
            cpu_ms=(cpu_seconds() - cpu) / count * 1000,
            commits=(subject.kernel.flusher.commits - commits) / count,
            fsyncs=(after[1] - before[1]) / count,
            wal_bytes=(after[0] - before[0]) / count,
        )
        base, rate, ratio = await pairs(
            lambda: floor.rate(max(500, turns // 5)), lambda: subject.closed_loop(keys, turns), count=PAIRS
        )
        report.add(f"postgres c={clients} turns/s", floor_P=base, ours=rate, ratio=ratio)
        if clients == 1:
            await _start_latency(report, "postgres", subject, floor)
    await floor.close()


async def _start_latency(report: Report, engine: str, subject: Bench, floor: PostgresFloor | SqliteFloor) -> None:
    """From enqueue to the start of the turn, beside one bare commit, by turns: a slow moment of the disk hits both."""
    key = agents(1)[0]
    began = 0.0
    commits: list[float] = []
    taken: list[float] = []

    def started(_: Grant) -> None:
        taken.append(wall() - began)

    subject.started = started
    for _ in range(STARTS):
        commits.append(await floor.commit_seconds())
        began = wall()
        await subject.kernel.ask(message(key), 60)
    subject.started = None
    p50, p99 = percentile(commits, 0.5), percentile(commits, 0.99)
    report.add(
        f"{engine} enqueue to start, c=1",
        p50_ms=percentile(taken, 0.5) * 1000,
        p99_ms=percentile(taken, 0.99) * 1000,
        commit_p50_ms=p50 * 1000,
        p50_over_commit=percentile(taken, 0.5) / p50,
        p99_over_commit_p99=percentile(taken, 0.99) / p99,
    )


async def _more(report: Report, engine: str, subject: Bench) -> None:
    """Tools, many agents, a long queue, many suspended turns, and a lost worker."""
    heading(f"{engine}: tools, queues, idling, failover")
    keys = agents(1000)
    await subject.register(keys)
    async with _worker(subject, 1000, registered=True):
        report.add(f"{engine} 1,000 agents", turns_per_second=await subject.closed_loop(keys, 5000))
    await _tools(report, engine, subject, keys)
    before = resident_bytes()
    queued = 10_000 if QUICK else 100_000
    for first in range(0, queued, 500):
        await asyncio.gather(*(subject.kernel.enqueue(message(keys[0])) for _ in range(min(500, queued - first))))
    report.add(f"{engine} {queued:,} queued", resident_MB=(resident_bytes() - before) / 2**20)
    await _suspended(report, engine, subject)


async def _tools(report: Report, engine: str, subject: Bench, keys: list[AgentKey]) -> None:
    """Turns that wait for one tool beside turns that do not, by turns."""
    await subject.answer_tools()
    plain, calling = keys[:50], keys[50:100]
    async with _worker(subject, 50, registered=True), _worker(subject, 0, calls_tool=True, also=calling):
        await subject.closed_loop(plain, TOOL_TURNS // 2)
        await subject.closed_loop(calling, TOOL_TURNS // 2)
        loops = (partial(subject.closed_loop, hosted, TOOL_TURNS) for hosted in (plain, calling))
        _, rate, ratio = await pairs(*loops, count=PAIRS)
    report.add(f"{engine} one tool call, c=50", turns_per_second=rate, over_plain=ratio)


async def _suspended(report: Report, engine: str, subject: Bench) -> None:
    """Many suspended turns hold no task and cost no commits."""
    count = 1_000 if QUICK else 10_000
    keys = [(project, f"waiting-{name}") for project, name in agents(count)]
    for first in range(0, count, 500):
        await asyncio.gather(*(subject.kernel.register(key) for key in keys[first : first + 500]))  # pyright: ignore[reportArgumentType]
    listeners = subject.kernel.bus
    await listeners.close()
    async with _worker(subject, 0, calls_tool=True, also=keys):
        before = len(asyncio.all_tasks())
        for first in range(0, count, 500):
            await asyncio.gather(*(subject.kernel.enqueue(message(key)) for key in keys[first : first + 500]))  # pyright: ignore[reportArgumentType]
        while await subject.kernel.store.outbox(Scope("g"), 1):  # noqa: ASYNC110 - until all is said
            await asyncio.sleep(0.2)
        commits = -1
        while commits != subject.kernel.flusher.commits:  # a slow machine still claims and suspends
            commits = subject.kernel.flusher.commits
            await asyncio.sleep(1)
        cpu = cpu_seconds()
        await asyncio.sleep(5)
        report.add(
            f"{engine} {count:,} suspended, idle",
            commits_per_second=(subject.kernel.flusher.commits - commits) / 5,
            cpu_share=(cpu_seconds() - cpu) / 5,
            tasks_held=len(asyncio.all_tasks()) - before,
            resident_MB=resident_bytes() / 2**20,
        )


@asynccontextmanager
async def _worker(
    subject: Bench, count: int, *, registered: bool = False, calls_tool: bool = False, also: Any = ()
) -> AsyncGenerator[list[Any]]:
    keys = agents(count)
    if not registered:
        await subject.register(keys)
    worker_id = await subject.kernel.open_worker([*keys, *also], lambda _: None)
    task = asyncio.create_task(subject.no_op_worker(worker_id, calls_tool=calls_tool))
    try:
        yield keys
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await subject.kernel.close_worker(worker_id)


@asynccontextmanager
async def _url_bench(url: str) -> AsyncGenerator[tuple[Any, Bench]]:
    engine = await open_engine(url)
    store: TurnStore = turn_store(engine)
    try:
        async with bench(store) as subject:
            yield engine, subject
    finally:
        await engine.close()


async def _database(server: PostgresServer, name: str) -> str:
    connection = await asyncpg.connect(server.url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    return server.database_url(name)


async def _wal(probe: Any) -> tuple[int, int]:
    """Bytes of log written so far, and how often it was synced."""
    position = await probe.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    await asyncio.sleep(1.5)  # connections tell what they did about once a second
    await probe.execute("SELECT pg_stat_clear_snapshot()")
    syncs = await probe.fetchval("SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'")
    return int(position), int(syncs)
