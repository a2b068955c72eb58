"""A slice of the simulator's seeds: every check holds, everything interesting happens, and a seed repeats exactly."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from homeostat.core.clock import Millis
from homeostat.core.records.head import Head
from homeostat.core.records.run import GateState, Start
from homeostat.core.records.writes import Writes
from homeostat.testing.simulation.campaign import Verdict, run
from homeostat.testing.simulation.interest import INTERESTING
from homeostat.testing.simulation.run import Outcome, simulate
from homeostat.testing.simulation.store import RemoteStore
from homeostat.testing.simulation.world import World

SEEDS = 200
PROGRAM = "from homeostat.testing.simulation.run import simulate; print([simulate(s).digest for s in range(900, 906)])"


def test_every_check_holds_and_everything_interesting_happens() -> None:
    verdict = run(range(SEEDS))
    assert [(outcome.seed, outcome.failure) for outcome in verdict.failures] == []
    assert [INTERESTING[name] for name in verdict.unseen] == []


def test_a_seed_repeats_exactly_whatever_the_order_of_sets() -> None:
    digests: set[str] = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        told = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True, env=environment, timeout=100
        )
        digests.add(told.stdout)
    assert len(digests) == 1


def test_seeds_differ() -> None:
    assert len({simulate(seed).digest for seed in range(5)}) == 5


def test_a_failure_tells_its_seed_and_the_last_events() -> None:
    outcome = simulate(3, keep=10)
    assert outcome.failure is None
    assert outcome.seed == 3
    assert 0 < len(outcome.lines) <= 10
    assert outcome.commits > 0


def test_a_save_that_a_killed_run_refuses_is_no_commit() -> None:
    world = World(1)
    world.loop.close()  # nobody lives in it
    run_id, key = world.runs[0], world.agents[0]
    store = RemoteStore(cast("Any", SimpleNamespace(world=world, domain=SimpleNamespace(name="p0"))))
    writes = Writes(new_heads={key: Head.new(*key, Millis(0))}, runs={run_id: Start.TASK})
    world.memory.closed_runs.add(run_id)
    assert store._save(world.memory, writes).refused == ((run_id, GateState.CLOSED),)
    assert world.checks.commits == 0
    assert world.trace.counts["killed_run_refused"] == 1
    assert not world.memory.heads_by_key


def test_a_run_in_which_something_never_happened_has_proved_nothing() -> None:
    verdict = Verdict()
    assert not verdict.ok
    assert set(verdict.unseen) == set(INTERESTING)
    verdict.counts.update(INTERESTING)
    assert verdict.ok
    verdict.add(Outcome(7, "something broke", 0, verdict.counts, (), 0))
    assert not verdict.ok


@pytest.mark.parametrize("arguments", [("--seed", "5"), ("--seeds", "4", "--processes", "1")])
def test_the_command_line_runs_seeds(arguments: tuple[str, ...]) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "homeostat.testing.simulation", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
    )
    if "--seed" in arguments:
        assert told.returncode == 0
        assert "seed 5: every check held (trace " in told.stdout
    else:
        assert told.returncode == 1, "four seeds cannot have seen everything"
        assert "NEVER HAPPENED: " in told.stdout
        assert "4 seeds, 0 failed" in told.stdout
