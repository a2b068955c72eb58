"""`python -m homeostat.testing.simulation`: run many seeds, or tell the story of one."""

import argparse
import logging
import sys

from homeostat.core.clock import SystemClock
from homeostat.testing.simulation.campaign import PROCESSES, Verdict, run
from homeostat.testing.simulation.interest import INTERESTING
from homeostat.testing.simulation.run import Outcome, simulate

STORIES_MAX = 2
FAILURES_MAX = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m homeostat.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one alone and tell its story")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("-v", "--verbose", action="store_true", help="tell the whole story, not only its end")
    options = parser.parse_args()
    if options.seed is not None:
        outcome = simulate(options.seed, keep=1_000_000 if options.verbose else 60)
        say(*story(outcome))
        return 0 if outcome.failure is None else 1
    clock = SystemClock()
    began = clock.monotonic()
    verdict = run(range(options.start, options.start + options.seeds), processes=options.processes)
    say(*report(verdict, clock.monotonic() - began))
    return 0 if verdict.ok else 1


def story(outcome: Outcome) -> list[str]:
    verdict = outcome.failure or "every check held"
    return [*outcome.lines, f"seed {outcome.seed}: {verdict} (trace {outcome.digest:08x})"]


def report(verdict: Verdict, seconds: float) -> list[str]:
    lines = [f"{verdict.counts[name]:9d}  {meaning}" for name, meaning in INTERESTING.items()]
    for outcome in verdict.failures[:STORIES_MAX]:
        lines += ["", *story(outcome)]
    lines += [f"FAILED seed {outcome.seed}: {outcome.failure}"[:200] for outcome in verdict.failures[:FAILURES_MAX]]
    lines += [f"NEVER HAPPENED: {INTERESTING[name]}" for name in verdict.unseen]
    rate = verdict.seeds / max(seconds, 1e-9)
    lines.append(
        f"{verdict.seeds} seeds, {len(verdict.failures)} failed, {len(verdict.unseen)} things never happened; "
        f"{rate:.0f} seeds/s, {verdict.commits} commits, in {seconds:.1f} s"
    )
    return lines


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # of this process: whoever calls main() keeps a log of its own
    sys.exit(main())
