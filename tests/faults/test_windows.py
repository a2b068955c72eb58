"""However often something begins anew, the window in which an agent was not held is short, and it is written down.

The clock is turned by hand, by what lies between two looks; so what is measured is what is recorded, on real processes.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from homeostat.adapters.enforcers import proc
from homeostat.adapters.enforcers.cgroup import Group
from homeostat.adapters.enforcers.gateway import hold_id
from homeostat.app.settings import Settings
from homeostat.core.records.enforcement import Effect, Hold, Strategy
from homeostat.immune.doctrine import Doctrine
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.clock import ManualClock
from homeostat.testing.holding import ANN

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are held by pidfd, which is Linux's")

WINDOW_SECONDS_MAX: Final = 5.0
LOOK_SECONDS: Final = Doctrine().reconcile_seconds
RESTART_SECONDS: Final = 2.0  # what a server takes to begin, and more than it does

# Comes into custody over the socket, and counts from then on.
AGENT: Final = """
import json, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[2])
link.sendall(json.dumps({"api_key": sys.argv[1]}).encode() + b"\\n")
assert json.loads(link.makefile().readline())["taken"]
print("taken", flush=True)
time.sleep(600)
"""


class Agents:
    """Processes that come into custody one after the other."""

    def __init__(self) -> None:
        self.begun: list[subprocess.Popen[str]] = []

    async def begin(self, one: Clinic, socket: Path) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", AGENT, one.keys["ann"], str(socket)]
        agent = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
        self.begun.append(agent)
        return agent

    def end(self) -> None:
        for agent in self.begun:
            agent.kill()
            agent.communicate()


@pytest.fixture
def agents() -> Iterator[Agents]:
    made = Agents()
    yield made
    made.end()


async def taken(agent: subprocess.Popen[str]) -> None:
    assert agent.stdout is not None
    assert (await asyncio.to_thread(agent.stdout.readline)).strip() == "taken"


async def holds(one: Clinic) -> dict[Strategy, Hold]:
    return {hold.strategy: hold for hold in await one.system.immune.enforcement.store.holds_of(ANN)}


async def frozen(one: Clinic, pid: int) -> bool:
    (custody,) = await one.system.immune.enforcement.store.custodies()
    assert custody.pid == pid
    return Group(Path(custody.cgroup)).frozen if custody.cgroup else proc.state(pid) in proc.STOPPED


async def until_held_again(one: Clinic, pid: int) -> None:
    for _ in range(3_000):
        hold = (await holds(one))[Strategy.PROCESS]
        if hold.gaps and hold.effect is Effect.ENFORCED:
            assert await frozen(one, pid)
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was not taken and held")


async def wake(one: Clinic, pid: int) -> None:
    """What the worst of neighbours can do, who may even thaw a group."""
    (custody,) = await one.system.immune.enforcement.store.custodies()
    if custody.cgroup:
        assert await Group(Path(custody.cgroup)).freeze(frozen=False)
    os.kill(pid, signal.SIGCONT)


def windows(hold: Hold) -> list[float]:
    assert hold.effect is Effect.ENFORCED
    assert hold.gaps_count == len(hold.gaps)
    assert all(gap.until_ms is not None for gap in hold.gaps)
    return [((gap.until_ms or gap.from_ms) - gap.from_ms) / 1000 for gap in hold.gaps]


async def test_no_window_is_longer_than_five_seconds_whoever_begins_anew(tmp_path: Path, agents: Agents) -> None:
    clock, settings, socket = ManualClock(), Settings(data_dir=tmp_path), tmp_path / "custody.sock"
    async with clinic(settings=settings, clock=clock) as one:
        await one.enrol("ann")
        agent = await agents.begin(one, socket)
        await taken(agent)
        await one.system.immune.quarantine(ANN, reason="it loops", actor="ann")
        assert await frozen(one, agent.pid)

        clock.advance(LOOK_SECONDS)  # the agent: it ends a moment after it was looked at, and another one begins
        agent.kill()
        agent.wait()
        agent = await agents.begin(one, socket)
        await until_held_again(one, agent.pid)  # before it hears that it was taken
        assert windows((await holds(one))[Strategy.PROCESS]) == [LOOK_SECONDS]

        clock.advance(LOOK_SECONDS)  # a neighbour, between two looks
        await wake(one, agent.pid)
        await one.system.immune.reconcile()
        assert await frozen(one, agent.pid)

        clock.advance(LOOK_SECONDS)  # the gateway: it lost the rule
        assert await one.system.gateway.drop_policy(ANN[0], hold_id(ANN))
        await one.system.immune.reconcile()
        assert (await one.call("ann")).status == 503
        assert windows((await holds(one))[Strategy.GATEWAY]) == [LOOK_SECONDS]
        await wake(one, agent.pid)
        clock.advance(RESTART_SECONDS)
    async with clinic(settings=settings, clock=clock) as one:  # Homeostat, which was away for a while
        assert await frozen(one, agent.pid), "before anything is served"
        found = await holds(one)
        assert windows(found[Strategy.PROCESS]) == [LOOK_SECONDS, LOOK_SECONDS, RESTART_SECONDS]
        assert windows(found[Strategy.KERNEL]) == [], "what held all the while has no window"
        assert max(window for hold in found.values() for window in windows(hold)) <= WINDOW_SECONDS_MAX


def test_looks_come_often_enough_for_that() -> None:
    """What breaks right after a look is found at the next one, and there is time left to put it right."""
    assert 2 * LOOK_SECONDS < WINDOW_SECONDS_MAX
