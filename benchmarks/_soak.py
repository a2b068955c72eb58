"""`make soak`: everything at once for some minutes, and whether anything grows, dies or makes an operator wait.

Ten thousand agents beat, turns and model calls come at a steady rate, a thousand dashboards follow, and an operator
kills and approves all the while. The load and those who follow give way to the server, as if they were on machines of
their own; the operator and the worker do not. Each promise is judged by itself.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import uvloop

from benchmarks._gateway_parties import BODY, PATH, fast_model
from benchmarks._http_load import Measured, pace, post
from benchmarks._measure import Report, heading, percentile
from benchmarks._operator import TURN
from benchmarks.fleet import _get, _populate, _requests
from homeostat.core.ids import AgentId
from homeostat.immune.healer import BY_HAND
from homeostat.testing.children import child
from homeostat.testing.homeostat import HomeostatServer

AGENTS = 10_000
BEATS_PER_SECOND = 1_000.0
TURNS_PER_SECOND = 300.0
CALLS_PER_SECOND = 300.0
FOLLOWERS = 1_000
LOAD = {"heartbeats": BEATS_PER_SECOND, "model calls": CALLS_PER_SECOND, "turns accepted": TURNS_PER_SECOND}
RATE_SHARE_MIN = 0.99
LOAD_NICE = 10
HOSTED = 50
BACKLOG_SECONDS_MAX = 1.0  # how much of the load may wait when it ends; more means that it is accepted and not done
ANSWER_MS_MAX = 250.0
HISTORY_SAMPLES = 60  # what is kept of each agent; until it is full, memory grows as it should
SAMPLE_SECONDS = 2.0
GROWTH_MB_PER_HOUR_MAX = 60.0


class Scales:
    """Weighs the server every few seconds."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.samples: list[tuple[float, float]] = []
        self.cpu: list[float] = []

    async def weigh(self, seconds: float) -> None:
        began = time.perf_counter()
        self._process.cpu_percent()
        while (now := time.perf_counter() - began) < seconds:
            self.samples.append((now, self._process.memory_info().rss / 1e6))
            await asyncio.sleep(SAMPLE_SECONDS)
            self.cpu.append(self._process.cpu_percent() / 100)

    def slope(self) -> float:
        """Megabytes an hour by least squares, the first quarter left out."""
        settled = self.samples[len(self.samples) // 4 :]
        return statistics.linear_regression(*zip(*settled, strict=True)).slope * 3600 if len(settled) > 2 else 0.0


Took = tuple[float, float]
"""When something began, by the clock that all processes of a machine share, and how many ms it took."""


class Disk:
    """Syncs a page of a file of its own, ten times a second, on a disk that has the server's writes to do as well."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "sync"
        self.took: list[Took] = []

    def kept(self, order: Took) -> float:
        """For how long of an order's time a bare sync was under way, in ms."""
        first, last = order[0], order[0] + order[1] / 1000
        shared = (min(last, began + ms / 1000) - max(first, began) for began, ms in self.took)
        return sum(each for each in shared if each > 0) * 1000

    async def sync(self, seconds: float) -> None:
        with self._file.open("wb", buffering=0) as file:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                file.seek(0)
                file.write(os.urandom(4096))
                self.took.append(await asyncio.to_thread(_sync, file.fileno()))
                await asyncio.sleep(0.1)


def _sync(descriptor: int) -> Took:
    began = time.perf_counter()
    os.fdatasync(descriptor)
    return began, (time.perf_counter() - began) * 1000


@asynccontextmanager
async def installation(folder: Path) -> AsyncGenerator[tuple[HomeostatServer, list[tuple[AgentId, str]]]]:
    """A server with its fleet, an upstream that answers at once, and a worker."""
    agents = await _populate(folder / "data", AGENTS, interval_seconds=AGENTS / BEATS_PER_SECOND)
    with (
        fast_model() as model,
        HomeostatServer(
            "--upstreams", f"openai=http://127.0.0.1:{model}", command="up", data_dir=folder / "data"
        ) as server,
    ):
        names = [option for number in range(HOSTED) for option in ("--agent-id", f"soak-{number}")]
        command = [sys.executable, "-m", "homeostat", "worker", "examples.hello:hello", "--url", server.url, *names]
        with child([*command, "--concurrency", str(HOSTED)], stdout=subprocess.DEVNULL):
            await _known(int(server.url.rsplit(":", 1)[1]), f"soak-{HOSTED - 1}")
            yield server, agents


async def _known(port: int, agent_id: str) -> None:
    """Until the worker's last agent is there."""
    async with asyncio.timeout(60):
        while True:
            with suppress(urllib.error.HTTPError):
                await asyncio.to_thread(_get, port, f"/v1/agents/{agent_id}")
                return
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that must hold, and what was found."""

    name: str
    found: str
    held: bool


async def soak(minutes: float, *, fill: bool) -> bool:
    heading(f"soak, {minutes:g} minutes", {"agents": AGENTS, "followers": FOLLOWERS})
    report = Report("soak")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server, agents = await stack.enter_async_context(installation(folder))
        port = int(server.url.rsplit(":", 1)[1])
        seconds = minutes * 60
        operator = await _child(f"_operator {port} {seconds} {HOSTED}", *(agent for agent, _ in agents[-500:]))
        os.nice(LOAD_NICE)  # this process is the load from here on, and so is whoever it begins
        beats = _requests(agents)
        if fill:
            await pace(port, beats, connections=64, per_second=6_000, seconds=HISTORY_SAMPLES * AGENTS / 6_000)
        followers = await _child(f"_followers {port} {FOLLOWERS} {seconds} half")
        scales, disk = Scales(server.pid), Disk(folder)
        calls = [post(PATH, BODY, key=key) for _, key in agents[:100]]
        served = range(HOSTED - 1)  # the last one is the operator's, to be killed
        turns = [post(f"/v1/agents/soak-{n}/inbox", b'{"type":"turn","payload":"soak"}') for n in served]
        begun = asyncio.create_task(operator.communicate(b"begin\n"))
        measured = await asyncio.gather(
            pace(port, beats, connections=64, per_second=BEATS_PER_SECOND, seconds=seconds),
            pace(port, calls, connections=32, per_second=CALLS_PER_SECOND, seconds=seconds),
            pace(port, turns, connections=32, per_second=TURNS_PER_SECOND, seconds=seconds),
            scales.weigh(seconds),
            disk.sync(seconds),
        )
        acts = json.loads((await begun)[0])
        told = json.loads((await followers.communicate(b""))[0])
        silent = [agent for word in ("stale", "dead") for agent in _get(port, f"/v1/agents?status={word}")]
        ill = _taken_for_ill(port)
    promises = [
        *_rates(report, dict(zip(LOAD, measured[:3], strict=True))),
        _done(report, acts["waiting"]),
        *_operations(report, acts["took"], acts["failures"], disk),
        *_weight(report, scales, judged=fill),
        Promise("nobody is called stale or dead who beats", f"{len(silent)} are", not silent),
        Promise("nobody is taken for ill", "; ".join([f"{len(ill)} are", *ill[:3]]), not ill),
        Promise("every dashboard is still told", f"{told['followers']} of {FOLLOWERS}", told["followers"] == FOLLOWERS),
    ]
    report.add("followers", **told)
    report.add("a bare sync of the same disk meanwhile", **_percentiles([ms for _, ms in disk.took]))
    report.rows.append({"name": "promises", **{one.name: {"found": one.found, "held": one.held} for one in promises}})
    report.write()
    for one in promises:
        print(f"  {'held  ' if one.held else 'BROKEN'}  {one.name}: {one.found}")
    return all(one.held for one in promises)


def _taken_for_ill(port: int) -> list[str]:
    """Agents that the immune system isolated by itself, with what it saw."""
    found: list[str] = []
    cursor = ""
    while True:
        page: Any = _get(port, f"/v1/immune/incidents?limit=500{cursor}")
        found += [
            f"{one['agent_id']}: {', '.join(sign['why'] for sign in one['evidence'][:3])}"
            for one in page["incidents"]
            if one["agent_id"] is not None and one["cohort"] != BY_HAND
        ]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def _rates(report: Report, kinds: dict[str, Measured]) -> Iterator[Promise]:
    for name, one in kinds.items():
        report.add(
            name,
            per_second=one.rate,
            p50_ms=one.p50_ms,
            p99_ms=one.p99_ms,
            answers=one.answers,
            failures=one.failures,
            refused=dict(one.refused),
        )
        wanted = LOAD[name]
        held = one.failures == 0 and one.rate >= wanted * RATE_SHARE_MIN
        found = f"{one.rate:.0f}/s, p50 {one.p50_ms:.1f} ms, p99 {one.p99_ms:.1f} ms, {one.failures} failed"
        yield Promise(f"{wanted:.0f} {name} a second", found, held)


def _done(report: Report, waiting: int) -> Promise:
    """Whether turns are done as they come, and not only accepted."""
    report.add("turns that wait at the end", count=waiting)
    promise = f"at most {BACKLOG_SECONDS_MAX:g} s of turns wait when the load ends"
    return Promise(promise, f"{waiting} do", waiting <= BACKLOG_SECONDS_MAX * TURNS_PER_SECOND)


def _operations(
    report: Report, operations: dict[str, list[Took]], failures: list[str], disk: Disk
) -> Iterator[Promise]:
    """Each kind of order. One that is late breaks the promise, whoever kept it; for how long the disk did is told."""
    for name, orders in operations.items():
        ordered = _percentiles([ms for _, ms in orders])
        report.add(name, times=len(orders), **ordered)
        if name != TURN:
            found = ", ".join(f"{key[:-3]} {value:.0f} ms" for key, value in ordered.items())
            late = [order for order in orders if order[1] > ANSWER_MS_MAX]
            told = "".join(f"; {order[1]:.0f} ms, {disk.kept(order):.0f} of them in a bare sync" for order in late[:5])
            promise = f"{name}: answered within {ANSWER_MS_MAX:.0f} ms"
            yield Promise(promise, f"{found}, {len(late)} of {len(orders)} later{told}", not late)
    yield Promise("every order is obeyed", f"{len(failures)} failed {failures[:1] or ''}".strip(), not failures)


def _percentiles(took: list[float]) -> dict[str, float]:
    return {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99), "max_ms": max(took)}


def _weight(report: Report, scales: "Scales", *, judged: bool) -> Iterator[Promise]:
    growth, first, last = scales.slope(), scales.samples[0][1], scales.samples[-1][1]
    cores = statistics.fmean(scales.cpu)
    report.add("server", resident_mb=last, first_mb=first, mb_per_hour=growth, cores=cores)
    report.rows[-1]["samples"] = [(round(at), round(weight, 1)) for at, weight in scales.samples]
    if judged:
        found = f"{growth:.0f} MB an hour, {first:.0f} to {last:.0f} MB, {cores:.2f} cores"
        promise = f"memory grows by at most {GROWTH_MB_PER_HOUR_MAX:.0f} MB an hour"
        yield Promise(promise, found, growth <= GROWTH_MB_PER_HOUR_MAX)


async def _child(command: str, *arguments: str) -> asyncio.subprocess.Process:
    """A process of ours beside the server, when it says that it is ready."""
    name, *rest = command.split()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"benchmarks.{name}", *rest, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    await child.stdout.readline()
    return child


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cold", action="store_true", help="begin with empty histories; memory is not judged")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        held = runner.run(soak(options.minutes, fill=not options.cold))
    print("soak: every promise was held" if held else "soak: a promise was broken, see above")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
