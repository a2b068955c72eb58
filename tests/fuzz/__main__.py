"""Drives targets with Atheris: `make fuzz`, one after the other, each in a process of its own.

    python -m tests.fuzz                         every target for --seconds 20 each
    python -m tests.fuzz bundles --runs 10000000 --seconds 600

What a target finds is kept in its folder of the corpus, where the tests replay it for ever.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import atheris

from tests.fuzz.harness import Check, in_time, keeping
from tests.fuzz.targets import TARGETS, Target

# Where foreign bytes are taken apart, and the targets themselves: what else there is would only slow the search down.
DECODERS = [
    "tests.fuzz.bodies",
    "tests.fuzz.connections",
    "tests.fuzz.streams",
    "homeostat.adapters.doorbells.nats.wire",
    "homeostat.agent.models",
    "homeostat.http.connection",
    "homeostat.app.webhooks",
    "homeostat.client.control",
    "homeostat.core.canonical",
    "homeostat.core.codec",
    "homeostat.core.filter",
    "homeostat.core.wire.otlp",
    "homeostat.core.wire.protobuf",
    "homeostat.core.wire.sse",
    "homeostat.gateway.dialects.anthropic_messages",
    "homeostat.gateway.dialects.openai_chat",
    "homeostat.gateway.dialects.openai_responses",
    "homeostat.gateway.dialects.shapes",
    "homeostat.gateway.hearing",
    "homeostat.gateway.metering",
    "homeostat.gateway.sieve",
    "homeostat.immune.immune",
    "homeostat.immune.intake",
    "homeostat.immune.spans",
    "homeostat.runs.bundle",
    "homeostat.runs.heads",
    "homeostat.runs.verify",
    "homeostat.server.call",
    "homeostat.server.cycle",
    "homeostat.server.names",
    "homeostat.server.protocol",
    "homeostat.server.routing",
]

CORPUS = Path(__file__).parent / "corpus"
INPUT_SECONDS_MAX = 5
HANG_SECONDS_MAX = 600  # by the clock, for what hangs where Python hears no signals
MEMORY_MB_MAX = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all without")
    parser.add_argument("--seconds", type=int, help="for each target; 20 where nothing is said")
    parser.add_argument("--runs", type=int, default=-1, help="for each target, if they take no longer than --seconds")
    parser.add_argument("--corpus", type=Path, help="where what is found on the way is kept; else it is forgotten")
    parser.add_argument("--results", type=Path, help="a file of JSON lines that gets one for each target")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.seconds = options.seconds or (20 if options.runs < 0 else 0)
    chosen = [TARGETS[name] for name in options.targets or TARGETS]
    if options.inside:
        drive(chosen[0], options)
    failed = [one.name for one in chosen if not fuzz(one, options)]
    print(
        f"fuzz: {len(chosen) - len(failed)} of {len(chosen)} targets held" + "".join(f", {n} did not" for n in failed)
    )
    return 1 if failed else 0


def fuzz(chosen: Target, options: argparse.Namespace) -> bool:
    """Run one target in a process that may crash; says whether it held."""
    limit = ["--runs", str(options.runs), "--seconds", str(options.seconds)]
    corpus = ["--corpus", str(options.corpus / chosen.name)] if options.corpus else []
    command = [sys.executable, "-m", "tests.fuzz", chosen.name, "--inside", *limit, *corpus]
    began = time.monotonic()
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    spent = round(time.monotonic() - began)
    row = told(done.stderr) | {"target": chosen.name, "seconds": spent, "held": not done.returncode}
    outcome = "held" if row["held"] else "BROKE"
    print(f"  {chosen.name:<28}{row['runs']:>12,} runs {row['edges']:>6} edges {spent:>6} s  {outcome}", flush=True)
    if done.returncode:
        print("\n".join(line for line in done.stderr.splitlines() if not line.startswith(("#", "INFO:")))[-4000:])
    if options.results:
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return not done.returncode


def told(log: str) -> dict[str, Any]:
    """How far libFuzzer came, by its own words."""
    lines = re.findall(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)", log, re.MULTILINE)
    runs, edges, features, kept = (int(word) for word in lines[-1]) if lines else (0, 0, 0, 0)
    done = re.search(r"Done (\d+) runs", log)
    return {"runs": int(done[1]) if done else runs, "edges": edges, "features": features, "corpus": kept}


def instrument() -> None:
    """Let every branch of the decoders be told of. Comparisons are not: a target's words say what is worth trying."""
    for name in DECODERS:
        for thing in list(vars(sys.modules[name]).values()):
            if getattr(thing, "__module__", None) == name:
                for function in (thing, *vars(thing).values()) if isinstance(thing, type) else (thing,):
                    _instrument(function)


def _instrument(thing: Any) -> None:
    function = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    if isinstance(function, FunctionType):
        function.__code__ = cast("Any", atheris).patch_code(function.__code__, trace_dataflow=False)


def telling_what_is_new(check: Check) -> Check:
    """A check that tells libFuzzer of branches only where one was taken as often as never before by inputs so short.

    The others libFuzzer would drop, and telling it of a branch takes ten times as long as noting it down.
    """
    native = cast("Any", atheris)
    tell = native._trace_branch
    branches: list[int] = []
    native._trace_branch = branches.append
    known: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)

    def told(data: bytes) -> None:
        branches.clear()
        check(data)
        taken = Counter(branches).items()
        known_so_short = known[len(data).bit_length()]
        if not taken <= known_so_short:
            known_so_short.update(taken)
            for branch in branches:
                tell(branch)

    return told


def drive(chosen: Target, options: argparse.Namespace) -> None:
    """Hand this process to libFuzzer; it does not come back."""
    instrument()
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words"
        words.write_text("\n".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in chosen.words))
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        for number, seed in enumerate(chosen.seeds):
            (seeds / f"seed-{number}").write_bytes(seed)
        grown = options.corpus or Path(folder) / "grown"
        grown.mkdir(parents=True, exist_ok=True)
        kept = CORPUS / chosen.name
        kept.mkdir(parents=True, exist_ok=True)
        flags = [
            f"-max_len={chosen.bytes_max}",
            f"-timeout={HANG_SECONDS_MAX}",
            f"-rss_limit_mb={MEMORY_MB_MAX}",
            *([f"-dict={words}"] if chosen.words else []),
            f"-artifact_prefix={kept}/",
            f"-runs={options.runs}",
            f"-max_total_time={options.seconds}",
            "-print_final_stats=1",
        ]

        @cache
        def check() -> Check:  # made at the first input: only then is it known whom branches are told
            return telling_what_is_new(in_time(keeping(chosen, kept), INPUT_SECONDS_MAX))

        def try_one(data: bytes) -> None:
            check()(data)

        atheris.Setup([sys.argv[0], *flags, str(grown), str(kept), str(seeds)], try_one)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
