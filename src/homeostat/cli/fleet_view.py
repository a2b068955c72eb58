"""An agent in one row: the same columns, words and colours in lists, in the watch and in the live table."""

from collections.abc import Sequence
from typing import Any, Final

from homeostat.cli.tables import Cell, Column, ago, measure

Row = dict[str, Any]

# One word for an agent: the first of these that holds. What it says of itself comes last, as long as it is heard.
PHASES_BEFORE_STALE: Final = ("exhausted", "quarantined", "healing", "draining", "suspected")
URGENCY: Final = {
    word: number
    for number, word in enumerate(
        ("dead", *PHASES_BEFORE_STALE, "error", "stale", "probation", "stopping", "running", "idle", "registered")
    )
}
STYLES: Final = {
    "dead": "red bold",
    "exhausted": "red bold",
    "quarantined": "magenta bold",
    "healing": "cyan",
    "draining": "yellow",
    "suspected": "yellow",
    "error": "red",
    "stale": "yellow",
    "probation": "cyan",
    "stopping": "dim",
    "running": "green",
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
    Column("DONE", right=True, spare=4),
    Column("ERRORS", right=True, spare=3),
    Column("SEEN", right=True),
)
LAST_ACTION: Final = Column("LAST ACTION", least=16, spare=6)
WIDE_COLUMNS: Final = (
    *COLUMNS,
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


def headline(row: Row) -> str:
    if row["presence"] == "dead":
        return "dead"
    if row["phase"] in PHASES_BEFORE_STALE:
        return row["phase"]
    if row["presence"] == "stale":
        return "stale"
    return row["phase"] if row["phase"] == "probation" else row["status"]


def state(row: Row) -> Cell:
    word = headline(row)
    return Cell(f"{MARKS.get(row['presence'], '?')} {word}", STYLES.get(word, ""))


def urgency(row: Row) -> tuple[int, str]:
    """Trouble first, then by name."""
    return URGENCY.get(headline(row), len(URGENCY)), row["agent_id"]


def cells(row: Row, columns: Sequence[Column], *, now_ms: int) -> list[Cell]:
    """A row of the fleet under these columns."""
    made = {
        "ID": Cell(row["agent_id"]),
        "TYPE": Cell(row["agent_type"]),
        "STATUS": state(row),
        "PHASE": Cell(
            row["phase"], "" if row["phase"] in ("healthy", "initializing") else STYLES.get(row["phase"], "")
        ),
        "TAGS": Cell(",".join(row["tags"]) or "-"),
        "QUEUE": Cell(measure(row["queue_depth"])),
        "DONE": Cell(measure(row["items_processed"])),
        "ERRORS": Cell(measure(row["error_count"]), "red" if row["error_count"] else ""),
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


def summary(rows: Sequence[Row]) -> str:
    """A fleet in one sentence."""
    counted: dict[str, int] = {}
    for row in rows:
        word = headline(row)
        counted[word] = counted.get(word, 0) + 1
    if not rows:
        return "no agents"
    told = ", ".join(f"{counted[word]} {word}" for word in sorted(counted, key=lambda word: URGENCY.get(word, 99)))
    return f"{len(rows)} agent{'s' if len(rows) != 1 else ''}: {told}"
