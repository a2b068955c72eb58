"""The N-th write or sync of a small history fails, N = 1, 2, 3, …, and the power is cut at its end.

What was acknowledged is there, and all that was sent comes to its end: in the process that met the failure, or in
one that is started again where that one gave up.
"""

import asyncio
import ctypes
import errno
import os
import select
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from homeostat.core.ids import Chance
from homeostat.testing import parties
from homeostat.testing.chaos import disk
from homeostat.testing.chaos.disk import Disk, Kind, Operation
from homeostat.testing.chaos.power import DATABASE, Verdict, look
from homeostat.testing.chaos.zygote import Zygote

ERRORS: Final[Mapping[str, Sequence[int]]] = {"write": (errno.EIO, errno.ENOSPC), "sync": (errno.EIO,)}
FAILED: Final = (Kind.FAILED_WRITE, Kind.FAILED_SYNC)
HISTORY: Final = ("--agents", "2", "--streams", "2", "--messages", "2")
GAVE_UP: Final = "gave up, and were started again"
LIFE_SECONDS: Final = 60.0
FAILURES_MIN: Final[Mapping[str, int]] = {"write": 5, "sync": 3}
"""Or the history was too small to show anything."""


def main() -> None:
    """In the process whose disk fails."""
    root, journal, fail, seed = sys.argv[1:]
    ctypes.CDLL(None).disk_begin(root.encode(), journal.encode(), fail.encode())
    store = f"sqlite://{Path(root) / DATABASE}"
    sys.argv = ["parties", "both", "--store", store, "--folder", root, "--seed", seed, *HISTORY]
    parties.main()


def numbers(growth: float) -> Iterator[int]:
    """1, 2, 3, … for ever: without `growth` each, with it fewer and fewer of the later ones."""
    number = 1
    while True:
        yield number
        number += max(1, int(number * growth))


def campaign(folder: Path, *, seed: int, growth: float = 0.0, lies: bool = False) -> Verdict:
    """Writes and then syncs of a history, one after the other, until none is left that could fail."""
    verdict = Verdict()
    zygote = Zygote(disk.build(folder))
    try:
        for kind, errors in ERRORS.items():
            for number in numbers(growth):
                one = folder / f"{kind}-{number}"
                one.mkdir()
                fail = f"{kind} {number} {errors[number % len(errors)]}"
                if not asyncio.run(_fail(zygote, one, seed, fail, verdict, lies=lies)):
                    break
                verdict.failures[kind] += 1
                shutil.rmtree(one)
    finally:
        zygote.close()
    verdict.unseen += too_seldom(verdict)
    return verdict


def too_seldom(verdict: Verdict) -> list[str]:
    """What did not happen often enough."""
    seldom = [
        f"{kind}s that failed: {verdict.failures[kind]} of {wanted}"
        for kind, wanted in FAILURES_MIN.items()
        if verdict.failures[kind] < wanted
    ]
    return seldom + ([] if verdict.acknowledged else ["turns acknowledged on a disk that failed: 0 of 1"])


async def _fail(zygote: Zygote, folder: Path, seed: int, fail: str, verdict: Verdict, *, lies: bool) -> bool:
    """Whether there was such a write or sync; if so, what became of it is in the verdict."""
    root, journal, where = folder / "root", folder / "journal", f"seed {seed}, {fail}"
    root.mkdir()
    orderly = await _live(zygote, folder, fail, seed, lies=lies)
    operations = list(disk.read(journal))
    failed = next((at for at, one in enumerate(operations) if one.kind in FAILED), None)
    if failed is not None and not orderly:
        verdict.happened[GAVE_UP] += 1
        orderly = await _live(zygote, folder, "", seed + 1, lies=lies)
        operations = list(disk.read(journal))
    if not orderly:
        last_words = (folder / "log").read_text(errors="replace")[-500:]
        verdict.violations.append(f"{where}: finally_all_comes_to_rest: it did not: {last_words}")
    if failed is None:
        return False
    chance = Chance(seed)
    before = verdict.acknowledged
    for place in sorted({chance.randrange(failed, len(operations)) + 1, len(operations)}):
        await _cut(operations[:place], folder / f"cut-{place}", chance, verdict, where=f"{where}, cut after {place}")
    verdict.acknowledged += before
    return True


async def _cut(operations: Sequence[Operation], left: Path, chance: Chance, verdict: Verdict, *, where: str) -> None:
    await asyncio.to_thread(left.mkdir)
    platter = Disk()
    platter.follow(operations)
    platter.cut(left, chance)
    await look(operations, left, verdict, where=where)


async def _live(zygote: Zygote, folder: Path, fail: str, seed: int, *, lies: bool) -> bool:
    """One life; whether it came to its end by itself, with everything done."""
    with (folder / "log").open("ab") as log:
        arguments = [str(folder / "root"), str(folder / "journal"), fail, str(seed)]
        settings = {"DISK_LIES": "1"} if lies else {}
        entry = "homeostat.testing.chaos.storage:main"
        pid = zygote.fork(entry, arguments, settings=settings, stdout=log.fileno(), stderr=log.fileno())
    return await asyncio.to_thread(_wait, zygote, pid)


def _wait(zygote: Zygote, pid: int) -> bool:
    pidfd = os.pidfd_open(pid)
    try:
        ended = bool(select.select([pidfd], [], [], LIFE_SECONDS)[0])
        if not ended:
            os.kill(pid, 9)
    finally:
        os.close(pidfd)
    return zygote.bury(pid) == 0 and ended
