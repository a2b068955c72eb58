"""The power is cut and the disk fails under load; what was acknowledged is on the platter."""

import errno
import os
from pathlib import Path

import pytest

from homeostat.testing.chaos import disk, power, storage

CUTS = int(os.environ.get("HOMEOSTAT_TEST_POWER_CUTS", "16"))
FAILURE_GROWTH = float(os.environ.get("HOMEOSTAT_TEST_FAILURE_GROWTH", "2"))
SEED = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", "1"))

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(disk.compiler() is None, reason="a disk that records needs a C compiler"),
]


def test_what_was_acknowledged_before_the_power_went_is_there_when_it_is_back(tmp_path: Path) -> None:
    verdict = power.campaign(tmp_path, seed=SEED, recordings=1, cuts=CUTS, seconds=2.0)
    assert verdict.violations == []
    assert verdict.unseen == []


def test_whichever_write_or_sync_fails_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    verdict = storage.campaign(tmp_path, seed=SEED, growth=FAILURE_GROWTH)
    assert verdict.violations == []
    assert verdict.unseen == []


def test_a_failing_disk_that_lies_about_its_syncs_is_found_out(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    verdict = storage.campaign(tmp_path, seed=SEED, growth=50.0, lies=True)
    assert verdict.violations


async def test_a_disk_that_lies_about_its_syncs_is_found_out(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    operations = power.record(tmp_path, disk.build(tmp_path), seed=SEED, seconds=1.0, lies=True)
    verdict = await power.cut(operations, tmp_path, seed=SEED, count=6)
    assert verdict.violations


@pytest.mark.parametrize(
    "fail",
    [f"sync 60 {errno.EIO}", f"write 90 {errno.EIO}", f"write 150 {errno.ENOSPC} 40"],
    ids=["a sync fails", "a write fails", "the disk is full for a while"],
)
async def test_what_the_disk_refused_was_not_acknowledged(fail: str, tmp_path: Path) -> None:
    operations = power.record(tmp_path, disk.build(tmp_path), seed=SEED, seconds=1.0, fail=fail)
    verdict = await power.cut(operations, tmp_path, seed=SEED, count=3)
    assert verdict.violations == []
    assert verdict.acknowledged, (tmp_path / "log").read_text()
