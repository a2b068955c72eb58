"""What a process does with memory, once it is ready: where not to look for garbage, and what to give back."""

import ctypes
import gc
from contextlib import suppress
from typing import Final

GENERATIONS: Final = (10_000, 10, 10)
"""Records come by the hundred with each flush and die by themselves; looking for cycles among them finds none."""

MMAP_THRESHOLD: Final = -3  # the numbers of <malloc.h>
ARENA_MAX: Final = -8
LARGE_BYTES: Final = 256 << 10
ARENAS: Final = 2


def settle() -> None:
    """A process is ready: what it has by now stays to the end, and what comes from here on mostly does not."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
    _give_back_what_is_large()


def _give_back_what_is_large() -> None:
    """Let glibc map large blocks one by one, so that they are gone when they are freed.

    By itself it ceases to after the first was freed, up to 32 MB: pages for a thousand readers are then cut out of the
    heap, and small blocks that outlive them keep it from shrinking.
    """
    with suppress(OSError, AttributeError):  # another libc has no such thing
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(ARENA_MAX, ARENAS)
