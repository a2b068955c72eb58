"""The clock by hand."""

import pytest

from homeostat.testing.clock import EPOCH_MS, ManualClock


def test_time_passes_on_both_clocks_and_jumps_on_one() -> None:
    clock = ManualClock()
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (EPOCH_MS + 1500, 1.5)
    clock.jump(-3600)
    assert (clock.now_ms(), clock.monotonic()) == (EPOCH_MS + 1500 - 3_600_000, 1.5)
    with pytest.raises(AssertionError):
        clock.advance(-1)
