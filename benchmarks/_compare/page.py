"""The page of the comparison, written from what is kept."""

import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks._compare.kept import Figures, Kept
from benchmarks._compare.turns import LOADS
from benchmarks._measure import interpreter

PAGE = Path("docs/explanation/benchmarks.md")
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
GOALS = {"dbos": 40.0, "langgraph": 40.0, "procrastinate": 1.0, "pgqueuer": 1.0, "litellm": 75.0, "portkey": 12.0}
ENGINES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
KINDS = {"plain": "no-op turns", "tool": "turns that wait for one tool"}


def write(kept: Kept, path: Path = PAGE, *, missing: Sequence[str] = ()) -> None:
    text = "\n".join(_text(kept, missing))
    page = path.read_text()
    path.write_text(f"{page.split(BEGIN)[0]}{BEGIN}\n\n{text}\n{END}{page.split(END)[1]}")
    print(f"  written to {path}")


def _text(kept: Kept, missing: Sequence[str]) -> Iterator[str]:
    days = sorted(cell["taken_at"][:10] for cell in kept.cells.values())
    if not days:
        yield "Nothing was measured yet."
        return
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    yield f"Measured {when} on {_machine()}. Everything shares this one machine, PostgreSQL and Redis included."
    yield ""
    if disturbed := kept.disturbed():
        yield f"Taken while others worked on the machine, to be taken again (`--disturbed`): {', '.join(disturbed)}."
        yield ""
    if quick := kept.quick():
        yield f"Taken with `--quick`, to see that they can be, and not to be believed: {', '.join(quick)}."
        yield ""
    if missing:
        yield f"Not taken yet: {', '.join(missing)}."
        yield ""
    if versions := _versions(kept):
        yield f"Versions: {versions}."
        yield ""
    lost: list[str] = []
    for engine in ENGINES:
        for kind in KINDS:
            yield from _turns(kept.of(f"turns {engine} {kind} "), engine, kind, lost)
    yield from _gateways(kept.of("gateway "), lost)
    yield from _heartbeats(kept.cells.get("heartbeats"))
    yield from _detection(kept.cells.get("detection"), lost)
    yield from _footprint(kept.of("footprint "), kept.of("weight "), lost)
    yield "### Where we lose, or fall short of our goals"
    yield ""
    yield from (f"- {word}" for word in lost)
    if not lost:
        yield "Nowhere in what was measured."


def _versions(kept: Kept) -> str:
    found = {**kept.of("weight "), **kept.of("footprint ")}
    return ", ".join(f"{name} {one['version']}" for name, one in sorted(found.items()) if "version" in one)


def _machine() -> str:
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    processor = model.partition(":")[2].strip() or platform.machine()
    memory = psutil.virtual_memory().total / (1 << 30)
    return f"{processor}, {psutil.cpu_count()} cores, {memory:.0f} GB, Linux, {interpreter()}"


def _turns(cells: dict[str, Figures], engine: str, kind: str, lost: list[str]) -> Iterator[str]:
    if not cells:
        return
    loads = [clients for clients in LOADS if str(clients) in cells]
    yield f"### {ENGINES[engine]}, {KINDS[kind]} per second"
    yield ""
    yield f"| | {' | '.join(f'c = {clients}' for clients in loads)} | CPU per turn at {loads[-1]} |"
    yield f"|---|{'---:|' * (len(loads) + 1)}"
    floors = [cells[str(clients)]["floor"] for clients in loads]
    yield f"| bare engine, three commits | {' | '.join(f'{rate:,.0f}' for rate in floors)} | |"
    for peer in cells[str(loads[0])]["peers"]:
        shown: list[str] = []
        for clients in loads:
            figures = cells[str(clients)]
            ours, theirs = figures["peers"]["homeostat"]["rate"], figures["peers"][peer]["rate"]
            if peer == "homeostat":
                shown.append(f"**{ours:,.0f}** ({ours / figures['floor']:.1f}x the floor)")
                continue
            shown.append(f"{theirs:,.0f} (we: {ours / theirs:.3g}x)")
            if ours / theirs < GOALS[peer]:
                where = f"{ENGINES[engine]}, {KINDS[kind]}, c = {clients}"
                lost.append(f"{where}: {ours / theirs:.1f}x {peer}, goal {GOALS[peer]:.0f}x")
        cpu = cells[str(loads[-1])]["peers"][peer]["cpu_ms"]
        yield f"| {peer} | {' | '.join(shown)} | {cpu:.2f} ms |"
    yield ""


def _gateways(cells: dict[str, Figures], lost: list[str]) -> Iterator[str]:
    found = {peer: cell for peer, cell in cells.items() if "missing" not in cell}
    if not found:
        return
    yield "### Gateways, chat completions per second before the same upstream"
    yield ""
    yield "| | c = 1 | c = 16 | c = 64 | p50 at 1 | CPU at 64 |"
    yield "|---|---:|---:|---:|---:|---:|"
    for peer, cell in found.items():
        rates = " | ".join(f"{cell[c]['theirs']:,.0f} (we: {cell[c]['times']:.3g}x)" for c in ("1", "16", "64"))
        cpu = f"{cell['64']['theirs_cpu_us']:,.0f} µs" if cell["64"]["theirs_cpu_us"] else ""
        yield f"| {peer} | {rates} | {cell['1']['theirs_p50_ms']:.2f} ms | {cpu} |"
        mine = " | ".join(f"**{cell[c]['ours']:,.0f}**" for c in ("1", "16", "64"))
        price = f"{cell['1']['ours_p50_ms']:.2f} ms | {cell['64']['ours_cpu_us']:,.0f} µs"
        yield f"| homeostat, beside it | {mine} | {price} |"
        if "all_in_one" in cell["64"]:
            whole = " | ".join(f"{cell[c]['all_in_one']:,.0f}" for c in ("1", "16", "64"))
            price = f"{cell['1']['all_in_one_p50_ms']:.2f} ms | {cell['64']['all_in_one_cpu_us']:,.0f} µs"
            yield f"| homeostat, all in one process | {whole} | {price} |"
        goal = GOALS.get(peer)
        if goal is None:
            lost.append(f"{peer}, which neither meters nor bounds: {cell['64']['times']:.2f} of its rate at c = 64")
        elif cell["16"]["times"] < goal:
            lost.append(f"gateway at c = 16: {cell['16']['times']:.1f}x {peer}, goal {goal:.0f}x")
    yield ""
    yield "Ours meters each call and holds it to a budget, a token cap and a rate limit; the others are as they start."
    yield "It is `homeostat gateway`, with PostgreSQL, NATS and the server beside it on the core of the clients."
    yield "All in one process is `homeostat up`: it also watches over the agents and has its books in SQLite there."
    yield ""


def _heartbeats(cell: Figures | None) -> Iterator[str]:
    if cell is None:
        return
    yield "### Heartbeats per second"
    yield ""
    yield "| | rate | p50 | p99 | CPU | of the constant |"
    yield "|---|---:|---:|---:|---:|---:|"
    titles = {"constant": "the same server, answering a constant", "local": "homeostat", "redis": "homeostat on Redis"}
    for name, title in titles.items():
        one = cell[name]
        latency = f"{one['p50_ms']:.1f} ms | {one['p99_ms']:.1f} ms | {one['cpu_us']:.0f} µs"
        yield f"| {title} | {one['rate']:,.0f} | {latency} | {one['of_constant']:.2f} |"
    yield f"| bare Redis, SETs on one pipeline, no HTTP | {cell['sets']:,.0f} | | | | |"
    yield ""


def _detection(cell: Figures | None, lost: list[str]) -> Iterator[str]:
    if cell is None:
        return
    yield "### Detection on the Numenta streams, standard profile"
    yield ""
    yield "| | score | µs a sample | |"
    yield "|---|---:|---:|---|"
    best = cell["detectors"][0]["score"]
    for one in sorted(cell["detectors"], key=lambda row: -row["score"]):
        price = f"{one['microseconds']:.1f}" if one["microseconds"] == one["microseconds"] else ""
        yield f"| {one['name']} | {one['score']:.1f} | {price} | {one['note']} |"
        if one["score"] > best:
            lost.append(f"detection: {one['name']} scores {one['score']:.1f}, we {best:.1f}")
    yield ""


def _footprint(servers: dict[str, Figures], libraries: dict[str, Figures], lost: list[str]) -> Iterator[str]:
    if not servers:
        return
    yield "### What is installed, and what it takes to stand there"
    yield ""
    yield "| | version | dashboard | packages | MB | first answer after | processor time until then | MB at rest |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    started = {name: one for name, one in servers.items() if "start_seconds" in one}
    for name, one in sorted(started.items(), key=lambda pair: pair[1]["packages"]):
        times = f"{one['start_seconds']:.1f} s | {one['start_cpu_seconds']:.1f} s | {one['idle_megabytes']:.0f}"
        dashboard = "yes" if one["dashboard"] else "no"
        yield f"| {name} | {one['version']} | {dashboard} | {one['packages']} | {one['megabytes']:.0f} | {times} |"
    others = {**{n: one for n, one in servers.items() if n not in started and "packages" in one}, **libraries}
    for name, one in sorted(others.items(), key=lambda pair: pair[1]["packages"]):
        yield f"| {name} | {one.get('version', '')} | no | {one['packages']} | {one['megabytes']:.0f} | | | |"
    yield ""
    ours = started.get("homeostat")
    for measure, word in (("packages", "packages"), ("start_seconds", "start"), ("idle_megabytes", "memory at rest")):
        for name, one in started.items():
            if ours is not None and one["dashboard"] and one[measure] < ours[measure]:
                lost.append(f"{word}: {name} {one[measure]:.4g}, we {ours[measure]:.4g}")
    for name, one in others.items():
        if ours is not None and one["packages"] < ours["packages"]:
            lost.append(
                f"packages: {name}, which has no dashboard, comes with {one['packages']}, we {ours['packages']}"
            )
