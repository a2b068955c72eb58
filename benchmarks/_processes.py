"""Turns across processes: workers beside the one that enqueues, and what a worker's sudden death costs.

Run as a module it is such a worker: it says its id, and works until it is told to end.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import uvloop

from benchmarks._measure import Report, heading, wall
from benchmarks._turns import Bench, agents, bench
from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.app.stores import open_engine, turn_store
from homeostat.core.codec import Json
from homeostat.core.limits import LEASE_SECONDS
from homeostat.core.records.turn import Grant, MessageType
from homeostat.kernel.commands import Enqueue
from homeostat.testing.children import child

HOSTED = 50
STUCK = Json('{"text":"stuck at first"}')
"""A message whose first worker never comes to an end."""


async def processes(report: Report, engine: str, url: str, bus_url: str, *, turns: int) -> None:
    """The closed loop over one and several worker processes, then the death of one that holds a turn."""
    heading(f"{engine}: workers in processes of their own, over NATS")
    async with _member(url, bus_url) as subject:
        keys = agents(HOSTED)
        await subject.register(keys)
        for count in (1, 2, 4):
            with _workers(url, bus_url, count):
                await subject.closed_loop(keys, turns // 4)
                report.add(
                    f"{engine} {count} worker processes", turns_per_second=await subject.closed_loop(keys, turns)
                )
        await _failover(report, engine, subject, url, bus_url)


async def _failover(report: Report, engine: str, subject: Bench, url: str, bus_url: str) -> None:
    key = agents(1)[0]
    with _workers(url, bus_url, 2) as workers:
        accepted = await subject.kernel.enqueue(Enqueue(key=key, type=MessageType.TURN, payload=STUCK))
        holder = None
        while holder not in workers:
            await asyncio.sleep(0.05)
            view = await subject.kernel.store.head(*key)
            holder = view.head.worker_id if view is not None else None
        workers[holder].kill()
        killed = wall()
        ended = await subject.kernel.deliverables.wait(key[0], accepted.turn_id, 60)
        assert ended is not None, "a turn outlives its worker"
        seconds = wall() - killed
    report.add(f"{engine} kill -9 to the end of its turn", seconds=seconds, over_lease=seconds - LEASE_SECONDS)


@contextmanager
def _workers(url: str, bus_url: str, count: int) -> Generator[dict[Any, "subprocess.Popen[str]"]]:
    """So many workers, ready, by their ids."""
    command = [sys.executable, "-m", "benchmarks._processes", url, bus_url]
    with ExitStack() as stack:
        started = [stack.enter_context(child(command, stdout=subprocess.PIPE)) for _ in range(count)]
        yield {process.stdout.readline().strip(): process for process in started if process.stdout is not None}


@asynccontextmanager
async def _member(url: str, bus_url: str) -> AsyncGenerator[Bench]:
    """One process's share: a kernel on the common store, with the common bus."""
    engine = await open_engine(url)
    bus = NatsBus(bus_url)
    assert await bus.open(10), "the bus is there"
    try:
        async with bench(turn_store(engine), bus) as subject:
            yield subject
    finally:
        await bus.close()
        await engine.close()


async def _work(url: str, bus_url: str) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with _member(url, bus_url) as subject:
        worker_id = await subject.kernel.open_worker(agents(HOSTED), lambda _: None)
        subject.stuck = _is_stuck
        tasks = [
            asyncio.ensure_future(subject.no_op_worker(worker_id)),
            asyncio.ensure_future(_beat(subject, worker_id)),
        ]
        print(worker_id, flush=True)
        await told.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            await subject.kernel.close_worker(worker_id)


async def _beat(subject: Bench, worker_id: Any) -> None:
    while True:
        await asyncio.sleep(LEASE_SECONDS / 4)
        await subject.kernel.renew(worker_id, subject.held)


def _is_stuck(grant: Grant) -> bool:
    return grant.turn.payload == STUCK and grant.fresh


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(*sys.argv[1:]))
