"""A control group of one's own for an agent's processes: frozen as a whole, and not to be thawed by a neighbour."""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from homeostat.core.ids import digest_of

FREEZE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Group:
    """One directory of a cgroup v2 tree."""

    path: Path

    @property
    def exists(self) -> bool:
        return (self.path / "cgroup.freeze").exists()

    @property
    def frozen(self) -> bool:
        """What the kernel says, not what was written."""
        try:
            lines = (self.path / "cgroup.events").read_text().splitlines()
        except OSError:
            return False
        return "frozen 1" in lines

    @property
    def members(self) -> set[int]:
        """Everybody in it and below it."""
        found: set[int] = set()
        for listing in (self.path / "cgroup.procs", *self.path.glob("*/**/cgroup.procs")):
            with suppress(OSError):
                found.update(int(pid) for pid in listing.read_text().split())
        return found

    async def freeze(self, *, frozen: bool) -> bool:
        """Freeze or thaw; whether it took effect in time."""
        (self.path / "cgroup.freeze").write_text("1" if frozen else "0")
        for _ in range(int(FREEZE_SECONDS / _POLL_SECONDS)):
            if self.frozen is frozen:
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False

    def remove(self) -> None:
        """Give it back; one that is not empty stays."""
        with suppress(OSError):
            self.path.rmdir()


def mount() -> Path | None:
    """Where the cgroup v2 tree is, whether it stands alone or beside the old ones."""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, behind = line.partition(" - ")
            if behind.split(" ", 1)[0] == "cgroup2":
                return Path(before.split()[4])
    return None


def make(name: str, *, uid: int) -> Group | None:
    """A group below our own, if this process may have one; whoever's processes belong in it may put them there."""
    root = mount()
    if root is None:
        return None
    try:
        own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        path = root / own.removeprefix("0::").lstrip("/") / f"homeostat-{digest_of(name)}"
        path.mkdir(exist_ok=True)
        if not (path / "cgroup.freeze").exists():  # a kernel that cannot freeze groups of this kind
            path.rmdir()
            return None
        if uid != os.geteuid():
            os.chown(path / "cgroup.procs", uid, -1)
    except (OSError, StopIteration):
        return None
    return Group(path)
