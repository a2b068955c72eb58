"""How well the immune system's detection does on real data, and how fast: the very code that runs in production."""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import _nab, _traces, _traffic
from homeostat.immune.baseline import Baselines
from homeostat.immune.sentinel import Sentinel

TYPICAL: Final = (900.0, 600.0, 500.0, 100.0, 0.01, 2.0, 0.05, 0.02)
FLEETS: Final = (25_000, 50_000, 100_000)
WARM_TICKS, TIMED_TICKS = 34, 7


def speed() -> dict[str, Any]:
    """Processor time of a tick over fleets of several sizes, one thread; the best of several."""
    random = np.random.default_rng(1)
    sizes: dict[str, float] = {}
    per_agent = 0
    for agents in FLEETS:
        fleet = Baselines(capacity=agents)
        rows = np.array([fleet.allot() for _ in range(agents)])
        sentinel = Sentinel(fleet)
        best = float("inf")
        for i in range(WARM_TICKS + TIMED_TICKS):
            samples = random.lognormal(0, 0.4, (agents, len(TYPICAL))).astype(np.float32) * np.array(
                TYPICAL, np.float32
            )
            started = time.process_time()
            sentinel.tick(rows, samples, at=60.0 * i)
            if i >= WARM_TICKS:
                best = min(best, time.process_time() - started)
        sizes[str(agents)] = 1000 * best
        per_agent = fleet.bytes_per_agent
    return {"tick_ms": sizes, "bytes_per_agent": per_agent}


def measure(data: Path) -> dict[str, Any]:
    """Every part whose data is there."""
    report: dict[str, Any] = {"speed": speed()}
    for name, part in (("nab", _nab), ("llm_traffic", _traffic), ("agentdojo", _traces)):
        if (data / name).is_dir():
            report[name] = part.measure(data / name)
        else:
            print(f"skipped {name}: no {data / name}")
    return report


def lines(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The table: what, measured, wanted."""
    ticks = report["speed"]["tick_ms"]
    rows = [
        (f"tick over {int(n):,} agents x 8 vitals", f"{ms:.0f} ms", "<= 150 ms at 100,000") for n, ms in ticks.items()
    ]
    rows.append(("state per agent", f"{report['speed']['bytes_per_agent']} B", "<= 1024 B"))
    if nab := report.get("nab"):
        rows.append(("NAB, standard profile", f"{nab['score']:.1f}", ">= 66"))
        rows.append(("  windows found", f"{nab['windows_found']} of {nab['windows']}", ""))
        rows.append(("  false alarms", f"{nab['false_alarms']} in {nab['samples']:,} samples", ""))
    if traffic := report.get("llm_traffic"):
        rows.append(("LLM traffic, false alarms per 1,000", f"{traffic['false_alarms_per_1000']:.2f}", "<= 0.5"))
        wanted = {"doubled": ">= 98 %", "stuck": ">= 95 %"}
        for fault, seen in traffic["faults"].items():
            name = f"  {fault.replace('_', ' ')}, found within {traffic['found_within_samples']}"
            rows.append((name, f"{seen['found']:.1%} (median {seen['median_samples']:.0f})", wanted.get(fault, "")))
    if traces := report.get("agentdojo"):
        for level, wanted_found in (("alarm", ">= 85 % at <= 1 %"), ("watch", ">= 95 % at <= 5 %")):
            seen = traces["injections"][level]
            text = f"{seen['found']:.1%} at {seen['false_positives']:.2%} false"
            rows.append((f"injections that took hold, {level}", text, wanted_found))
        for label, seen in traces["loops"].items():
            text = f"{seen['recall']:.1%} at {seen['false_positives']:.2%} false, call {seen['median_call']:.0f}"
            rows.append(
                (f"loops: {label.replace('_', ' ')}", text, ">= 93 % at <= 1 %, call 3" if label == "runaway" else "")
            )
    return rows


def run(data: Path | None = None, output: Path | None = None) -> dict[str, Any] | None:
    """Print the table and write the JSON; without data there is nothing to say."""
    data = data or Path(os.environ.get("HOMEOSTAT_BENCH_DATA", "data"))
    if not data.is_dir():
        print(f"detection: skipped, no data at {data} (--data DIR, or HOMEOSTAT_BENCH_DATA)")
        return None
    report = measure(data)
    for what, measured, wanted in lines(report):
        print(f"{what:44} {measured:>34}   {wanted}")
    if output is not None:
        output.write_text(json.dumps(report, indent=1) + "\n")
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.detection", description=__doc__)
    parser.add_argument("--data", type=Path, help="directory with nab/, llm_traffic/ and agentdojo/")
    parser.add_argument("--json", type=Path, help="write the results here")
    asked = parser.parse_args()
    run(asked.data, asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
