"""`make compare`: measure Homeostat and its peers in one run, and write the page that shows them side by side."""

import argparse
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks._compare import detection, turns
from benchmarks._compare.peers_at import PEERS_AT, Peer, Weight, install, python_of, weigh

PAGE = Path("docs/explanation/benchmarks.md")
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the turns")
    parser.add_argument("--data", type=Path, help="directory with nab/; without it detection is left out")
    parser.add_argument("--print", action="store_true", help="show the tables and leave the page as it is")
    options = parser.parse_args()
    for peer in (*turns.TURN_PEERS, detection.RIVER):
        install(PEERS_AT, peer)
    rows = turns.measure(quick=options.quick)
    where = f"{platform.machine()}, {psutil.cpu_count()} cores, Python {platform.python_version()}"
    text = "\n".join(
        [
            f"Measured on {datetime.now(UTC):%Y-%m-%d}: {where}, PostgreSQL from a wheel, everything on one machine.",
            "",
            *turn_tables(rows),
            *weights(),
            *(detection_table(options.data) if options.data else ["Detection was left out: no data was given.", ""]),
        ]
    )
    print(text)
    if not options.print:
        page = PAGE.read_text()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
    return 0


def turn_tables(rows: list[turns.Row]) -> list[str]:
    lines: list[str] = []
    for engine in ("sqlite", "postgres"):
        for kind in ("plain", "tool"):
            chosen = [row for row in rows if (row.engine, row.kind) == (engine, kind)]
            title = "no-op turns" if kind == "plain" else "turns that wait for one tool"
            lines += [f"### {'SQLite' if engine == 'sqlite' else 'PostgreSQL'}, {title} per second", ""]
            lines += ["| | c = 1 | c = 10 | c = 50 | CPU per turn at 50 |", "|---|---:|---:|---:|---:|"]
            floors = {row.clients: row.floor for row in chosen}
            lines.append(f"| bare engine, three commits | {' | '.join(f'{rate:,.0f}' for rate in floors.values())} | |")
            ours = {row.clients: row.rate for row in chosen if row.peer == "homeostat"}
            for peer in dict.fromkeys(row.peer for row in chosen):
                mine = [row for row in chosen if row.peer == peer]
                cells = [_cell(row, ours[row.clients]) for row in mine]
                lines.append(f"| {peer} | {' | '.join(cells)} | {mine[-1].cpu_ms:.2f} ms |")
            lines.append("")
    return lines


def _cell(row: turns.Row, ours: float) -> str:
    return f"{row.rate:,.0f}" + ("" if row.peer == "homeostat" else f" (we: {ours / row.rate:.0f}x)")


def weights() -> list[str]:
    lines = [
        "### What is installed",
        "",
        "| | version | packages | MB | CPU of the first import |",
        "|---|---|---:|---:|---:|",
    ]
    known: list[tuple[str, Weight]] = []
    for peer in (Peer("homeostat", (".",)), *turns.TURN_PEERS[1:], detection.RIVER):
        install(PEERS_AT, peer)
        known.append((peer.name, weigh(python_of(PEERS_AT, peer), peer.name)))
    for name, one in sorted(known, key=lambda pair: pair[1].packages):
        figures = f"{one.packages} | {one.megabytes:.0f} | {one.import_cpu_seconds:.2f} s"
        lines.append(f"| {name} | {one.version} | {figures} |")
    return [*lines, ""]


def detection_table(data: Path) -> list[str]:
    lines = [
        "### Detection on the Numenta streams, standard profile",
        "",
        "| | score | µs a sample | |",
        "|---|---:|---:|---|",
    ]
    found = detection.measure(data)
    lines += [f"| {one.name} | {one.score:.1f} | {one.microseconds:.1f} | {one.note} |" for one in found]
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
