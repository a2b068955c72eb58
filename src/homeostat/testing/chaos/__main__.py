"""`python -m homeostat.testing.chaos`: hurt an installation on purpose and see what it keeps."""

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from homeostat.core.ids import process_seed
from homeostat.testing.chaos import disk, power
from homeostat.testing.chaos.campaign import Verdict, campaign
from homeostat.testing.chaos.scene import STORES

RECORDING_CUTS = 25
VIOLATIONS_TOLD_MAX = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m homeostat.testing.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults go on, for each engine")
    parser.add_argument("--seed", type=int, default=process_seed())
    parser.add_argument("--engine", choices=[*STORES, "all"], default="all")
    parser.add_argument("--power-cuts", type=int, default=50)
    parser.add_argument("--worker-kills", type=int, default=0, help="go on until as many workers were killed")
    parser.add_argument("--stalls", type=int, default=0)
    parser.add_argument("--store-kills", type=int, default=0)
    parser.add_argument("--server-kills", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    say(f"seed {options.seed}")
    sound = cut_power(options)
    goals = {
        "worker killed": options.worker_kills,
        "worker stopped": options.stalls,
        "store killed": options.store_kills,
        "control plane killed": options.server_kills,
    }
    for engine in STORES if options.engine == "all" else [options.engine]:
        wanted = {name: count for name, count in goals.items() if engine == "postgres" or name != "store killed"}
        with tempfile.TemporaryDirectory(prefix="homeostat-chaos-") as folder:
            verdict = asyncio.run(
                campaign(engine, Path(folder), seed=options.seed, seconds=options.minutes * 60, goals=wanted)
            )
        report(verdict)
        sound = sound and verdict.ok
    say("nothing was lost" if sound else "SOMETHING DOES NOT HOLD")
    return 0 if sound else 1


def cut_power(options: argparse.Namespace) -> bool:
    if not options.power_cuts:
        return True
    if disk.compiler() is None:
        say("power cuts are left out: there is no C compiler")
        return True
    recordings = -(-options.power_cuts // RECORDING_CUTS)
    with tempfile.TemporaryDirectory(prefix="homeostat-chaos-") as folder:
        verdict = power.campaign(Path(folder), seed=options.seed, recordings=recordings, cuts=RECORDING_CUTS)
    say(f"power cuts: {verdict.cuts}, {verdict.acknowledged} turns acknowledged before, {dict(verdict.happened)}")
    say(*verdict.violations[:VIOLATIONS_TOLD_MAX])
    return not verdict.violations


def report(verdict: Verdict) -> None:
    say(f"{verdict.engine}: {verdict.seconds:.0f} s of faults, at rest after {verdict.rest_seconds or -1:.1f} s")
    say(*(f"{count:9d}  {name}" for name, count in sorted(verdict.counts.items())))
    say(*(f"BROKEN {violation}" for violation in verdict.violations[:VIOLATIONS_TOLD_MAX]))
    say(*(f"NEVER HAPPENED: {name}" for name in verdict.unseen))


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
