"""A slice of `make chaos`: workers, servers, the bus and the database die while people work on them over HTTP."""

import os
from pathlib import Path

import pytest

from homeostat.core.ids import process_seed
from homeostat.testing.chaos.campaign import campaign

SECONDS = float(os.environ.get("HOMEOSTAT_TEST_FAULT_SECONDS", "4"))


@pytest.mark.timeout(420)
async def test_an_installation_that_is_hurt_keeps_its_promises(tmp_path: Path) -> None:
    seed = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
    goals = {"worker killed": 2, "worker stopped": 1, "bus killed": 1, "store killed": 1, "control plane killed": 2}
    verdict = await campaign("postgres", tmp_path, seed=seed, seconds=SECONDS, goals=goals)
    assert verdict.violations == [], f"seed {seed}: {dict(verdict.counts)}"
    assert verdict.unseen == [], f"seed {seed}: {dict(verdict.counts)}"
    assert verdict.rest_seconds is not None
