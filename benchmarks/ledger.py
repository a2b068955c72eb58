"""Ledgers: appends beside bare inserts, checks beside bare SHA-256, replays, and how it grows to a million entries.

Rates are entries per second of this process' CPU time; `HOMEOSTAT_BENCH_QUICK=1` takes smaller samples.
"""

import asyncio
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from benchmarks._measure import Report, cpu_seconds, heading, resident_bytes
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.ledger import put_lines
from homeostat.core.clock import Millis
from homeostat.core.codec import from_json
from homeostat.core.ids import DEFAULT_PROJECT, RunId, chance
from homeostat.core.records.provenance import START, Chain, Entry, EntryKind, Tip
from homeostat.runs.bundle import Bundle, Header, Packer, Page, read_bundle
from homeostat.runs.heads import Ed25519Signer, Head, Marks, sign
from homeostat.runs.replaying.replay import replay
from homeostat.runs.verify import Walk, verify
from homeostat.testing.recorded_runs import acts_of, finding, record, studio

QUICK = os.environ.get("HOMEOSTAT_BENCH_QUICK") == "1"
SIZES = (1_000, 10_000, 100_000) if QUICK else (1_000, 10_000, 100_000, 1_000_000)
APPENDS = 20_000
TOGETHER = 100  # entries that share a transaction, as those of a few tasks do
RUN = RunId("run_" + "0" * 24)
PAYLOAD = {
    "turn_id": "turn_0123456789abcdef01234567",
    "call_id": "call_1",
    "tool": "search",
    "status": "success",
    "after_execution": "suspend",
    "args_json": '{"query":"the moon","limit":10}',
    "result_json": '{"found":["a sea","a mountain","another sea"],"took_ms":12.5}',
}


def run() -> None:
    """Print and keep how fast ledgers are."""
    report = Report("ledger")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_appends(report, Path(folder)))
        for size in SIZES:
            _growth(report, Path(folder), size)
        asyncio.run(_replays(report))
    report.write()


def _lines(tip: Tip, count: int) -> tuple[list[str], Tip]:
    chain = Chain(DEFAULT_PROJECT, RUN, tip)
    for _ in range(count):
        chain.add(EntryKind.TOOL_RESULT, PAYLOAD, at_ms=Millis(1_700_000_000_000))
    return chain.lines, chain.tip


async def _appends(report: Report, folder: Path) -> None:
    heading(f"appends: {APPENDS} entries on SQLite, {TOGETHER} a transaction")
    engine = SqliteEngine(folder / "appends.db")
    await engine.open()
    chain = Chain(DEFAULT_PROJECT, RUN)
    for _ in range(TOGETHER):
        chain.add(EntryKind.TOOL_RESULT, PAYLOAD, at_ms=Millis(1_700_000_000_000))
    rows = [tuple(_row(entry)) for entry in chain.entries]
    await engine.write(_bare_table)

    cpu = cpu_seconds()
    for start in range(0, APPENDS, TOGETHER):
        batch = [(start + n, *row) for n, row in enumerate(rows)]
        await engine.write(lambda connection, batch=batch: _insert(connection, batch))
    bare = APPENDS / (cpu_seconds() - cpu)

    cpu, tip = cpu_seconds(), START
    for _ in range(0, APPENDS, TOGETHER):
        first = tip.next_seq
        lines, tip = _lines(tip, TOGETHER)
        await engine.write(lambda connection, first=first, lines=lines: _append(connection, first, lines))
    ours = APPENDS / (cpu_seconds() - cpu)
    report.add("appends/s of cpu", bare_inserts=bare, ledger=ours, ratio=ours / bare)
    cpu = cpu_seconds()
    _lines(START, APPENDS)
    report.add("made and hashed/s of cpu", ledger=APPENDS / (cpu_seconds() - cpu))
    await engine.close()


def _row(entry: Entry) -> Sequence[object]:
    return (entry.run_id, entry.kind, entry.at_ms, entry.payload, entry.hash)


def _bare_table(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE bare (n INTEGER PRIMARY KEY, run_id, kind, at_ms, payload, hash)")


def _insert(connection: sqlite3.Connection, batch: list[tuple[object, ...]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO bare VALUES (?, ?, ?, ?, ?, ?)", batch)
    connection.execute("COMMIT")


def _append(connection: sqlite3.Connection, first_seq: int, lines: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    put_lines(connection, DEFAULT_PROJECT, RUN, first_seq, lines)
    connection.execute("COMMIT")


def _growth(report: Report, folder: Path, size: int) -> None:
    heading(f"a bundle of {size:,} entries")
    path = folder / f"{size}.homeostat"
    _write(path, size)
    blobs = 0
    sample: Page = []
    for page in cast("Iterator[Page]", read_bundle(path).pages):
        sample = sample or page
        blobs += sum(map(len, page))
    cpu = cpu_seconds()
    done = 0
    while done < size:
        for line in sample:
            hashlib.sha256(line).digest()
        done += len(sample)
    bare = done / (cpu_seconds() - cpu)
    before = resident_bytes()
    cpu = cpu_seconds()
    verdict = verify(read_bundle(path))
    spent = cpu_seconds() - cpu
    assert verdict.ok, verdict
    report.add(
        f"verify {size}",
        entries_per_s=size / spent,
        bare_sha256=bare,
        file_mb=path.stat().st_size / 1e6,
        raw_mb=blobs / 1e6,
        memory_grew_mb=(resident_bytes() - before) / 1e6,
    )


def _write(path: Path, size: int) -> None:
    """A signed bundle, written as a server streams one: the ledger is gone through twice."""
    marks = Marks()
    walk = Walk(DEFAULT_PROJECT, RUN, [], collected=marks)
    for page in _pages(size):
        walk.take(page)
    signer = Ed25519Signer(b"\7" * 32)
    head = Head(
        project=DEFAULT_PROJECT,
        run_id=RUN,
        size=size,
        root=walk.tree.root().hex(),
        last=walk.last,
        at_ms=Millis(1),
        stride=marks.stride,
        marks=marks.text(),
        public_key=signer.public_key,
    )
    packer = Packer()
    with path.open("wb") as file:
        file.write(packer.begin(Header(project=DEFAULT_PROJECT, run_id=RUN, heads=(sign(head, signer),))))
        for page in _pages(size):
            file.write(packer.add(page))
        file.write(packer.end())


def _pages(size: int) -> Iterator[Page]:
    tip = START
    for _ in range(0, size, 1_000):
        lines, tip = _lines(tip, 1_000)
        yield [line.encode() for line in lines]


async def _replays(report: Report) -> None:
    heading("replays of recorded turns, the chain checked as they go")
    for acts_count in (5, 50):
        acts = acts_of(chance("bench", acts_count), acts_count, ("step", "tool", "card", "model"))
        async with studio() as bench:
            (entries,) = await record(bench, [acts])
        tape = entries[1:]  # without the run's own first entry
        turns = max(1, (2_000 if QUICK else 20_000) // len(tape))
        chain = Chain(DEFAULT_PROJECT, RUN)
        chain.add(EntryKind.RUN_CREATED, {"goal": "bench"}, at_ms=Millis(1))
        lines = list(_repeated(chain, tape, turns))  # made beforehand, so that only the replay is measured
        bundle = Bundle(Header(project=DEFAULT_PROJECT, run_id=RUN, heads=()), iter(lines))
        before, cpu = resident_bytes(), cpu_seconds()
        told = await replay(bundle, finding(acts))
        spent = cpu_seconds() - cpu
        assert told.identical, told
        report.add(
            f"replay, {len(tape)} entries a turn",
            entries_per_s=told.entries / spent,
            turns_per_s=told.turns / spent,
            entries=told.entries,
            memory_grew_mb=(resident_bytes() - before) / 1e6,
        )


def _repeated(chain: Chain, tape: Sequence[Entry], turns: int) -> Iterator[Page]:
    """The same turn again and again, as the tasks of one long run."""
    yield [line.encode() for line in chain.lines]
    for _ in range(turns):
        chain.lines.clear()
        for entry in tape:
            chain.add(EntryKind(entry.kind), _payload(entry), at_ms=entry.at_ms)
        yield [line.encode() for line in chain.lines]


def _payload(entry: Entry) -> object:
    return from_json(entry.payload)
