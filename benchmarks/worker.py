"""Workers: what turns that wait cost, and what a worker adds to a turn.

`HOMEOSTAT_BENCH_QUICK=1` takes smaller samples.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from benchmarks._measure import Report, heading, resident_bytes, wall
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.turn import Turn
from homeostat.agent.worker import Worker
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ToolCallId, TurnId
from homeostat.core.records.turn import MessageType, WaitStatus
from homeostat.kernel.commands import Enqueue

QUICK = os.environ.get("HOMEOSTAT_BENCH_QUICK") == "1"
SUSPENDED = 1_000 if QUICK else 10_000
TURNS = 500 if QUICK else 4_000
AGENTS = 50


def run() -> None:
    """Print and keep everything about workers."""
    report = Report("worker")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for measure in (_suspended, _throughput):
            with tempfile.TemporaryDirectory() as folder:
                runner.run(measure(report, Path(folder)))
    report.write()


async def _waits(turn: Turn) -> Any:
    return [await turn.step("before", _nothing), await turn.call("tool", number=turn.input)]


async def _plain(turn: Turn) -> Any:
    return turn.input


async def _nothing() -> None: ...


def _worker(system: System, function: Any, names: list[str]) -> Worker:
    worker = Worker(source=system.turns, orchestrator=Orchestrator(memory=system.memory), concurrency=128)

    def factory() -> FunctionAgent:
        return FunctionAgent(function)

    for name in names:
        worker.host(name, factory)
    return worker


async def _send(system: System, names: list[str]) -> list[TurnId]:
    sent: list[TurnId] = []
    for start in range(0, len(names), 500):
        commands = [
            Enqueue(key=(DEFAULT_PROJECT, AgentId(name)), type=MessageType.TURN, payload=Json("1"))
            for name in names[start : start + 500]
        ]
        sent += [answer.turn_id for answer in await asyncio.gather(*map(system.kernel.enqueue, commands))]
    return sent


async def _until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - what it waits for is a number that somebody else counts
        await asyncio.sleep(0.02)


async def _suspended(report: Report, folder: Path) -> None:
    """Resident memory and tasks with many turns that wait for a tool, and the time to take them all up again."""
    heading(f"{SUSPENDED} suspended turns")
    async with assemble(Settings(data_dir=folder)) as system:
        names = [f"agent-{number}" for number in range(SUSPENDED)]
        worker = _worker(system, _waits, names)
        await worker.open()
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        before, tasks = resident_bytes(), len(asyncio.all_tasks())
        began = wall()
        turns = await _send(system, names)
        await _until(lambda: worker.counts.suspended == SUSPENDED and not worker.running)
        took = wall() - began
        grown = resident_bytes() - before
        report.add(
            "suspended",
            turns=SUSPENDED,
            tasks_before=tasks,
            tasks_while_suspended=len(asyncio.all_tasks()),
            resident_mb=resident_bytes() / 1e6,
            resident_before_mb=before / 1e6,
            resident_growth_mb=grown / 1e6,
            bytes_per_turn=grown / SUSPENDED,
            turns_per_second=SUSPENDED / took,
        )
        began = wall()
        for start in range(0, len(turns), 500):
            await asyncio.gather(*(_answer(system, turn_id) for turn_id in turns[start : start + 500]))
        await _until(lambda: worker.counts.delivered == SUSPENDED)
        report.add("resumed and delivered", turns=SUSPENDED, turns_per_second=SUSPENDED / (wall() - began))
        worker.stop()
        await running


async def _answer(system: System, turn_id: TurnId) -> None:
    await system.kernel.report(
        DEFAULT_PROJECT, turn_id, ToolCallId("call_1"), status=WaitStatus.SUCCESS, result=Json("2")
    )


async def _throughput(report: Report, folder: Path) -> None:
    """Turns a second through the whole worker, beside the same turns claimed and delivered with nothing in between."""
    heading("a worker beside bare claims")
    async with assemble(Settings(data_dir=folder)) as system:
        names = [f"agent-{number}" for number in range(AGENTS)]
        bare = await _bare(system, names)
        worker = _worker(system, _plain, names)
        await worker.open()
        running = asyncio.create_task(worker.run())
        began = wall()
        await _send(system, names * (TURNS // AGENTS))
        await _until(lambda: worker.counts.delivered >= TURNS)
        rate = TURNS / (wall() - began)
        report.add("plain turns", turns=TURNS, floor_per_second=bare, turns_per_second=rate, ratio=rate / bare)
        worker.stop()
        await running


async def _bare(system: System, names: list[str]) -> float:
    from homeostat.core.records.view import Outcome  # noqa: PLC0415

    keys = [(DEFAULT_PROJECT, AgentId(name)) for name in names]
    await system.turns.register(keys)
    session = await system.turns.open(keys, lambda _: None)
    done = 0

    async def work(grant: Any) -> None:
        nonlocal done
        while grant is not None:
            delivered = await session.deliver(grant, status=Outcome.SUCCESS, result=Json("1"), claim_next=True)
            grant = delivered.next
            done += 1

    began = wall()
    sending = asyncio.create_task(_send(system, names * (TURNS // AGENTS)))
    tasks: set[asyncio.Task[None]] = set()
    while done < TURNS:
        for grant in await session.claim(64, 0.05):
            tasks.add(asyncio.create_task(work(grant)))
    await sending
    rate = TURNS / (wall() - began)
    await session.close()
    return rate
