"""Runs: what a task of a run of no-op tasks costs, of the processor and by the clock, beside bare turns of the same
agents in the same minute: in one process, with all that is recorded for replays, as a server does, and without; and
through a server and a worker, as they are used.

`HOMEOSTAT_BENCH_QUICK=1` takes smaller samples; `HOMEOSTAT_BENCH_ENGINES=sqlite` leaves PostgreSQL out.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import uvloop

from benchmarks._measure import Rate, Report, cpu_seconds, heading
from benchmarks._runs_deployed import deployed
from benchmarks._turns import PAYLOAD, PROJECT, Bench, agents, bench
from homeostat.app.stores import ledger_store, open_engine, run_store, turn_store
from homeostat.core import collector
from homeostat.core.ids import TurnId
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.run import Run, RunConfig, RunPolicy, Target, TargetKind, TaskSpec
from homeostat.runs.recording import Note, notes_of
from homeostat.runs.runs import Runs
from homeostat.testing.crews import NoBank, Roster
from homeostat.testing.servers import PostgresServer

QUICK = os.environ.get("HOMEOSTAT_BENCH_QUICK") == "1"
ENGINES = os.environ.get("HOMEOSTAT_BENCH_ENGINES", "sqlite,postgres").split(",")
TASKS = 2_000 if QUICK else 10_000
PAIRS = 3 if QUICK else 5
AGENTS = 64
PARALLEL = 256  # each agent has the next task in line while it works on one


def run() -> None:
    """Print and keep how fast runs are."""
    report = Report("runs")
    collector.settle()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, tempfile.TemporaryDirectory() as folder:
        if "sqlite" in ENGINES:
            runner.run(_measure(report, "sqlite", f"sqlite://{Path(folder) / 'runs.db'}"))
            runner.run(_deployed(report, "sqlite", Path(folder)))
        if "postgres" in ENGINES:
            with PostgresServer() as server:
                runner.run(_postgres(report, server))
    report.write()


async def _postgres(report: Report, server: PostgresServer) -> None:
    urls = [server.url.rpartition("/")[0] + f"/{name}" for name in ("runs", "deployed")]
    connection = await asyncpg.connect(server.url)
    for url in urls:
        await connection.execute(f"CREATE DATABASE {url.rpartition('/')[2]}")
    await connection.close()
    await _measure(report, "postgres", urls[0])
    with tempfile.TemporaryDirectory() as folder:
        await _deployed(report, "postgres", Path(folder), "--store-url", urls[1])


async def _deployed(report: Report, engine: str, folder: Path, *options: str) -> None:
    await deployed(report, engine, folder, *options, tasks=TASKS // 2, pairs=PAIRS)


async def _measure(report: Report, engine: str, url: str) -> None:
    heading(f"{engine}: a run of {TASKS} no-op tasks on {AGENTS} agents")
    async with _opened(url) as (subject, runs, recording):
        keys = agents(AGENTS)
        await subject.closed_loop(keys, TASKS // 4)
        await _one_run(runs, TASKS // 4)

        async def run(*, recorded: bool) -> float:
            recording.on = recorded
            return await _one_run(runs, TASKS)

        kinds: dict[str, Rate] = {
            "bare turns": lambda: subject.closed_loop(keys, TASKS),
            "run, not recorded": lambda: run(recorded=False),
            "run, recorded as a server does": lambda: run(recorded=True),
        }
        _tell(report, engine, [{name: await _once(work) for name, work in kinds.items()} for _ in range(PAIRS)])


async def _once(work: Rate) -> tuple[float, float]:
    """What a task or a turn takes, in microseconds: of the processor, and by the clock."""
    began = cpu_seconds()
    rate = await work()
    return (cpu_seconds() - began) / TASKS * 1e6, 1e6 / rate


def _tell(report: Report, engine: str, rounds: list[dict[str, tuple[float, float]]]) -> None:
    """Medians; ratios are those of neighbours, which had the same minute."""
    for name in rounds[0]:
        cpu, clock = (statistics.median(taken[name][place] for taken in rounds) for place in (0, 1))
        of_cpu, of_clock = (
            statistics.median(taken[name][place] / taken["bare turns"][place] for taken in rounds) for place in (0, 1)
        )
        report.add(f"{engine} {name}", cpu_us=cpu, clock_us=clock, cpu_ratio=of_cpu, clock_ratio=of_clock)


@asynccontextmanager
async def _opened(url: str) -> AsyncGenerator[tuple[Bench, Runs, "Recording"]]:
    async with AsyncExitStack() as stack:
        engine = await open_engine(url)
        stack.push_async_callback(engine.close)
        subject = await stack.enter_async_context(bench(turn_store(engine)))
        keys = agents(AGENTS)
        await subject.register(keys)
        worker = await subject.kernel.open_worker(keys, lambda _: None)
        working = asyncio.ensure_future(subject.no_op_worker(worker))
        stack.callback(working.cancel)
        kernel = subject.kernel
        recording = Recording(
            partial(notes_of, ledger_store(engine), turn_store(engine), left=kernel.deliverables.take_left)
        )
        runs = Runs(
            store=run_store(engine),
            kernel=kernel,
            bank=NoBank(),
            agents=Roster([agent_id for _, agent_id in keys]),
            bus=kernel.bus,
            clock=kernel.clock,
            ids=kernel.ids,
            notes=recording,
        )
        await runs.open()
        driving = asyncio.ensure_future(runs.driver.run())
        stack.push_async_callback(_stop, driving)
        yield subject, runs, recording


class Recording:
    """What a server writes down of turns, unless it is switched off."""

    def __init__(self, notes: Callable[..., Awaitable[dict[TurnId, list[Note]]]]) -> None:
        self._notes = notes
        self.on = True

    async def __call__(self, *args: Any, **named: Any) -> dict[TurnId, list[Note]]:
        return await self._notes(*args, **named) if self.on else {}


async def _stop(task: "asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _one_run(runs: Runs, count: int) -> float:
    """Tasks per second, from the moment the run was accepted to its last outcome."""
    target = Target(TargetKind.TYPE, "no-op")
    specs = [
        TaskSpec(name=f"task-{number}", target=target, input=msgspec.Raw(PAYLOAD.encode())) for number in range(count)
    ]
    config = RunConfig(goal="nothing", seed=1, policy=RunPolicy(parallel=PARALLEL))
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    async def heard(run: Run) -> None:
        if run.status is RunStatus.COMPLETED and not done.done():
            done.set_result(None)

    runs.told.append(heard)
    began = loop.time()
    await runs.control.create(PROJECT, config, specs, actor="bench")
    await done
    runs.told.remove(heard)
    return count / (loop.time() - began)
