"""One agent on a page: four axes that are told apart, then what it says of itself, its turn and its recent past."""

from collections.abc import Sequence
from typing import Any, Final

from homeostat.cli.fleet_view import STYLES, since, state
from homeostat.cli.tables import Screen, ago, cut, measure, plain, styled
from homeostat.core.clock import Millis, parse_rfc3339
from homeostat.core.moments import moment

Row = dict[str, Any]

TITLE_CHARS: Final = 12
BARS: Final = "▁▂▃▄▅▆▇█"
POINTS_MAX: Final = 60


def page(detail: Row, history: Sequence[Row], *, now_ms: int, on: Screen) -> list[str]:
    """The page line by line, no line wider than the screen."""
    lines = [styled(plain(detail["agent_id"]), "bold", on=on)]

    def add(title: str, text: str, style: str = "") -> None:
        shown = plain(text)
        if on.width is not None:
            shown = cut(shown, on.width - TITLE_CHARS - 2)
        lines.append(f"  {title:<{TITLE_CHARS - 2}}  {styled(shown, style, on=on)}")

    host = detail["hostname"] or "unknown host"
    add("Type", detail["agent_type"])
    add("Tags", ", ".join(detail["tags"]) or "none")
    add("Host", host if detail["pid"] is None else f"{host}, process {detail['pid']}")
    add("Version", detail["version"] or "it did not say")
    add("Registered", moment(parse_rfc3339(detail["registered_at"]), Millis(now_ms)))
    every = f"every {detail['push_interval_seconds']:g} s by {detail['push_interval_source']}"
    heard = f"last heard {since(detail['last_seen_at'], now_ms)} ago, {every}"
    presence = detail["presence"]
    add("Presence", f"{presence} for {since(detail['presence_since'], now_ms)}; {heard}", state(detail).style)
    add("Health", detail["phase"], STYLES.get(detail["phase"], ""))
    turn, style = _turn(detail, now_ms)
    add("Turn", turn, style)
    add("Inbox", _inbox(detail["head"]))
    if detail["reported_status"] is None:
        add("Says", "nothing yet: no heartbeat has come")
        return lines
    action = f": {detail['last_action']}" if detail["last_action"] else ""
    when = f" ({_since_reported(detail['last_action_at'], now_ms)})" if detail["last_action_at"] else ""
    add("Says", f"{detail['reported_status']}{action}{when}", "" if presence == "alive" else "dim")
    add(
        "Counts",
        f"{measure(detail['items_processed'])} items, {measure(detail['error_count'])} errors, "
        f"{measure(detail['queue_depth'])} queued by its own count",
        "red" if detail["error_count"] else "",
    )
    add(
        "Resources",
        f"{measure(detail['memory_mb'], ' MB')}, {measure(detail['processing_time_avg_ms'], ' ms')} an item, "
        f"up {ago(detail['uptime_seconds'])}",
    )
    lines += _past(history, on)
    return lines


def _turn(detail: Row, now_ms: int) -> tuple[str, str]:
    """What it works on. A dead agent may still hold a turn until its worker's lease ends; both are told."""
    head: Row | None = detail["head"]
    if head is None or head["turn_id"] is None:
        return "idle", ""
    text = f"{head['status']} {head['turn_id']} (start {head['starts']}, epoch {head['epoch']})"
    if head["worker_id"] is not None:
        text += f" on {head['worker_id']}"
    if head["lease_expires_at"] is not None:
        from homeostat.core.clock import parse_rfc3339

        left = (parse_rfc3339(head["lease_expires_at"]) - now_ms) / 1000
        text += f", lease ends in {left:.0f} s" if left >= 0 else ", lease has ended: the turn goes to another worker"
    if head["waiting_tool_count"]:
        text += f", waiting for {head['waiting_tool_count']} tools"
    return text, "yellow" if detail["presence"] == "dead" else ""


def _inbox(head: Row | None) -> str:
    if head is None:
        return "empty"
    text = f"{head['queued']} waiting, gate {head['gate']}"
    return f"{text} ({head['gate_reason']})" if head["gate_reason"] else text


def _since_reported(moment: str, now_ms: int) -> str:
    """How long ago by the agent's own clock, which may say anything."""
    from homeostat.core.clock import parse_rfc3339

    try:
        seconds = (now_ms - parse_rfc3339(moment)) / 1000
    except (ValueError, OverflowError):
        return moment
    return f"{ago(seconds)} ago" if seconds >= -1 else f"at {moment} by its own clock"


def _past(history: Sequence[Row], on: Screen) -> list[str]:
    points = history[-POINTS_MAX:]
    if on.width is not None:
        points = points[-max(on.width - TITLE_CHARS - 24, 10) :]
    if len(points) < 2:
        return []
    rates = [max(0, after["items_processed"] - before["items_processed"]) for before, after in zip(points, points[1:])]  # noqa: B905, RUF007
    graphs = (
        ("Queue", [point["queue_depth"] for point in points], ""),
        ("Items/beat", rates, ""),
        ("Memory", [point["memory_mb"] for point in points], " MB"),
    )
    return [
        f"  {title:<{TITLE_CHARS - 2}}  {sparkline(values)}  {measure(min(values))} to {measure(max(values), unit)}"
        for title, values, unit in graphs
    ]


def sparkline(values: Sequence[float]) -> str:
    """Values as bars between their least and their greatest."""
    low, high = min(values), max(values)
    span = high - low
    return "".join(BARS[int((value - low) / span * (len(BARS) - 1))] if span else BARS[0] for value in values)
