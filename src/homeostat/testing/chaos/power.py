"""Power cuts: what was acknowledged before the power went is there when it is back, and the file is whole."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from homeostat.app.stores import open_engine, turn_store
from homeostat.core.errors import Unavailable
from homeostat.core.ids import Chance
from homeostat.testing.chaos import disk
from homeostat.testing.chaos.disk import Disk, Kind, Operation
from homeostat.testing.chaos.journals import acknowledged, effects, heard, lines
from homeostat.testing.history import check
from homeostat.testing.parties import PROJECT

DATABASE = "turns.db"
NOTES = ("told-*.jsonl", "effects-*.jsonl", "heard.jsonl")
CUTS_SHARE = 0.8  # two may fall on one place
ACKNOWLEDGED_MIN = 10
"""Turns that somebody must have been told of in each recording, or its cuts show nothing."""
SYNCS_FIRST = 200
"""The migrations and the first registrations: cuts among them are rare in a long recording, and drawn on purpose."""


@dataclass(slots=True)
class Verdict:
    """What a recording showed."""

    cuts: int = 0
    acknowledged: int = 0
    """Turns that were acknowledged before the latest cut."""
    happened: Counter[str] = field(default_factory=Counter[str])
    failures: Counter[str] = field(default_factory=Counter[str])
    """Writes and syncs that the disk refused."""
    violations: list[str] = field(default_factory=list[str])
    unseen: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        return not self.violations and not self.unseen

    def take(self, failing: "Verdict") -> None:
        """Take in what a disk that failed has shown, where no cut was asked for by itself."""
        self.failures += failing.failures
        self.violations += failing.violations
        self.unseen += failing.unseen


def record(
    folder: Path, library: Path, *, seed: int, seconds: float, fail: str = "", lies: bool = False
) -> list[Operation]:
    """Let a client and a worker in one process work on a disk that remembers, and kill them."""
    root = folder / "root"
    root.mkdir(exist_ok=True)
    journal = folder / "journal"
    store = f"sqlite://{root / DATABASE}"
    arguments = ["both", "--store", store, "--folder", str(root), "--seed", str(seed)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "homeostat.testing.parties", *arguments],
            env=disk.environment(library, root, journal, fail=fail, lies=lies),
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    return list(disk.read(journal))


async def cut(operations: Sequence[Operation], folder: Path, *, seed: int, count: int) -> Verdict:
    """Cut the power at `count` places of a recording, and look at what is left each time."""
    chance = Chance(seed)
    last = len(operations)
    early = min(last, SYNCS_FIRST)
    places = sorted({chance.randrange(1, early if number % 8 == 0 else last) for number in range(count)})
    verdict, platter, followed = Verdict(), Disk(), 0
    for place in places:
        platter.follow(operations[followed:place])
        followed = place
        left = folder / f"cut-{place}"
        left.mkdir()
        platter.cut(left, chance)
        await look(operations[:place], left, verdict, where=f"seed {seed}, cut after operation {place} of {last}")
        for path in left.iterdir():
            path.unlink()
        left.rmdir()
    return verdict


async def look(before: Sequence[Operation], left: Path, verdict: Verdict, *, where: str) -> None:
    """See what is left of a disk after these operations, and hold it against what was acknowledged before."""
    verdict.cuts += 1
    verdict.happened[f"after a {before[-1].kind.name.lower()}"] += 1
    told, ran, ends = (lines(disk.said(before, pattern).values()) for pattern in NOTES)
    known = acknowledged(told)
    verdict.acknowledged = len(known.turns)
    try:
        if _torn(left / DATABASE):
            verdict.happened["the file was torn and mended"] += 1
        engine = await open_engine(f"sqlite://{left / DATABASE}")
        try:
            found = await check(
                turn_store(engine),
                [PROJECT],
                heard=heard(ends),
                acknowledged=known,
                effects=effects(ran),
                at_rest=False,
            )
        finally:
            await engine.close()
    except (sqlite3.DatabaseError, Unavailable) as error:
        verdict.violations.append(f"{where}: the file cannot be read: {error}")
        return
    verdict.violations += [f"{where}: {violation}" for violation in found]


def _torn(path: Path) -> bool:
    """See that the file is whole; whether it has a log to be whole from."""
    mended = path.with_name(f"{path.name}-wal").exists()
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()
    if rows != [("ok",)]:
        raise sqlite3.DatabaseError(str(rows)[:200])
    return mended


def synced(operations: Sequence[Operation]) -> int:
    """How often the disk was asked to keep the database: none means that nothing was recorded at all."""
    return sum(1 for one in operations if one.kind is Kind.SYNC and one.path.startswith(DATABASE))


def campaign(folder: Path, *, seed: int, recordings: int, cuts: int, seconds: float = 4.0) -> Verdict:
    """Several recordings, each cut at many places."""
    library = disk.build(folder)
    whole = Verdict()
    for number in range(recordings):
        one = folder / f"recording-{number}"
        one.mkdir()
        operations = record(one, library, seed=seed + number, seconds=seconds)
        assert synced(operations), "this Python's SQLite does not write through the C library: nothing was recorded"
        verdict = asyncio.run(cut(operations, one, seed=seed + number, count=cuts))
        whole.cuts += verdict.cuts
        whole.acknowledged += verdict.acknowledged
        whole.happened += verdict.happened
        whole.violations += verdict.violations
    whole.unseen += too_seldom(whole, recordings=recordings, cuts=cuts)
    return whole


def too_seldom(verdict: Verdict, *, recordings: int, cuts: int) -> list[str]:
    """What did not happen often enough: of a cut before which nobody was told anything, nothing can be lost."""
    happened = {
        "cuts": (verdict.cuts, int(recordings * cuts * CUTS_SHARE)),
        "turns acknowledged before a cut": (verdict.acknowledged, recordings * ACKNOWLEDGED_MIN),
        "the file was torn and mended": (verdict.happened["the file was torn and mended"], 1),
    }
    return [f"{name}: {often} of {wanted}" for name, (often, wanted) in happened.items() if often < wanted]
