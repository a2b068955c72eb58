"""The garbage collector, told what it need not look at and how often to look at the rest."""

import gc
from typing import Final

GENERATIONS: Final = (10_000, 10, 10)
"""Records come by the hundred with each flush and die by themselves; looking for cycles among them finds none."""


def settle() -> None:
    """A process is ready: what it has by now stays to the end, and what comes from here on mostly does not."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
