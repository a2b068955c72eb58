"""The use cases of isolation by process and by deployment: a real process tree, and a cluster by its recorded API."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from homeostat.adapters.enforcers import proc
from homeostat.adapters.enforcers.cluster import Cluster
from homeostat.adapters.enforcers.kubernetes import KubernetesEnforcer
from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.core.machines.phase import Phase
from homeostat.testing.clinic import clinic
from homeostat.testing.cluster import Deployment, FakeCluster

COUNTING = """
import sys, time
number = 0
while True:
    number += 1
    open(sys.argv[1], "w").write(str(number))
    time.sleep(0.01)
"""


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process that counts into a file as long as it runs."""
    place = tmp_path / "count"
    with subprocess.Popen([sys.executable, "-c", COUNTING, str(place)], start_new_session=True) as process:
        yield process.pid, place
        process.kill()


def count(place: Path) -> str:
    return place.read_text() if place.exists() else ""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def until(holds: Callable[[], bool]) -> None:
    """Look again and again: a process that stops or goes on has no signal for us."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def goes_on(place: Path) -> None:
    before = count(place)
    await until(lambda: count(place) not in ("", before))


async def stopped(pid: int) -> None:
    await until(lambda: state_of(pid) in ("T", "t"))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are held by pidfd, which is Linux's")
async def test_uc_9_a_process_is_frozen_while_its_agent_is_isolated_and_goes_on_after_healing(
    counter: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, place = counter
    async with clinic() as one:
        await one.enrol("ann")
        (processes,) = [way for way in one.system.immune.enforcement.enforcers if isinstance(way, ProcessEnforcer)]
        monkeypatch.setattr(processes, "_groups", False)  # by signals, which need no rights
        await processes.take(one.key("ann"), pid, uid=os.geteuid(), supervises=False)
        await goes_on(place)
        await one.system.immune.quarantine(one.key("ann"), reason="to be sure", actor="eve")
        await one.tick()
        assert one.phase("ann") is Phase.QUARANTINED
        await stopped(pid)
        began = proc.started(pid)
        assert began is not None
        os.kill(pid, signal.SIGCONT)  # anybody of the same user may do that
        await one.system.immune.reconcile()
        await stopped(pid)
        await one.system.immune.heal(one.key("ann"), reason="now", actor="eve")
        assert one.phase("ann") is Phase.PROBATION
        await goes_on(place)
        assert proc.started(pid) == began, "it is the same process"


async def test_uc_10_a_deployment_is_scaled_to_nothing_and_after_healing_to_what_it_was() -> None:
    fake = FakeCluster(Deployment("researcher", "ann", 3, 3), Deployment("other", "bob", 2, 2))
    cluster = Cluster("http://cluster", namespace="agents", transport=fake)
    async with clinic(enforcers=(KubernetesEnforcer(cluster),)) as one:
        await one.enrol("ann", "bob")
        await one.system.immune.quarantine(one.key("ann"), reason="to be sure", actor="eve")
        await one.tick()
        assert one.phase("ann") is Phase.QUARANTINED
        assert {name: found.replicas for name, found in fake.deployments.items()} == {"researcher": 0, "other": 2}
        await one.system.immune.heal(one.key("ann"), reason="now", actor="eve")
        assert one.phase("ann") is Phase.PROBATION
        assert {name: found.replicas for name, found in fake.deployments.items()} == {"researcher": 3, "other": 2}
    await cluster.close()
