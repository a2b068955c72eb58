"""How runs are shown: a line that changes while one is followed, a list, and a page."""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from homeostat.cli.looking import look
from homeostat.cli.tables import Cell, Column, cut, distance, money, plain, room, screen, table
from homeostat.core.clock import SystemClock, parse_rfc3339
from homeostat.core.moments import moment

if TYPE_CHECKING:
    from homeostat.client.client import Client

Row = dict[str, Any]

LOOK_SECONDS = 0.25
BAR_CELLS = 20
BETWEEN = " · "
WAITS_TOLD = 2
TOLD = ("running", "queued", "held", "failed", "skipped", "stopped")
STYLES = {"completed": "green", "failed": "red", "killed": "red", "paused": "yellow", "applying": "cyan"}


async def follow(client: "Client", begun: Row, *, quiet: bool) -> Row:
    """Show how a run gets on until it has ended, is held, or waits to be applied; returns it as it is then."""
    path = f"/v1/runs/{quote(begun['run_id'], safe='')}"
    line = StandingLine()
    run = begun
    if not quiet:
        typer.echo(f"{run['run_id']}  {_on_a_line(run['goal'])}")
    try:
        while True:
            if not quiet:
                line.say(progress(run, width=line.width))
            over = run["at_rest"] if run["status"] in ("completed", "failed", "killed") else run["status"] == "planned"
            if over or run["status"] == "paused":
                break
            await asyncio.sleep(LOOK_SECONDS)
            run = await look(lambda: client.read_json(path), left="the run", before_words=line.end)
    except asyncio.CancelledError:
        line.end(broken=True)
        typer.echo("\n".join(_left(run)), err=True)
        raise
    finally:
        line.end()
    if not quiet:
        for words in _ending(run):
            typer.echo(words)
    return run


class StandingLine:
    """A line that is written over where it stands. Where nobody looks on, what it says is one line after the other."""

    def __init__(self) -> None:
        self._said = ""
        self._stands = False

    @property
    def width(self) -> int | None:
        """How long it may be now: what reaches the edge stands on two lines, and only one of them is written over."""
        on = screen()
        return None if on.width is None else on.width - 1

    def say(self, line: str) -> None:
        if line == self._said:
            return
        self._said = line
        self._stands = screen().width is not None
        typer.echo(f"\r{line}\x1b[K" if self._stands else line, nl=not self._stands)

    def end(self, *, broken: bool = False) -> None:
        """Leave it as it is; what is written next stands below it, or below the `^C` of whoever broke off."""
        if self._stands or (broken and screen().width is not None):
            self._said, self._stands = "", False
            typer.echo()


def _left(run: Row) -> list[str]:
    run_id = run["run_id"]
    return [
        f"{run_id} goes on without you.",
        f"  homeostat ledger {run_id} -f follows it;",
        f"  homeostat describe run {run_id} shows how it stands;",
        f"  homeostat kill {run_id} --reason … ends it.",
    ]


def _ending(run: Row) -> list[str]:
    moved = run["moved"]
    lines = [_on_a_line(f"{run['status']} by {moved['actor']}: {moved['reason']}")]
    if run["paused_by"] == "gate" and run["status"] == "paused":
        lines.append(f"  homeostat approve {run['run_id']}/TASK, or reject, answers; the run goes on by itself.")
    elif run["status"] == "paused":
        lines.append(f"  homeostat resume {run['run_id']} goes on; homeostat kill {run['run_id']} ends it.")
    if run["status"] == "planned":
        lines.append(f"  homeostat apply {run['run_id']} carries it out.")
    return lines


def progress(run: Row, *, width: int | None = None) -> str:
    """One line: how far, how much, and how long the rest lasts. Where there is no room for all, the last goes first."""
    tasks, budget = run["tasks"], run["budget"]
    total = sum(tasks.values())
    done = tasks.get("succeeded", 0)
    parts = [run["status"]]
    if total:
        filled = BAR_CELLS * done // total
        parts.append(f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {done}/{total}")
    parts += [f"{tasks[word]} {word}" for word in TOLD if tasks.get(word)]
    parts += [f"stands still for {names}" for names in [waits_for(run)] if names]
    parts += spending(budget)
    if budget["forecast"] and not _by_the_clock(budget):
        parts.append(budget["forecast"])
    while width is not None and len(parts) > 1 and room(BETWEEN.join(parts)) > width:
        parts.pop()
    line = BETWEEN.join(parts)
    return line if width is None else cut(line, width)


def _by_the_clock(budget: Row) -> bool:
    """Whether a forecast only says what time is left, which is there to be read."""
    alone = budget["usd_max"] is None and budget["tokens_max"] is None
    return alone and budget["reached_in_seconds"] is not None


def spending(budget: Row) -> list[str]:
    parts: list[str] = []
    if budget["usd_max"] is not None:
        parts.append(f"${budget['usd_spent']:.2f} of ${budget['usd_max']:.2f}")
    if budget["tokens_max"] is not None:
        parts.append(f"{budget['tokens_spent']:,} of {budget['tokens_max']:,} tokens")
    seconds = f"{budget['seconds_spent']:.0f} s"
    parts.append(seconds if budget["seconds_max"] is None else f"{seconds} of {budget['seconds_max']:.0f} s")
    return parts


def waits_for(run: Row) -> str:
    """Who has to work again before a run that stands still goes on; the server names them all."""
    names: list[str] = run.get("waits_for", [])
    more = f" and {len(names) - WAITS_TOLD} more" if len(names) > WAITS_TOLD else ""
    return _on_a_line(f"{', '.join(names[:WAITS_TOLD])}{more}")


def listing(runs: list[Row], *, wide: bool = False) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    """The columns of a list, and a row for each run. Where none stands still, nothing is said of it."""
    still = any(run.get("waits_for") for run in runs)
    columns = [
        Column("RUN"),
        Column("STATUS"),
        *([Column("WAITS FOR", least=10)] * still),
        Column("TASKS", right=True),
        Column("SPENT", right=True, spare=int(still)),
        Column("AGE", right=True),
        Column("GOAL", least=12),
    ]
    columns[-1:-1] = [Column("BY", least=8, spare=2), Column("USED", spare=3), Column("WHY", least=12, spare=1)] * wide
    now = SystemClock().now_ms()
    cells = [
        (
            Cell(run["run_id"]),
            Cell(run["status"], STYLES.get(run["status"], "")),
            *([Cell(waits_for(run), "yellow")] * still),
            Cell(f"{run['tasks'].get('succeeded', 0)}/{sum(run['tasks'].values())}"),
            Cell(money(run["budget"]["usd_spent"])),
            Cell(distance(run["created_at"], now)),
            *([Cell(run["created_by"]), Cell(", ".join(spending(run["budget"]))), Cell(run["moved"]["reason"])] * wide),
            Cell(" ".join(run["goal"].split())),
        )
        for run in runs
    ]
    return columns, cells


def _on_a_line(text: str) -> str:
    """What others wrote, of whatever length and with whatever in it."""
    return plain(" ".join(text.split()))


def _when(instant: str) -> str:
    return moment(parse_rfc3339(instant), SystemClock().now_ms())


def page(run: Row, tasks: list[Row], *, more: bool) -> list[str]:
    """A run in full."""
    moved, budget = run["moved"], run["budget"]
    facts = {
        "Run": run["run_id"],
        "Goal": run["goal"],
        "Status": f"{run['status']} since {_when(moved['at'])}, by {moved['actor']}: {moved['reason']}",
        "Waits for": waits_for(run),
        "Begun": f"{_when(run['created_at'])} by {run['created_by']}",
        "Planner": run["planner_name"] or run["planner"],
        "Used": ", ".join(spending(budget)),
        "Forecast": budget["forecast"] or "",
        "Tasks": ", ".join(f"{count} {word}" for word, count in run["tasks"].items()),
        "Ledger": f"{run['ledger_entries']} entries, {run['ledger_hash']}",
        "Seed": str(run["seed"]),
        "Trace": run["trace_id"],
        "Driven by": "" if run["driver"] is None else f"{run['driver']} (epoch {run['epoch']})",
        "Error": "" if run["error"] is None else str(run["error"].get("message", run["error"])),
    }
    lines = [f"{name:<10} {_on_a_line(value)}" for name, value in facts.items() if value]
    columns = (
        Column("TASK"),
        Column("STATUS"),
        Column("TARGET"),
        Column("ATTEMPT", right=True),
        Column("AFTER", spare=1),
    )
    cells = [
        (
            Cell(task["name"]),
            Cell(task["status"]),
            Cell(task["agent_id"] or task["target"]),
            Cell(str(task["attempt"])),
            Cell(", ".join(task["after"])),
        )
        for task in tasks
    ]
    lines += ["", *table(columns, cells, on=screen())]
    if more:
        lines.append("… and more: GET /v1/runs/RUN/tasks pages through all of them.")
    return lines
