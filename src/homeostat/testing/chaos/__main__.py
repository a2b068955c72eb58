"""`python -m homeostat.testing.chaos`: hurt installations on purpose and see what they keep."""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from homeostat.core.clock import SystemClock
from homeostat.core.ids import process_seed
from homeostat.testing.chaos import disk, plans, power, report, storage
from homeostat.testing.chaos.campaign import Verdict, campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m homeostat.testing.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults go on, for each engine")
    parser.add_argument("--seed", type=int, default=process_seed())
    parser.add_argument("--engine", choices=[*plans.ENGINES, "all"], default="all")
    parser.add_argument("--power-cuts", type=int, default=50, help="0 leaves out writes and syncs that fail as well")
    parser.add_argument(
        "--without-compiler",
        action="store_true",
        help="leave out what takes a C compiler: jumps of clocks, full disks, power cuts, failing writes",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="the large figure: 100,000 turns, 1,000 worker kills, 300 stalls, 100 database kills, 200 power cuts",
    )
    parser.add_argument("--json", type=Path, help="write everything to this file too")
    options = parser.parse_args()
    clock = SystemClock()
    began = clock.monotonic()
    report.say(f"seed {options.seed}")
    worlds = not options.without_compiler
    if worlds and disk.compiler() is None:
        report.say("There is no C compiler, so no clock can jump, no disk be full and no power be cut here.")
        report.say("SOMETHING WAS NOT TRIED: install one, or say --without-compiler to leave these out")
        return 1
    wanted_cuts = plans.FULL_CUTS if options.full else options.power_cuts
    cuts = cut_power(options.seed, wanted_cuts) if worlds else None
    if cuts is not None:
        report.tell_power(cuts)
        cuts.take(fail_disk(options.seed, plans.FAILURE_GROWTH[options.full]))
    engines = plans.ENGINES if options.engine == "all" else (options.engine,)
    verdicts: list[Verdict] = []
    seconds = options.minutes * 60
    for ask in plans.campaigns(engines, seed=options.seed, seconds=seconds, full=options.full, worlds=worlds):
        folder = Path(tempfile.mkdtemp(prefix="homeostat-chaos-"))
        verdicts.append(asyncio.run(campaign(ask, folder)))
        report.tell(verdicts[-1])
        if verdicts[-1].violations:
            report.say(f"what it left is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    seconds = clock.monotonic() - began
    if options.json is not None:
        report.write(options.json, report.as_json(options.seed, verdicts, cuts, seconds, clock))
    sound = report.sound(verdicts, cuts)
    report.say("", report.as_table(verdicts, cuts), "")
    report.say(f"{seconds:.0f} s, seed {options.seed}: {report.in_a_word(verdicts, cuts)}")
    return 0 if sound else 1


def cut_power(seed: int, cuts: int) -> power.Verdict | None:
    if not cuts:
        return None
    recordings = -(-cuts // plans.RECORDING_CUTS)
    with tempfile.TemporaryDirectory(prefix="homeostat-chaos-") as folder:
        return power.campaign(Path(folder), seed=seed, recordings=recordings, cuts=plans.RECORDING_CUTS)


def fail_disk(seed: int, growth: float) -> power.Verdict:
    with tempfile.TemporaryDirectory(prefix="homeostat-chaos-") as folder:
        found = storage.campaign(Path(folder), seed=seed, growth=growth)
    report.tell_failures(found)
    return found


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # of this process: whoever calls main() keeps a log of its own
    sys.exit(main())
