"""A server is killed, or all workers are, while runs are in every state there is: each is afterwards what it was, and
comes to its end; and its ledger tells what was done before.
"""

import asyncio
import multiprocessing
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from homeostat import Client, Turn, Worker
from homeostat.agent.functions import FunctionAgent
from homeostat.client.turns import HttpTurns
from homeostat.core.errors import Unavailable
from homeostat.core.machines.run import RunStatus
from homeostat.testing.crews import eventually
from homeostat.testing.homeostat import HomeostatServer

sys.path.insert(0, str(Path(__file__).parent))
import run_victim

LEASE_SECONDS = 0.5
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["run_victim"])


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer("--lease-seconds", str(LEASE_SECONDS)) as server:
        yield server


class Hands:
    """What agents do: note each step's effect, and wait where they are told to."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.begun: dict[str, asyncio.Event] = {}
        self.may_end: dict[str, asyncio.Event] = {}

    async def work(self, turn: Turn) -> Any:
        said = turn.input
        if said.get("asks") == "plan":
            name, answer = "plan", {"tasks": [task("planned")]}
        else:
            name, answer = said["do"], said["do"]

        async def effect() -> str:
            self.effects.append(name)
            return name

        await turn.step("effect", effect)
        self.begun.setdefault(name, asyncio.Event()).set()
        if (word := self.may_end.get(name)) is not None:
            await word.wait()
        return answer

    def hold(self, *names: str) -> None:
        for name in names:
            self.begun[name] = asyncio.Event()
            self.may_end[name] = asyncio.Event()


def task(name: str, *after: str, agent: str = "ann") -> dict[str, Any]:
    return {"name": name, "agent": agent, "input": {"do": name}, "after": list(after)}


async def reached(client: Client, run_id: str, *wanted: RunStatus, rests: bool = False) -> None:
    async def there() -> bool:
        try:
            run = await client.runs.get(run_id)
        except Unavailable:
            return False
        return run.status in wanted and (run.at_rest or not rests)

    await eventually(there, 90)


async def test_runs_in_every_state_outlive_their_server(server: HomeostatServer) -> None:
    hands = Hands()
    hands.hold("plan", "working", "pausing", "forced", "doomed")
    async with Client(server.url) as client:
        worker = Worker(source=HttpTurns(client))
        for name in ("ann", "bob", "kim", "pat", "zoe"):
            worker.host(name, lambda: FunctionAgent(hands.work))
        await worker.open()
        running = asyncio.create_task(worker.run())
        planning = await client.runs.create("plan", planner={"agent": "pat"})
        planned = await client.runs.create("x", tasks=[task("later", agent="zoe")], policy={"apply": "manual"})
        applying = await client.runs.create("x", tasks=[task("working", agent="bob"), task("end", "working")])
        paused = await client.runs.create("x", tasks=[task("pausing", agent="kim"), task("after", "pausing")])
        await hands.begun["pausing"].wait()
        await client.runs.pause(paused.run_id)
        forced = await client.runs.create("x", tasks=[task("forced", agent="ann"), task("last", "forced")])
        await hands.begun["forced"].wait()
        await client.runs.pause(forced.run_id, force=True)
        doomed = await client.runs.create("x", tasks=[task("doomed", agent="ann"), task("never", "doomed")])
        for name in ("plan", "working", "doomed"):
            await hands.begun[name].wait()
        killed = await client.runs.kill(doomed.run_id, reason="enough", actor="bob")
        assert killed.status is RunStatus.KILLED
        await client.runs.press_red_button("smoke", project="other")

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

        stands = {
            run.run_id: (await client.runs.get(run.run_id)).status
            for run in (planning, planned, applying, paused, forced, doomed)
        }
        assert list(stands.values()) == ["planning", "planned", "applying", "paused", "paused", "killed"]
        assert (await client.runs.get(forced.run_id)).tasks == {"waiting": 2}, "nobody works on what was taken by force"
        pressed = (await client.read_json("/v1/red-button"))["pressed"]
        assert [(one["project"], one["reason"]) for one in pressed] == [("other", "smoke")]
        for word in hands.may_end.values():
            word.set()
        await reached(client, planning.run_id, RunStatus.COMPLETED)
        await reached(client, applying.run_id, RunStatus.COMPLETED)
        await reached(client, paused.run_id, RunStatus.PAUSED, rests=True)
        assert "last" not in hands.effects
        await client.runs.apply(planned.run_id)
        for run in (paused, forced):
            await client.runs.resume(run.run_id)
        for run in (planned, paused, forced):
            await reached(client, run.run_id, RunStatus.COMPLETED)
        await reached(client, doomed.run_id, RunStatus.KILLED, rests=True)
        worker.stop()
        await running
    assert "never" not in hands.effects
    once = [name for name in hands.effects if name != "plan"]
    assert len(once) == len(set(once)), f"a step was done twice: {hands.effects}"
    assert {"planned", "later", "working", "end", "pausing", "after", "forced", "last"} <= set(once)


@asynccontextmanager
async def doomed_worker(server: HomeostatServer, diary: Path) -> AsyncGenerator[None]:
    """A worker in a process of its own that has no chance to say goodbye."""
    process = FORKS.Process(target=run_victim.main, args=(server.url, str(diary)))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
        process.close()


async def ledger_of(client: Client, run_id: str) -> list[dict[str, Any]]:
    return (await client.read_json(f"/v1/runs/{run_id}/ledger?limit=500"))["entries"]


def steps_in(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["payload"]["outcome_json"] for entry in entries if entry["kind"] == "step"]


async def test_runs_in_every_state_outlive_their_workers(server: HomeostatServer, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    await asyncio.to_thread(diary.touch)

    async def stored(name: str) -> None:
        async def there() -> bool:
            return f"stored {name}\n" in diary.read_text()

        await eventually(there)

    async with Client(server.url) as client:
        async with doomed_worker(server, diary):

            async def hosted() -> bool:
                heads = (await client.read_json("/v1/heads"))["heads"]
                return {head["agent_id"] for head in heads} >= set(run_victim.AGENTS)

            await eventually(hosted)
            planning = await client.runs.create("plan", planner={"agent": "pat"})
            planned = await client.runs.create("x", tasks=[task("later", agent="zoe")], policy={"apply": "manual"})
            applying = await client.runs.create("x", tasks=[task("working", agent="bob"), task("end", "working")])
            paused = await client.runs.create("x", tasks=[task("pausing", agent="kim"), task("after", "pausing")])
            await stored("pausing")
            await client.runs.pause(paused.run_id)
            forced = await client.runs.create("x", tasks=[task("forced", agent="ann"), task("last", "forced")])
            await stored("forced")
            await client.runs.pause(forced.run_id, force=True)
            doomed = await client.runs.create("x", tasks=[task("doomed", agent="ann"), task("never", "doomed")])
            for name in ("plan", "working", "doomed"):
                await stored(name)

        # Everybody is dead now, and nothing has ended: yet what was done is in the ledgers, and a kill adds the rest.
        for run, wanted in ((applying, "working"), (paused, "pausing"), (forced, "forced")):

            async def told(run_id: str = run.run_id, name: str = wanted) -> bool:
                return steps_in(await ledger_of(client, run_id)) == [f'{{"ok":"{name}"}}']

            await eventually(told)
        await client.runs.kill(doomed.run_id, reason="enough", actor="bob")
        await reached(client, doomed.run_id, RunStatus.KILLED, rests=True)
        entries = await ledger_of(client, doomed.run_id)
        assert steps_in(entries) == ['{"ok":"doomed"}']
        kinds = [entry["kind"] for entry in entries]
        assert kinds.index("step") < kinds.index("turn.ended") < kinds.index("task.ended")
        stands = [(await client.runs.get(run.run_id)).status for run in (planning, planned, applying, paused, forced)]
        assert stands == ["planning", "planned", "applying", "paused", "paused"]

        hands = Hands()
        worker = Worker(source=HttpTurns(client))
        for name in run_victim.AGENTS:
            worker.host(name, lambda: FunctionAgent(hands.work))
        await worker.open()
        running = asyncio.create_task(worker.run())
        await reached(client, planning.run_id, RunStatus.COMPLETED)
        await reached(client, applying.run_id, RunStatus.COMPLETED)
        await reached(client, paused.run_id, RunStatus.PAUSED, rests=True)
        await client.runs.apply(planned.run_id)
        for run in (paused, forced):
            await client.runs.resume(run.run_id)
        for run in (planned, paused, forced):
            await reached(client, run.run_id, RunStatus.COMPLETED)
        worker.stop()
        await running
        for run, names in (
            (applying, ["working", "end"]),
            (paused, ["pausing", "after"]),
            (forced, ["forced", "last"]),
        ):
            found = await ledger_of(client, run.run_id)
            assert steps_in(found) == [f'{{"ok":"{name}"}}' for name in names], "each is told once, in order"
            assert (await client.read_json(f"/v1/runs/{run.run_id}/verify"))["valid"]
    # What was stored before its worker died is not done again.
    assert sorted(hands.effects) == ["after", "end", "last", "later", "planned"]
