"""Wall clocks that jump and a disk that is full, for processes that are started with the library of `world.c`."""

import ctypes
import errno
import mmap
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from homeostat.core.clock import SystemClock
from homeostat.testing.chaos import disk

SOURCE: Final = Path(__file__).with_name("world.c")
_PAGE: Final = struct.Struct("<qq")
_MET: Final = struct.Struct("<qq")


def build(folder: Path) -> Path:
    """The library that processes are started with."""
    return disk.compiled(SOURCE, folder / "world.so")


def follow(path: str) -> None:
    """In a process that was started with the library: live in this world from here on."""
    library = ctypes.CDLL(None)
    assert library.world_follow(path.encode()) == 0, f"{path} cannot be followed"


def tell() -> None:
    """A program that says what world it lives in: how far its clock is ahead, and what its disk answers."""
    real = float(subprocess.check_output(["/bin/date", "+%s"], env={}))
    ahead = SystemClock().now_ms() / 1000 - real
    try:
        Path(sys.argv[1]).write_bytes(b"more")
        answer = "written"
    except OSError as problem:
        answer = errno.errorcode[problem.errno or 0]
    sys.stdout.write(f"{ahead:.0f} {answer}\n")


class World:
    """What one process takes for the time of day and the room on its disk, as the harness turns it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._wall_seconds, self._full = 0.0, False

    @property
    def wall_seconds(self) -> float:
        """How far its wall clock is ahead."""
        return self._wall_seconds

    @wall_seconds.setter
    def wall_seconds(self, seconds: float) -> None:
        self._wall_seconds = seconds
        self._write()

    @property
    def full(self) -> bool:
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        self._full = full
        self._write()

    @property
    def misled(self) -> int:
        """How often somebody read a clock that is wrong."""
        return _MET.unpack_from(self._page, _PAGE.size)[0]

    @property
    def refused(self) -> int:
        """How often somebody was told that there is no room."""
        return _MET.unpack_from(self._page, _PAGE.size)[1]

    def _write(self) -> None:
        self._page[: _PAGE.size] = _PAGE.pack(int(self._wall_seconds * 1e9), int(self._full))
