"""What every turn store promises: put each of `CHECKS` to a store that is empty."""

from homeostat.testing.suites import turn_atomicity, turn_boxes, turn_ended_boxes, turn_reads, turn_saves, turn_sweeps
from homeostat.testing.suites.turn_records import Check, OpenStore

__all__ = ["CHECKS", "Check", "OpenStore"]

CHECKS: tuple[Check, ...] = (
    *turn_saves.CHECKS,
    *turn_atomicity.CHECKS,
    *turn_reads.CHECKS,
    *turn_boxes.CHECKS,
    *turn_sweeps.CHECKS,
    *turn_ended_boxes.CHECKS,
)
