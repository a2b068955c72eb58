"""What a run costs where it is used: a server and a worker in processes of their own, and every turn over HTTP.

Bare turns are sent by a client, 64 at a time, and are done when the last of each agent has its deliverable. The same
turns as tasks of a run are one request. The client works beside the server, whose own processor time is told as well.
"""

import asyncio
import statistics
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks._measure import Report, heading, wall
from homeostat import Client
from homeostat.testing.children import child
from homeostat.testing.homeostat import HomeostatServer

AGENTS = [f"deployed-{number}" for number in range(64)]
PARALLEL = 4 * len(AGENTS)
RUN_SECONDS_MAX = 120.0  # load like this may look ill, and whoever is isolated waits for an operator


async def deployed(report: Report, engine: str, folder: Path, *options: str, tasks: int, pairs: int) -> None:
    """A run beside bare turns, both through a server."""
    heading(f"{engine}: {tasks} no-op tasks through a server and a worker")
    with (
        HomeostatServer(*options, command="up", data_dir=folder / f"deployed-{engine}") as server,
        _worker(server.url),
    ):
        process = psutil.Process(server.pid)
        async with Client(server.url) as client:
            await _hosted(client)
            await _turns(client, tasks // 4)
            await _run(client, tasks // 4)
            rounds: list[tuple[float, float, float, float]] = []
            for _ in range(pairs):
                taken: list[float] = []
                for work in (_turns, _run):
                    began, cpu = wall(), sum(process.cpu_times()[:2])
                    await work(client, tasks)
                    taken += ((wall() - began) / tasks * 1e6, (sum(process.cpu_times()[:2]) - cpu) / tasks * 1e6)
                rounds.append((taken[0], taken[1], taken[2], taken[3]))
    turn, turn_cpu, task, task_cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
    report.add(f"{engine} through a server, bare turns", server_cpu_us=turn_cpu, clock_us=turn)
    report.add(
        f"{engine} through a server, a run",
        server_cpu_us=task_cpu,
        clock_us=task,
        cpu_ratio=statistics.median(each[3] / each[1] for each in rounds),
        clock_ratio=statistics.median(each[2] / each[0] for each in rounds),
    )


def _worker(url: str) -> AbstractContextManager[object]:
    hosted = [option for name in AGENTS for option in ("--agent-id", name)]
    command = [sys.executable, "-m", "homeostat", "worker", "examples.hello:hello", "--url", url, *hosted]
    return child([*command, "--concurrency", str(len(AGENTS))], stdout=subprocess.DEVNULL)


async def _hosted(client: Client) -> None:
    """Until every agent is there and has answered once."""
    async with asyncio.timeout(60):
        while len(await client.agents()) < len(AGENTS):  # noqa: ASYNC110 - nobody signals
            await asyncio.sleep(0.1)
    await asyncio.gather(*(client.ask(name, "hello", wait=60) for name in AGENTS))


async def _turns(client: Client, count: int) -> None:
    async def send(name: str) -> str:
        accepted = ""
        for _ in range(count // len(AGENTS)):
            accepted = (await client.enqueue(name, "hello")).turn_id
        return accepted

    last = await asyncio.gather(*map(send, AGENTS))
    await asyncio.gather(*(client.deliverable(turn_id, wait=60) for turn_id in last))


async def _run(client: Client, count: int) -> None:
    count = count // len(AGENTS) * len(AGENTS)
    tasks = [{"name": f"t{n}", "agent": AGENTS[n % len(AGENTS)], "input": "hello"} for n in range(count)]
    run = await client.runs.create("nothing", tasks=tasks, policy={"parallel": PARALLEL})
    try:
        async with asyncio.timeout(RUN_SECONDS_MAX):
            while (run := await client.runs.get(run.run_id)).status != "completed":
                assert run.status in {"planned", "applying"}, run
                await asyncio.sleep(0.02)
    except TimeoutError:
        fleet = await client.read_json("/v1/agents?limit=500")
        ill = {
            agent["agent_id"]: agent["phase"] for agent in fleet if agent["phase"] not in {"healthy", "initializing"}
        }
        raise AssertionError(f"the run stands still: {run.tasks}, {ill or 'and nobody is ill'}") from None
