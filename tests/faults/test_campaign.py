"""A slice of `make chaos`: every kind of process and server dies once, and a few more things go wrong by the seed."""

import os
from pathlib import Path

import pytest

from homeostat.core.ids import Chance, process_seed
from homeostat.testing.chaos import disk
from homeostat.testing.chaos.campaign import RACES, RACES_ON_A_BUS, Ask, campaign
from homeostat.testing.chaos.faults import JUMPS, TROUBLES
from homeostat.testing.chaos.installation import Size

SECONDS = float(os.environ.get("HOMEOSTAT_TEST_FAULT_SECONDS", "5"))
SEED = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
DEATHS = ("worker", "server", "gateway", "immune", "store", "bus", "status")
SOME = 6
LINKS = ("store", "bus", "status", "upstream")
RARE = {
    *("approvals answered by two at once", "results that came too late", "calls without an answer"),
    *("calls answered 402", "calls of an isolated agent refused"),
    *("turns held back from an isolated agent", "stalled workers who woke to turns of others"),
    *("remedies answered by two at once", "remedies executed"),
}
"""What a slice may be too short for; the campaign is not."""


@pytest.mark.timeout(600)
async def test_an_installation_that_is_hurt_keeps_its_promises(tmp_path: Path) -> None:
    others = [f"{link} link {trouble}" for link in LINKS for trouble in TROUBLES]
    worlds = disk.compiler() is not None
    others += JUMPS if worlds else ()
    others += [f"{title} stopped" for title in ("server", "gateway", "immune")]
    goals = {f"{name} killed": 1 for name in DEATHS} | {"worker killed": 4, "worker stopped": 3}
    goals |= dict.fromkeys(Chance(SEED).sample(others, SOME), 1)
    size = Size(workers=3, gateways=1, agents=20, streams=12, worlds=worlds)
    verdict = await campaign(Ask("postgres", SEED, SECONDS, goals=goals, size=size), tmp_path)
    story = f"seed {SEED}: {dict(verdict.counts)}"
    assert verdict.violations == [], story
    unseen = [name for name in verdict.unseen if name.partition(":")[0] not in RARE]
    assert unseen == [], story
    assert verdict.rest_seconds is not None
    assert {*RACES, *RACES_ON_A_BUS} >= RARE
