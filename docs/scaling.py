# ruff: noqa: RUF001 - a page of arithmetic has signs of multiplication in it
"""Writes the tables of `explanation/scaling.md`: what was measured, and what a million agents need by arithmetic on it.

The figures are in `explanation/scaling.json`, each with the day it was taken. A new one is put there by its name, and
everything that follows from it is written anew:

    python docs/scaling.py turns_postgres.per_second=9000 turns_postgres.cpu_ms=0.08 --taken 2026-11-16
    python docs/scaling.py --from FILE.json --taken 2026-11-16     # the same names, from a file
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parent / "explanation" / "scaling.md"
FIGURES: Final = PAGE.with_suffix(".json")

AGENTS: Final = 1_000_000
BEAT_SECONDS: Final = 30
LONG_BEAT_SECONDS: Final = 120
TURN_SECONDS: Final = 60
CALLS_PER_TURN: Final = 2
WAITING_SHARE: Final = 10

Figures = Mapping[str, dict[str, Any]]


def measured(f: Figures) -> list[str]:
    """What one node does."""
    postgres, sqlite, beats, agent = f["turns_postgres"], f["turns_sqlite"], f["heartbeats"], f["agent"]
    rows = [
        ("Turns on PostgreSQL, 50 agents at once", _turns(postgres), "make bench ARGS=kernel", "turns_postgres"),
        ("Turns on SQLite, 50 agents at once", _turns(sqlite), "make bench ARGS=kernel", "turns_sqlite"),
        (
            "Price of a turn over 10³ … 10⁶ finished turns and agents, PostgreSQL",
            f"{f['growth']['from_cpu_ms']} … {f['growth']['to_cpu_ms']} ms of processor",
            "make bench ARGS=kernel",
            "growth",
        ),
        (
            f"{f['worker']['agents']:,} agents in one worker process",
            f"{f['worker']['per_second']:,} turns a second",
            "make bench ARGS=kernel",
            "worker",
        ),
        (
            "A turn that waits for a tool",
            f"{_bytes(f['waiting']['bytes'])}, no task and no commit while it waits",
            "make bench ARGS=worker",
            "waiting",
        ),
        (
            f"Heartbeats, {beats['agents']:,} agents and {beats['readers']:,} readers of the feed",
            f"{beats['per_second']:,} a second with p50 {beats['p50_ms']} ms, p99 {beats['p99_ms']} ms",
            "make bench ARGS=fleet",
            "heartbeats",
        ),
        (
            "An agent in the fleet",
            f"{_bytes(agent['bytes'])}; a sweep of 100,000 takes {agent['quiet_sweep_ms']} … {agent['sweep_ms']} ms",
            "make bench ARGS=fleet",
            "agent",
        ),
        (
            "A model call through the gateway",
            f"{f['calls']['cpu_us']} µs of processor, p50 {f['calls']['of_nginx_p50']} times that of nginx",
            "make bench ARGS=gateway",
            "calls",
        ),
        (
            f"A look at the vitals of {f['vitals']['agents']:,} agents",
            f"{f['vitals']['look_ms']} ms, {f['vitals']['bytes']} bytes an agent",
            "homeostat bench detection",
            "vitals",
        ),
        (
            "Verifying a ledger",
            f"{f['ledger']['entries_per_second']:,} entries a second, memory flat to 10⁶",
            "make bench ARGS=ledger",
            "ledger",
        ),
    ]
    head = ["| What | Measured | By | On |", "|---|---|---|---|"]
    return head + [f"| {what} | {told} | `{by}` | {f[name]['taken']} |" for what, told, by, name in rows]


def needed(f: Figures) -> list[str]:
    """What a million agents need."""
    beats, long_beats = AGENTS / BEAT_SECONDS, AGENTS / LONG_BEAT_SECONDS
    turns = AGENTS / TURN_SECONDS
    calls = turns * CALLS_PER_TURN
    rate, per_call = f["heartbeats"]["per_second"], f["calls"]["cpu_us"] / 1000
    store, agent, vitals = f["turns_postgres"], f["agent"]["bytes"], f["vitals"]
    looks, waiting = AGENTS // vitals["agents"], AGENTS // WAITING_SHARE
    cores = calls * per_call / 1000
    rows = [
        (
            "Heartbeats",
            f"10⁶ ÷ {BEAT_SECONDS} s = {beats:,.0f} a second; ÷ {rate:,} a node",
            f"{-(-beats // rate):.0f} servers; with an interval of {LONG_BEAT_SECONDS} s, {-(-long_beats // rate):.0f}",
        ),
        ("Status", f"10⁶ × {_bytes(agent)}", f"{_bytes(AGENTS * agent)}, in one Redis"),
        (
            "Turns",
            f"10⁶ ÷ {TURN_SECONDS} s = {turns:,.0f} a second × {store['cpu_ms']:.2f} ms",
            f"{turns * store['cpu_ms'] / 1000:.1f} cores of kernels, spread over the workers",
        ),
        (
            "The store",
            f"{turns:,.0f} × {store['log_bytes']:,} B, {turns:,.0f} × {store['syncs']}",
            f"{_bytes(turns * store['log_bytes'])} of log, {turns * store['syncs']:,.0f} syncs a second in one store",
        ),
        (
            "Workers",
            f"{turns:,.0f} ÷ {f['worker']['per_second']:,}",
            f"{math.ceil(turns / f['worker']['per_second'])} processes at least; as many as your agents' work asks for",
        ),
        (
            "Model calls",
            f"{calls:,.0f} a second × {per_call:.2f} ms",
            f"{cores:.1f} cores: {math.ceil(cores * 1.1)} gateways with a core each",
        ),
        (
            "Waiting turns, a tenth of the agents",
            f"{waiting:,} × {_bytes(f['waiting']['bytes'])}",
            f"{_bytes(waiting * f['waiting']['bytes'])} of the store",
        ),
        (
            "The immune system",
            f"{looks} × {vitals['look_ms']} ms, 10⁶ × {vitals['bytes']} B",
            f"{looks * vitals['look_ms'] / 1000:.1f} s a look and {_bytes(AGENTS * vitals['bytes'])}, where one leads",
        ),
        (
            "The call log",
            f"{calls:,.0f} × 86,400",
            f"{calls * 86_400 / 1e9:.1f} × 10⁹ rows a day: shorten its retention, or sample it elsewhere",
        ),
    ]
    return ["| Need | Arithmetic | So |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)]


def race(found: Figures) -> str:
    one = found["race"]
    return f"{one['one']:,}, {one['two']:,} and {one['four']:,}"


def page(text: str, found: Figures) -> str:
    """The page with its tables written anew."""
    parts = {"measured": measured(found), "needed": needed(found)}
    for name, lines in parts.items():
        block = "\n".join([f"<!-- {name} -->", "", *lines, "", f"<!-- {name}: end -->"])
        text, count = re.subn(rf"<!-- {name} -->.*?<!-- {name}: end -->", lambda _, b=block: b, text, flags=re.DOTALL)
        assert count == 1, f"the page has no place for what is {name}"
    text, count = re.subn(r"did [\d,]+, [\d,]+ and [\d,]+ turns", f"did {race(found)} turns", text)
    assert count == 1, "the page does not say how workers race"
    return text


def put(found: dict[str, dict[str, Any]], given: Mapping[str, float], taken: str) -> None:
    """Take figures in by name; one that is not known is a mistake."""
    for name, value in given.items():
        group, _, member = name.partition(".")
        if member not in found.get(group, {}):
            known = ", ".join(f"{one}.{each}" for one, members in found.items() for each in members)
            raise SystemExit(f"{name} is none of {known}")
        found[group][member] = value
        found[group]["taken"] = taken


def _turns(one: Mapping[str, Any]) -> str:
    return (
        f"{one['per_second']:,} a second; {one['cpu_ms']:.2f} ms of processor, {one['syncs']} syncs and "
        f"{one['log_bytes']:,} bytes of log each"
    )


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.2g} {unit}" if value < 10 * size else f"{value / size:.0f} {unit}"
    return f"{value:.0f} B"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--from", dest="file", type=Path)
    parser.add_argument("--taken", help="the day the figures were taken")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text())
    given = {name: float(value) for name, _, value in (one.partition("=") for one in options.figures)}
    if options.file is not None:
        given |= json.loads(options.file.read_text())
    if given:
        if options.taken is None:
            parser.error("say with --taken when they were taken")
        put(found, {name: int(value) if value == int(value) else value for name, value in given.items()}, options.taken)
        lines = [f" {json.dumps(name)}: {json.dumps(one)}" for name, one in found.items()]
        FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    text = PAGE.read_text()
    wanted = page(text, found)
    if options.check:
        return 0 if wanted == text else 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
