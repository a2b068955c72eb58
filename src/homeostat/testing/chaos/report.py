"""What a run of the campaign did and found, as lines to read while it goes on, as JSON, and as a table for a page."""

import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from homeostat.core.clock import Clock, rfc3339
from homeostat.testing.chaos.campaign import Verdict
from homeostat.testing.chaos.plans import TOTALS
from homeostat.testing.chaos.power import Verdict as PowerVerdict
from homeostat.testing.chaos.storage import GAVE_UP

VIOLATIONS_TOLD_MAX: Final = 20


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tell_power(verdict: PowerVerdict) -> None:
    say(f"power cuts: {verdict.cuts}, {verdict.acknowledged} turns acknowledged before, {dict(verdict.happened)}")
    say(*(f"BROKEN {violation}" for violation in verdict.violations[:VIOLATIONS_TOLD_MAX]))
    say(*(f"TOO SELDOM: {name}" for name in verdict.unseen))


def tell_failures(verdict: PowerVerdict) -> None:
    say(f"failed writes and syncs: {dict(verdict.failures)}, {verdict.happened[GAVE_UP]} {GAVE_UP}")
    say(*(f"BROKEN {violation}" for violation in verdict.violations[:VIOLATIONS_TOLD_MAX]))
    say(*(f"TOO SELDOM: {name}" for name in verdict.unseen))


def sound(verdicts: Sequence[Verdict], power: PowerVerdict | None) -> bool:
    """Whether all held, and all was tried that was asked for."""
    return all(one.ok for one in verdicts) and (power is None or power.ok)


def in_a_word(verdicts: Sequence[Verdict], power: PowerVerdict | None) -> str:
    """The last word of a run: a promise that was broken is another thing than one that was hardly put to the test."""
    if sound(verdicts, power):
        return "nothing was lost"
    broken = any(one.violations or one.rest_seconds is None for one in verdicts) or (
        power is not None and power.violations
    )
    return "SOMETHING DOES NOT HOLD" if broken else "nothing was lost, but NOT ENOUGH HAPPENED to prove it"


def tell(verdict: Verdict) -> None:
    rested = "NOT AT REST" if verdict.rest_seconds is None else f"at rest after {verdict.rest_seconds:.1f} s"
    say(f"{name_of(verdict)}: {verdict.seconds:.0f} s of faults, {rested}")
    say(*(f"{count:9d}  {name}" for name, count in sorted(verdict.counts.items())))
    say(*(f"BROKEN {violation}" for violation in verdict.violations[:VIOLATIONS_TOLD_MAX]))
    say(*(f"TOO SELDOM: {name}" for name in verdict.unseen))


def name_of(verdict: Verdict) -> str:
    return verdict.ask.engine + (", without Redis and NATS" if verdict.ask.size.absent else "")


def as_json(seed: int, verdicts: Sequence[Verdict], power: PowerVerdict | None, seconds: float, clock: Clock) -> bytes:
    """Everything, for whoever compares two runs."""
    whole: dict[str, Any] = {
        "seed": seed,
        "at": rfc3339(clock.now_ms()),
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "seconds": round(seconds, 1),
        "ok": sound(verdicts, power),
        "totals": totals(verdicts, power),
        "power_cuts": power
        and {
            "cuts": power.cuts,
            "acknowledged": power.acknowledged,
            "failed": dict(power.failures),
            "found": power.violations,
            "too_seldom": power.unseen,
        },
        "parts": [
            {
                "part": name_of(one),
                "fault_seconds": round(one.seconds, 1),
                "rest_seconds": one.rest_seconds and round(one.rest_seconds, 1),
                "faults": one.faults,
                "counts": dict(sorted(one.counts.items())),
                "violations": one.violations,
                "too_seldom": one.unseen,
            }
            for one in verdicts
        ],
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def totals(verdicts: Sequence[Verdict], power: PowerVerdict | None) -> dict[str, int]:
    counts = sum((one.counts for one in verdicts), Counter[str]())
    found = {title: sum(counts[name] for name in names) for title, names in TOTALS.items()}
    failures = power.failures.total() if power else 0
    return {**found, "power cuts": power.cuts if power else 0, "failed writes and syncs": failures}


def as_table(verdicts: Sequence[Verdict], power: PowerVerdict | None) -> str:
    """A table in Markdown: what was done in each part and in all, and what was found."""
    heads = [name_of(one) for one in verdicts]
    whole = totals(verdicts, power)
    lines = ["| | " + " | ".join([*heads, "in all"]) + " |", "|---|" + "---:|" * (len(heads) + 1)]
    for title, names in TOTALS.items():
        parts = [sum(one.counts[name] for name in names) for one in verdicts]
        lines.append(f"| {title} | " + " | ".join(f"{number:,}" for number in (*parts, whole[title])) + " |")
    lines += [
        f"| {title} | " + " | ".join([*([""] * len(heads)), f"{whole[title]:,}"]) + " |"
        for title in ("power cuts", "failed writes and syncs")
    ]
    rested = ["never" if one.rest_seconds is None else f"{one.rest_seconds:.1f} s" for one in verdicts]
    lines.append("| at rest after | " + " | ".join([*rested, ""]) + " |")
    broken = [len(one.violations) for one in verdicts]
    every = sum(broken) + (len(power.violations) if power else 0)
    lines.append("| promises broken | " + " | ".join(f"{number:,}" for number in (*broken, every)) + " |")
    return "\n".join(lines)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
