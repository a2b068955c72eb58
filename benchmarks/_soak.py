"""`make soak`: everything at once for some minutes, and whether anything grows, dies or makes an operator wait.

Ten thousand agents beat, turns and model calls come at a steady rate, a thousand dashboards follow, and an operator
kills and approves all the while. Each part of the load is a process of its own, or a share of one, on raw connections.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import uvloop

from benchmarks._http_load import Measured, pace, post
from benchmarks._measure import Report, heading, percentile
from benchmarks.fleet import _get, _populate, _requests
from benchmarks.gateway import CHAT, PATH, _model
from homeostat.core.ids import AgentId
from homeostat.testing.homeostat import HomeostatServer

AGENTS = 10_000
BEATS_PER_SECOND = 1_000.0
TURNS_PER_SECOND = 300.0
CALLS_PER_SECOND = 300.0
FOLLOWERS = 1_000
HOSTED = 50
OPERATIONS_PER_SECOND = 3.0
ANSWER_MS_MAX = 250.0
HISTORY_SAMPLES = 60  # what is kept of each agent; until it is full, memory grows as it should
SAMPLE_SECONDS = 2.0
GROWTH_MB_PER_HOUR_MAX = 60.0


class Operator:
    """Kills agents and runs, and approves tasks, one after the other, and notes how long each answer took."""

    def __init__(self, port: int, agents: list[str], hosted: list[str]) -> None:
        self._port = port
        self._agents = itertools.cycle(agents)
        self._hosted = itertools.cycle(hosted)
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self.failures: list[str] = []

    async def work(self, seconds: float) -> None:
        acts = itertools.cycle((self._kill_agent, self._kill_run, self._approve, self._wait_for_turn))
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            try:
                async with asyncio.timeout(20):
                    await next(acts)()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, KeyError) as problem:
                self.failures.append(repr(problem))
            await asyncio.sleep(max(0.0, 1 / OPERATIONS_PER_SECOND - (time.perf_counter() - began)))

    async def _kill_agent(self) -> None:
        agent = next(self._agents)
        body = {"reason": "soak", "actor": "operator"}
        await self._timed("kill an agent", "POST", f"/v1/agents/{agent}/kill", body)
        await self._ask("POST", f"/v1/agents/{agent}/release", body)

    async def _kill_run(self) -> None:
        run_id = await self._run(approval=False, apply="manual")
        await self._timed("kill a run", "POST", f"/v1/runs/{run_id}/kill", {"reason": "soak"})

    async def _approve(self) -> None:
        run_id = await self._run(approval=True, apply="auto")
        path = f"/v1/runs/{run_id}/tasks/only"
        while (await self._ask("GET", path))[1]["status"] != "awaiting_approval":  # noqa: ASYNC110 - nobody signals
            await asyncio.sleep(0.05)
        await self._timed("approve a task", "POST", f"{path}/approve", {"reason": "soak"})

    async def _wait_for_turn(self) -> None:
        agent = next(self._hosted)
        began = time.perf_counter()
        _, sent = await self._ask("POST", f"/v1/agents/{agent}/inbox", {"type": "turn", "payload": "soak"})
        status, _ = await self._ask("GET", f"/v1/turns/{sent['turn_id']}/deliverable?wait=10")
        self._note("a turn, sent to delivered", status, began)

    async def _run(self, *, approval: bool, apply: str) -> str:
        task = {"name": "only", "agent": next(self._hosted), "input": "soak", "approval": approval}
        _, made = await self._ask("POST", "/v1/runs", {"goal": "soak", "tasks": [task], "policy": {"apply": apply}})
        return made["run_id"]

    async def _timed(self, name: str, method: str, path: str, body: dict[str, Any]) -> None:
        began = time.perf_counter()
        status, _ = await self._ask(method, path, body)
        self._note(name, status, began)

    def _note(self, name: str, status: int, began: float) -> None:
        if 200 <= status < 300:
            self.took[name].append((time.perf_counter() - began) * 1000)
        else:
            self.failures.append(f"{name}: {status}")

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """One request on a connection of its own, as a command of the CLI makes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n"
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(content) + content)
        answer = await reader.read(-1)
        writer.close()
        first, _, said = answer.partition(b"\r\n\r\n")
        return int(first[9:12]), json.loads(said or b"null")


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


@asynccontextmanager
async def installation(folder: Path) -> AsyncGenerator[tuple[HomeostatServer, list[tuple[AgentId, str]]]]:
    """A server with its fleet, an upstream that answers at once, and a worker."""
    agents = await _populate(folder / "data", AGENTS, interval_seconds=AGENTS / BEATS_PER_SECOND)
    with (
        _model() as model,
        HomeostatServer(
            "--upstreams", f"openai=http://127.0.0.1:{model}", command="up", data_dir=folder / "data"
        ) as server,
    ):
        names = [option for number in range(HOSTED) for option in ("--agent-id", f"soak-{number}")]
        command = [sys.executable, "-m", "homeostat", "worker", "examples.hello:hello", "--url", server.url, *names]
        worker = subprocess.Popen(  # noqa: ASYNC220 - it only begins here
            [*command, "--concurrency", str(HOSTED)], stdout=subprocess.DEVNULL
        )
        try:
            await _known(int(server.url.rsplit(":", 1)[1]), f"soak-{HOSTED - 1}")
            yield server, agents
        finally:
            worker.terminate()
            worker.wait(30)


async def _known(port: int, agent_id: str) -> None:
    """Until the worker's last agent is there."""
    async with asyncio.timeout(60):
        while True:
            with suppress(urllib.error.HTTPError):
                await asyncio.to_thread(_get, port, f"/v1/agents/{agent_id}")
                return
            await asyncio.sleep(0.1)


async def soak(minutes: float, *, fill: bool) -> bool:
    heading(f"soak, {minutes:g} minutes", {"agents": AGENTS, "followers": FOLLOWERS})
    report = Report("soak")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server, agents = await stack.enter_async_context(installation(folder))
        port = int(server.url.rsplit(":", 1)[1])
        beats = _requests(agents)
        if fill:
            await pace(port, beats, connections=64, per_second=6_000, seconds=HISTORY_SAMPLES * AGENTS / 6_000)
        seconds = minutes * 60
        followers = await _followers(port, seconds)
        operator = Operator(port, [agent for agent, _ in agents[-500:]], [f"soak-{n}" for n in range(HOSTED)])
        scales = Scales(server.pid)
        body = json.dumps(CHAT, separators=(",", ":")).encode()
        calls = [post(PATH, body, key=key) for _, key in agents[:100]]
        turns = [post(f"/v1/agents/soak-{n}/inbox", b'{"type":"turn","payload":"soak"}') for n in range(HOSTED)]
        measured = await asyncio.gather(
            pace(port, beats, connections=64, per_second=BEATS_PER_SECOND, seconds=seconds),
            pace(port, calls, connections=32, per_second=CALLS_PER_SECOND, seconds=seconds),
            pace(port, turns, connections=32, per_second=TURNS_PER_SECOND, seconds=seconds),
            operator.work(seconds),
            scales.weigh(seconds),
        )
        told = json.loads((await followers.communicate())[0])
        silent = [agent for word in ("stale", "dead") for agent in _get(port, f"/v1/agents?status={word}")]
    held = _rates(report, dict(zip(("heartbeats", "model calls", "turns accepted"), measured[:3], strict=True)))
    held &= _operations(report, operator)
    growth = scales.slope()
    report.add(
        "server",
        resident_mb=scales.samples[-1][1],
        first_mb=scales.samples[0][1],
        mb_per_hour=growth,
        cores=statistics.fmean(scales.cpu),
        target=f"<= {GROWTH_MB_PER_HOUR_MAX:.0f} MB an hour",
    )
    report.add("agents called stale or dead", agents=len(silent), target="0")
    report.add("followers", **told)
    report.write()
    return held and not silent and (growth <= GROWTH_MB_PER_HOUR_MAX or not fill)


def _rates(report: Report, kinds: dict[str, Measured]) -> bool:
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
    return all(one.failures == 0 for one in kinds.values())


def _operations(report: Report, operator: Operator) -> bool:
    worst = 0.0
    for name, took in operator.took.items():
        ordered = {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99), "max_ms": max(took)}
        target = {} if name.startswith("a turn") else {"target": f"max <= {ANSWER_MS_MAX:.0f}"}
        worst = worst if name.startswith("a turn") else max(worst, *took)
        report.add(name, times=len(took), **ordered, **target)
    if operator.failures:
        report.add("operations that failed", count=len(operator.failures), first=operator.failures[0])
    return worst <= ANSWER_MS_MAX and not operator.failures


async def _followers(port: int, seconds: float) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "benchmarks._followers", str(port), str(FOLLOWERS), str(seconds), "half"]
    followers = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert followers.stdout is not None
    await followers.stdout.readline()
    return followers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cold", action="store_true", help="begin with empty histories; memory is not judged")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        held = runner.run(soak(options.minutes, fill=not options.cold))
    print("soak: everything held" if held else "soak: something did not hold, see above")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
