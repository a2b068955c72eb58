"""Homeostat is killed while an agent is isolated: after its restart the block stands before anything is served."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from homeostat.adapters.enforcers import cgroup, proc
from homeostat.adapters.upstreams.simulated.faults import FaultyUpstream
from homeostat.app.assemble import assemble
from homeostat.app.holding import StandIns
from homeostat.app.settings import Settings
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Strategy
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AgentKey
from homeostat.testing.clinic import DOCTRINE
from homeostat.testing.gateways import Booth, Keys

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are held by pidfd, which is Linux's")

ANN: AgentKey = (DEFAULT_PROJECT, AgentId("ann"))
P = Phase

# Comes into custody over the socket, and counts from then on.
AGENT = """
import json, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[2])
link.sendall(json.dumps({"api_key": sys.argv[1]}).encode() + b"\\n")
assert json.loads(link.makefile().readline())["taken"]
print("taken", flush=True)
for number in range(12_000):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("phase", [P.DRAINING, P.QUARANTINED, P.HEALING, P.EXHAUSTED])
async def test_a_block_stands_before_anything_is_served(tmp_path: Path, phase: Phase) -> None:
    victim = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(Path(__file__).with_name("holding_victim.py")), str(tmp_path), phase.value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert victim.stdin is not None
    key, place = victim.stdout.readline().split()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, key, place], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline().strip() == "taken"
        victim.stdin.write("\n")
        victim.stdin.flush()
        assert victim.stdout.readline().strip() == "brought"
        victim.kill()
        victim.wait()
        os.kill(agent.pid, signal.SIGCONT)  # the chance of a neighbour
        await _look(tmp_path, phase, agent.pid, key)
    finally:
        for process in (victim, agent):
            process.kill()
            process.communicate()


async def _look(data_dir: Path, phase: Phase, pid: int, key: str) -> None:
    stand_ins = StandIns(doctrine=DOCTRINE, simulated=FaultyUpstream())
    async with assemble(Settings(data_dir=data_dir), stand_ins=stand_ins) as system:
        # The lease of the one that was killed has not run out: this process does not decide, and holds all the same.
        assert system.immune.phase_of(ANN) is phase
        booth = Booth(system.gateway, Keys({}), system.bus, system.gateway.store, FaultyUpstream())
        assert (await booth.chat("hello", key=key)).status == 503
        head = await system.kernel.store.head(*ANN)
        assert head is not None
        assert head.head.gate is (Gate.DRAINING if phase is P.DRAINING else Gate.CLOSED)
        holds = {hold.strategy: hold for hold in await system.immune.enforcement.store.holds_of(ANN)}
        assert {hold.effect for hold in holds.values()} == {Effect.ENFORCED}
        (custody,) = await system.immune.enforcement.store.custodies()
        group = cgroup.Group(Path(custody.cgroup or "nowhere"))
        frozen = group.frozen if group.exists else proc.state(pid) == "T"
        assert frozen is (phase in {P.QUARANTINED, P.EXHAUSTED}), holds[Strategy.PROCESS]
        if phase in {P.QUARANTINED, P.EXHAUSTED}:
            await system.immune.release(ANN, reason="", actor="ann")
            assert proc.state(pid) in "SR"
            assert (await system.immune.enforcement.receipt(ANN)).effect is Effect.ENFORCED
