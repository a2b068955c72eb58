"""`homeostat exec` and `homeostat worker` under a real server: held, woken by others, treated, killed, and proven."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.records.enforcement import Strategy
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import free_port

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are held by pidfd, which is Linux's")

LOOPER = """
import os, subprocess, sys, time
if len(sys.argv) < 3:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"])
place = sys.argv[1] + ("/child" if len(sys.argv) > 2 else "/parent")
for number in range(60_000):
    open(f"{place}.tmp", "w").write(f"{os.getpid()} {number}")
    os.replace(f"{place}.tmp", place)
    time.sleep(0.01)
"""
AGENT = """
from homeostat import ManagedAgent

class Clerk(ManagedAgent):
    memory_keys = frozenset({"names"})

    async def process(self, turn):
        await self.memory.update("names", ["eve"])
        return "noted"
"""


def eventually(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for something to be so."""
    for _ in range(int(seconds / 0.05)):
        if found := holds():
            return found
        asyncio.run(asyncio.sleep(0.05))
    raise AssertionError("it did not come to that")


class Looper:
    """A command with a child, each of which counts."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.script = place / "looper.py"
        self.script.write_text(LOOPER)

    def read(self, who: str) -> tuple[int, int]:
        try:
            pid, count = (self.place / who).read_text().split()
        except (FileNotFoundError, ValueError):
            return 0, -1
        return int(pid), int(count)

    def runs(self) -> bool:
        before = [self.read("parent"), self.read("child")]
        return bool(
            eventually(lambda: all(self.read(w) != b for w, b in zip(("parent", "child"), before, strict=True)))
        )

    def stands(self) -> bool:
        before = [self.read("parent"), self.read("child")]
        asyncio.run(asyncio.sleep(0.3))
        return before == [self.read("parent"), self.read("child")]


@pytest.fixture
def looper(tmp_path: Path) -> Iterator[Looper]:
    one = Looper(tmp_path)
    yield one
    for who in ("parent", "child"):
        pid = one.read(who)[0]
        with suppress(psutil.Error):  # whoever is gone, or only waits to be buried
            if pid and str(one.script) in " ".join(psutil.Process(pid).cmdline()):
                os.kill(pid, signal.SIGKILL)


def start(tmp_path: Path, url: str, *arguments: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "HOMEOSTAT_URL": url, "XDG_DATA_HOME": str(tmp_path / "xdg")}
    environment["PYTHONPATH"] = str(tmp_path)
    return subprocess.Popen(
        [sys.executable, "-m", "homeostat", *arguments], env=environment, cwd=tmp_path, stderr=stderr
    )


def test_uc_9_a_process_is_held_whoever_wakes_it_or_kills_homeostat(tmp_path: Path, looper: Looper) -> None:
    with HomeostatServer() as server:

        def homeostat(*arguments: str) -> dict[str, Any]:
            command = [sys.executable, "-m", "homeostat", *arguments, "--url", server.url, "-o", "json"]
            return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

        def effect() -> str:
            return httpx2.get(f"{server.url}/v1/agents/looper/receipt", trust_env=False).json()["effect"]

        run = [sys.executable, str(looper.script), str(tmp_path)]
        with start(tmp_path, server.url, "exec", "--agent-id", "looper", "--", *run) as command:
            try:
                assert looper.runs()
                receipt = homeostat("quarantine", "looper", "--reason", "it loops")["receipt"]
                assert (receipt["verb"], receipt["effect"], receipt["tokens_spent"]) == ("quarantine", "enforced", 0)
                assert [one["strategy"] for one in receipt["strategies"]] == ["gateway", "kernel", "process"]
                assert looper.stands()
                for who in ("parent", "child"):
                    os.kill(looper.read(who)[0], signal.SIGCONT)  # a neighbour of the same user
                asyncio.run(asyncio.sleep(0.1))
                eventually(lambda: effect() == "enforced")
                eventually(looper.stands)
                server.kill()
                for who in ("parent", "child"):
                    os.kill(looper.read(who)[0], signal.SIGCONT)
                server.start()
                assert looper.stands(), "it was held again before the server said that it is up"
                assert homeostat("receipt", "looper")["effect"] == "enforced"
                released = homeostat("release", "looper")["receipt"]
                assert {one["wanted"] for one in released["strategies"]} == {"open"}
                assert released["effect"] == "enforced"
                assert looper.runs()
                pids = [looper.read("parent")[0], looper.read("child")[0]]
                killed = homeostat("kill", "looper", "--reason", "enough")
                assert (killed["killed"], killed["receipt"]["effect"]) == (True, "enforced")
                assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
                assert command.wait(timeout=60) != 0
                eventually(lambda: effect() == "enforced")
                again = start(tmp_path, server.url, "exec", "--agent-id", "looper", "--", *run, stderr=subprocess.PIPE)
                said = again.communicate(timeout=60)[1].decode()
                assert "looper was killed (enough)" in said, "and so nobody wonders why it ends at once"
                assert "homeostat release looper" in said
                assert again.returncode != 0
            finally:
                command.kill()


async def test_an_agent_is_reset_by_its_supervisor_and_treated_by_its_worker(tmp_path: Path, looper: Looper) -> None:
    (tmp_path / "clerks.py").write_text(AGENT)
    listener = bind("127.0.0.1", free_port())
    async with assemble(Settings(data_dir=tmp_path / "data")) as system, serving(system, listener):
        url = url_of(listener)
        remedies = system.immune.remedies
        run = [sys.executable, str(looper.script), str(tmp_path)]
        command = start(tmp_path, url, "exec", "--agent-id", "looper", "--", *run)
        worker = start(tmp_path, url, "worker", "clerks:Clerk", "--agent-id", "clerk")
        shared = start(tmp_path, url, "worker", "clerks:Clerk", "--agent-id", "cain", "--agent-id", "abel")
        try:
            assert await asyncio.to_thread(looper.runs)
            before = looper.read("parent")[0]
            key = (DEFAULT_PROJECT, AgentId("looper"))
            applied, note = await remedies.apply(key, RemedyAction.RESET_AGENT, "it loops")
            assert applied is Applied.APPLIED, note
            assert await asyncio.to_thread(eventually, lambda: looper.read("parent")[0] != before)
            assert command.poll() is None, "its supervisor goes on"

            clerk = (DEFAULT_PROJECT, AgentId("clerk"))
            store = system.immune.enforcement.store
            for _ in range(600):
                if await store.control(clerk) is not None:
                    break
                await asyncio.sleep(0.1)
            await system.memory.keep(clerk, {"names": '["eve"]'}, system.clock.now_ms())  # pyright: ignore[reportArgumentType] - JSON as text
            applied, note = await remedies.apply(clerk, RemedyAction.RESET_MEMORY, "it dreams")
            assert (applied, note) == (Applied.APPLIED, "1 remembered values were forgotten")
            assert await system.memory.recall(clerk) == {}
            await system.immune.quarantine(clerk, reason="it dreams", actor="ann")
            assert psutil.Process(worker.pid).status() in {"stopped", "sleeping"}
            receipt = await system.immune.enforcement.receipt(clerk)
            assert (receipt.effect, len(receipt.holds)) == ("enforced", 3)
            await system.immune.release(clerk, reason="", actor="ann")
            applied, note = await remedies.apply(clerk, RemedyAction.RESET_AGENT, "")
            assert (applied, "begin its process again" in note) == (Applied.NOT_APPLICABLE, True)
            await _a_shared_worker_is_not_stopped(system, shared.pid)
            await _who_lost_his_supervisor_is_known_by_his_mark(system, command, looper)
        finally:
            for process in (command, worker, shared):
                process.terminate()
                await asyncio.to_thread(process.wait, 30)


async def _who_lost_his_supervisor_is_known_by_his_mark(
    system: System, command: subprocess.Popen[bytes], looper: Looper
) -> None:
    """Whoever `homeostat exec` started is found after it was killed, by a server that never saw him."""
    command.kill()
    command.wait()
    processes = ProcessEnforcer(store=system.immune.enforcement.store, clock=system.clock, groups=False)
    await processes.open()
    members = {one.pid for one in processes.members((DEFAULT_PROJECT, AgentId("looper")))}
    assert members == {looper.read("parent")[0], looper.read("child")[0]}


async def _a_shared_worker_is_not_stopped(system: System, pid: int) -> None:
    """One of two agents of a worker is held at the gates alone, and the receipt says why."""
    cain, abel = (DEFAULT_PROJECT, AgentId("cain")), (DEFAULT_PROJECT, AgentId("abel"))
    for key in (cain, abel):
        for _ in range(600):
            if await system.immune.enforcement.store.control(key) is not None:
                break
            await asyncio.sleep(0.1)
    await system.immune.quarantine(cain, reason="it strikes", actor="ann")
    receipt = await system.immune.enforcement.receipt(cain)
    assert [hold.strategy for hold in receipt.holds] == [Strategy.GATEWAY, Strategy.KERNEL]
    ((strategy, why),) = receipt.apart
    assert (strategy, f"process {pid} hosts 2 agents" in why) == (Strategy.PROCESS, True)
    assert psutil.Process(pid).status() != psutil.STATUS_STOPPED
