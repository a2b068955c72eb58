"""`make compare`: measure Homeostat and its peers, and write the page that shows them side by side.

Every cell that was taken is kept in `benchmarks/results/compare.json`: a run that is stopped goes on where it was.
"""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks._compare import detection, footprint, gateways, heartbeats, page, turns
from benchmarks._compare.kept import Cell, Kept
from benchmarks._compare.peers_at import PEERS_AT, Peer, install, python_of, weigh


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the turns, a third of the time")
    parser.add_argument("--data", type=Path, help="directory with nab/; without it detection is left out")
    parser.add_argument("--only", action="append", metavar="CELL", help="cells whose names begin so; may be repeated")
    parser.add_argument("--again", action="store_true", help="take what is kept once more")
    parser.add_argument("--disturbed", action="store_true", help="only those taken while others worked, once more")
    parser.add_argument("--list", action="store_true", help="name the cells, and what of them is kept")
    parser.add_argument("--page", action="store_true", help="only write the page of what is kept")
    options = parser.parse_args()
    kept = Kept()
    table = [cell.name for cell in cells(quick=False, data=Path())]
    wanted = cells(quick=options.quick, data=options.data)
    if options.only:
        wanted = [cell for cell in wanted if cell.name.startswith(tuple(options.only))]
    if options.disturbed:
        wanted = [cell for cell in wanted if cell.name in kept.disturbed()]
    if options.list:
        for cell in wanted:
            print(f"{cell.name:<28}{kept.cells.get(cell.name, {}).get('taken_at', 'not taken')}")
        return 0
    for cell in [] if options.page else wanted:
        kept.take(cell, again=options.again or options.disturbed)
    page.write(kept, missing=[name for name in table if name not in kept.cells])
    if kept.failed:
        print(f"  not taken, try again: {', '.join(kept.failed)}")
    return 1 if kept.failed else 0


def cells(*, quick: bool, data: Path | None) -> list[Cell]:
    """The whole table, what takes longest last."""
    found = [Cell(f"footprint {one.peer.name}", partial(footprint.measure, one)) for one in footprint.SERVERS]
    found += [Cell("footprint portkey", footprint.portkey)]
    found += [Cell(f"weight {peer.name}", partial(weight, peer)) for peer in (*turns.TURN_PEERS[1:], detection.RIVER)]
    found += [Cell("heartbeats", heartbeats.measure)]
    if data is not None:
        found += [Cell("detection", partial(detection.figures, data))]
    found += [Cell(f"gateway {peer}", partial(gateways.measure, peer, quick=quick)) for peer in gateways.PEERS]
    found += [
        Cell(f"turns {engine} {kind} {clients}", partial(turns.measure, engine, kind, clients, quick=quick))
        for engine in ("sqlite", "postgres")
        for kind in ("plain", "tool")
        for clients in turns.LOADS
    ]
    return [replace(cell, quick=quick) for cell in found]


def weight(peer: Peer) -> dict[str, object]:
    install(PEERS_AT, peer)
    one = weigh(python_of(PEERS_AT, peer), peer.name)
    return {"version": one.version, "packages": one.packages, "megabytes": one.megabytes}


if __name__ == "__main__":
    sys.exit(main())
