"""How well the immune system's detection does on real data: what `homeostat bench detection` measures."""

import os
from pathlib import Path

from homeostat.bench.detection import encoded, lines, measure

NEIGHBOUR = Path("../shared/data")


def run() -> None:
    """Print the table and write the figures; without data there is nothing to say."""
    places = [Path(named)] if (named := os.environ.get("HOMEOSTAT_BENCH_DATA")) else [Path("data"), NEIGHBOUR]
    data = next((place for place in places if place.is_dir()), None)
    if data is None:
        print(f"detection: skipped, no data at {places[0]} (HOMEOSTAT_BENCH_DATA names another place)")
        return
    report = measure(data)
    for what, measured, wanted in lines(report):
        print(f"{what:48} {measured:>34}   {wanted}")
    output = Path(os.environ.get("HOMEOSTAT_BENCH_JSON", "benchmarks/results/detection.json"))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(encoded(report))
    print(f"figures: {output}")


if __name__ == "__main__":
    run()
