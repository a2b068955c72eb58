"""Heartbeats: ours on both keepers, beside the same server answering a constant, and Redis with nothing between."""

import asyncio
import statistics
import tempfile
from pathlib import Path

import uvloop

from benchmarks._compare.kept import Figures
from benchmarks._http_load import Measured
from benchmarks.fleet import SATURATING_AGENTS, _constant, _homeostat, _pipelined_sets, _populate, _requests, _saturated
from homeostat.testing.servers import RedisServer

ROUNDS = 3


def measure() -> Figures:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure())


async def _measure() -> Figures:
    with RedisServer() as redis, tempfile.TemporaryDirectory() as folder:
        agents = await _populate(Path(folder) / "local", SATURATING_AGENTS)
        shared = await _populate(Path(folder) / "redis", SATURATING_AGENTS)
        with (
            _constant() as floor,
            _homeostat(Path(folder) / "local") as local,
            _homeostat(Path(folder) / "redis", status_url=redis.url) as remote,
        ):
            subjects = {
                "constant": (floor, _requests(agents)),
                "local": (local, _requests(agents)),
                "redis": (remote, _requests(shared)),
            }
            rounds: list[dict[str, Measured]] = [
                {name: await _saturated(*subject) for name, subject in subjects.items()} for _ in range(ROUNDS)
            ]
        return {
            name: {
                "rate": statistics.median(taken[name].rate for taken in rounds),
                "p50_ms": statistics.median(taken[name].p50_ms for taken in rounds),
                "p99_ms": statistics.median(taken[name].p99_ms for taken in rounds),
                "cpu_us": statistics.median(taken[name].cpu_us for taken in rounds),
                "of_constant": statistics.median(taken[name].rate / taken["constant"].rate for taken in rounds),
                "failures": sum(taken[name].failures for taken in rounds),
            }
            for name in subjects
        } | {"sets": await _pipelined_sets(redis)}
