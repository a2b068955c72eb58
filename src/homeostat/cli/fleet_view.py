"""An agent in one row: the same columns, words and colours in lists, in the watch and in the live table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from homeostat.cli.tables import Cell, Column, ago, measure, money
from homeostat.core.headline import ASKED, RANK, work_of
from homeostat.core.headline import headline as first_of

Row = dict[str, Any]

ISOLATED: Final = ("exhausted", "quarantined", "healing", "draining")
STYLES: Final = {
    "dead": "red bold",
    "exhausted": "red bold",
    "quarantined": "magenta bold",
    "healing": "cyan",
    "draining": "yellow",
    ASKED: "yellow bold",
    "suspected": "yellow",
    "error": "red",
    "stale": "yellow",
    "probation": "cyan",
    "paused": "yellow",
    "stopping": "dim",
    "running": "green",
    "suspended": "cyan",
    "idle": "",
    "registered": "dim",
}
MARKS: Final = {"alive": "●", "stale": "◐", "dead": "○"}  # colour never says anything alone

COLUMNS: Final = (
    Column("ID", least=24),
    Column("TYPE", least=9, spare=1),
    Column("STATUS"),
    Column("PHASE", spare=8),  # a phase that matters is the status, too
    Column("TAGS", least=10, spare=5),
    Column("QUEUE", right=True, spare=2),
    Column("DONE", right=True, spare=6),
    Column("ERRORS", right=True, spare=3),
    Column("TODAY", right=True, spare=4),
    Column("SEEN", right=True),
)
LAST_ACTION: Final = Column("LAST ACTION", least=16, spare=6)
WIDE_COLUMNS: Final = (
    *COLUMNS,
    Column("SAYS", spare=8),
    Column("EVERY", right=True, spare=9),
    Column("SET BY", spare=13),
    Column("AVG", right=True, spare=9),
    Column("MEMORY", right=True, spare=7),
    Column("UP", right=True, spare=10),
    Column("VERSION", least=7, spare=11),
    Column("HOST", least=8, spare=11),
    Column("PID", right=True, spare=12),
    LAST_ACTION,
)
TOP_COLUMNS: Final = (
    *COLUMNS,
    Column("AVG", right=True, spare=9),
    Column("MEMORY", right=True, spare=7),
    LAST_ACTION,
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of agents besides their rows: their turns and queues, and for whom somebody is asked."""

    heads: Mapping[str, Row] = field(default_factory=dict[str, Row])
    asked: frozenset[str] = frozenset()
    today: Mapping[str, float] = field(default_factory=dict[str, float])


def headline(row: Row, beside: Beside | None = None) -> str:
    """One word for an agent. That it says it runs makes it run no more than its row says: nothing runs without a lease.
    Where nobody told of turns, the server's headline says it, or else its own word has to do.
    """
    if beside is None:
        return row.get("headline") or first_of(row["presence"], row["phase"], row["status"], asked=False)
    head = beside.heads.get(row["agent_id"])
    work = "idle" if head is None else work_of(head["gate"], head["status"], leased=head["worker_id"] is not None)
    if work == "idle" and row["reported_status"] is None:
        work = "registered"
    return first_of(row["presence"], row["phase"], work, asked=row["agent_id"] in beside.asked)


def state(row: Row, beside: Beside | None = None, *, now_ms: int | None = None) -> Cell:
    word = headline(row, beside)
    text = f"{MARKS.get(row['presence'], '?')} {word}"
    if word in ISOLATED and beside is not None and row["agent_id"] in beside.asked:
        text += f" ({ASKED})"
    head = None if beside is None else beside.heads.get(row["agent_id"])
    if word == "suspended" and head is not None and now_ms is not None:
        text += _waiting(head, now_ms)
    return Cell(text, STYLES.get(word, ""))


def _waiting(head: Row, now_ms: int) -> str:
    from homeostat.core.clock import parse_rfc3339

    tools = "a tool" if head["waiting_tool_count"] == 1 else f"{head['waiting_tool_count']} tools"
    if head["resume_deadline"] is None:
        return f" (waiting for {tools})"
    left = (parse_rfc3339(head["resume_deadline"]) - now_ms) / 1000
    return f" (waiting for {tools}, {ago(left)} left)"


def urgency(row: Row, beside: Beside | None = None) -> tuple[int, str]:
    """Trouble first, then by name."""
    return RANK.get(headline(row, beside), len(RANK)), row["agent_id"]


def cells(row: Row, columns: Sequence[Column], *, now_ms: int, beside: Beside | None = None) -> list[Cell]:
    """A row of the fleet under these columns."""
    head = None if beside is None else beside.heads.get(row["agent_id"])
    spent = row.get("cost_usd_today")
    if spent is None and beside is not None:
        spent = beside.today.get(row["agent_id"])
    made = {
        "ID": Cell(row["agent_id"]),
        "TYPE": Cell(row["agent_type"]),
        "STATUS": state(row, beside, now_ms=now_ms),
        "PHASE": Cell(
            row["phase"], "" if row["phase"] in ("healthy", "initializing") else STYLES.get(row["phase"], "")
        ),
        "TAGS": Cell(",".join(row["tags"]) or "-"),
        "QUEUE": Cell(measure(row["queue_depth"] if head is None else head["queued"])),
        "DONE": Cell(measure(row["items_processed"])),
        "ERRORS": Cell(measure(row["error_count"]), "red" if row["error_count"] else ""),
        "TODAY": Cell("-" if spent is None else money(spent)),
        "SAYS": Cell(row["reported_status"] or "-", "red" if row["reported_status"] == "error" else ""),
        "SEEN": Cell(since(row["last_seen_at"], now_ms)),
        "EVERY": Cell(f"{row['push_interval_seconds']:g}s"),
        "SET BY": Cell(row["push_interval_source"]),
        "AVG": Cell(measure(row["processing_time_avg_ms"], "ms")),
        "MEMORY": Cell(measure(row["memory_mb"], "MB")),
        "UP": Cell("-" if row["uptime_seconds"] is None else ago(row["uptime_seconds"])),
        "VERSION": Cell(row["version"] or "-"),
        "HOST": Cell(row["hostname"] or "-"),
        "PID": Cell("-" if row["pid"] is None else str(row["pid"])),
        "LAST ACTION": Cell(row["last_action"] or "-"),
    }
    return [made[column.title] for column in columns]


def since(moment: str | None, now_ms: int) -> str:
    """How long ago something was, by this machine's clock."""
    from homeostat.core.clock import parse_rfc3339

    if moment is None:
        return "-"
    return ago((now_ms - parse_rfc3339(moment)) / 1000)


def summary(rows: Sequence[Row], beside: Beside | None = None) -> str:
    """A fleet in one sentence."""
    counted: dict[str, int] = {}
    for row in rows:
        word = headline(row, beside)
        counted[word] = counted.get(word, 0) + 1
    if not rows:
        return "no agents"
    told = ", ".join(f"{counted[word]} {word}" for word in sorted(counted, key=lambda word: RANK.get(word, len(RANK))))
    return f"{len(rows)} agent{'s' if len(rows) != 1 else ''}: {told}"
