"""What is large is given back when it is freed, and not kept by what is small and came later."""

import ctypes
import subprocess
import sys

import pytest

LOOK = """
import ctypes
from homeostat.core import collector

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena ordblks smblks hblks hblkhd usmblks fsmblks "
                                                     "uordblks fordblks keepcost").split()]

look = ctypes.CDLL(None).mallinfo2
look.restype = Info
if {settles}:
    collector.settle()
bytes(bytearray(8 << 20))  # the first that is freed raises the bound, if nobody keeps it down
before = look().hblkhd
large = [bytearray(1 << 20) for _ in range(8)]
print((look().hblkhd - before) >> 20)
"""


def glibc_tells() -> bool:
    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallinfo2")


@pytest.mark.skipif(not glibc_tells(), reason="only glibc is told so, and tells of it since 2.33")
@pytest.mark.parametrize(("settles", "mapped"), [(True, 8), (False, 0)])
def test_large_blocks_are_mapped_one_by_one(settles: bool, mapped: int) -> None:  # noqa: FBT001 - a parameter
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(settles=settles)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) == mapped, done.stderr
