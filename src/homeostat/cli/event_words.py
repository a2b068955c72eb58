"""Events in words, a line each: when, what kind, whom it is about, what happened."""

import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from homeostat.cli.tables import Screen, plain, styled

Data = dict[str, Any]

KIND_CHARS: Final = 11
STYLES: Final = {"alert": "red", "phase": "magenta", "approval": "yellow", "budget": "yellow", "policy": "cyan"}
_KNOWN: Final = frozenset({"seq", "kind", "at_ms"})


def line(event: Data, *, on: Screen) -> str:
    """One event; what does not fit goes on below, behind its head."""
    kind, data = event["event"], event["data"]
    whom, said = told(kind, data)
    at = datetime.fromtimestamp(data["at_ms"] / 1000, UTC).strftime("%H:%M:%S") if "at_ms" in data else " " * 8
    head = f"{at}  {kind:<{KIND_CHARS}} "
    text = plain(f"{whom}  {said}".strip())
    lines = [text]
    if on.width is not None and on.width > 2 * len(head):
        lines = textwrap.wrap(text, on.width - len(head), break_on_hyphens=False) or [""]
    style = STYLES.get(kind, "")
    return head + f"\n{' ' * len(head)}".join(styled(part, style, on=on) for part in lines)


def told(kind: str, data: Data) -> tuple[str, str]:
    """Whom an event is about, and what it says."""
    words = _WORDS.get(kind, _other)
    try:
        return words(data)
    except (KeyError, TypeError, AttributeError):  # a server of another version may tell it otherwise
        return _other(data)


def _other(data: Data) -> tuple[str, str]:
    whom = str(data.get("agent_id") or data.get("target") or "")
    said = (f"{name}={value}" for name, value in data.items() if name not in _KNOWN and value not in (None, "", [], {}))
    return whom, "  ".join(said)


def _presence(data: Data) -> tuple[str, str]:
    return data["agent_id"], f"is {data['presence']} ({data['event']})"


def _turn(data: Data) -> tuple[str, str]:
    more: Data = data.get("metadata") or {}
    doing = more.get("activity")
    turn_id = data["turn_id"]
    words = f"{data['status']}{f', {doing}' if doing else ''}{f' {turn_id}' if turn_id else ''}"
    gate = "" if data["gate"] == "open" else f", gate {data['gate']}"
    return data["agent_id"], f"{words}{gate}, {data['queued']} waiting"


def _deliverable(data: Data) -> tuple[str, str]:
    took = f" after {data['worked_ms']} ms" if data.get("worked_ms") is not None else ""
    return data["agent_id"], f"{data['turn_id']} ended with {data['status']}{took}"


def _call(data: Data) -> tuple[str, str]:
    cost = "" if data["cost_usd"] is None else f", ${data['cost_usd']:.6f}"
    tokens = f"{data['tokens_in'] or 0} tokens in, {data['tokens_out'] or 0} out"
    failed = " failed" if data["error"] else ""
    took = "" if data["latency_ms"] is None else f"{data['latency_ms']:.0f} ms, "
    return data["agent_id"], f"{data['model'] or 'a call'}{failed}: {took}{tokens}{cost}"


def _phase(data: Data) -> tuple[str, str]:
    why = f": {data['cause']}" if data.get("cause") else ""
    return data["agent_id"], f"{data['source']} → {data['target']} by {data['actor']}{why}"


def _approval(data: Data) -> tuple[str, str]:
    if data["status"] == "pending":
        return data["agent_id"], f"{data['action']} waits for your word: homeostat approve {data['approval_id']}"
    by = f" by {data['answered_by']}" if data.get("answered_by") else ""
    return data["agent_id"], f"{data['action']} is {data['status']}{by} ({data['approval_id']})"


def _alert(data: Data) -> tuple[str, str]:
    return str(data.get("agent_id") or data["target"]), str(data["reason"])


def _policy(data: Data) -> tuple[str, str]:
    if (rule := data.get("set")) is not None:
        whom = rule["agent_id"] or "every agent"
        phase_told_it = rule["policy_id"].startswith("immune.hold.")
        why = f": {rule['reason']}" if rule.get("reason") and not phase_told_it else ""
        return whom, f"{rule['action']} is in force by {rule['origin']} ({rule['policy_id']}){why}"
    if data.get("dropped"):
        return str(data["dropped"]), "is lifted"
    return str(data.get("budget") or data["target"]), "has another budget"


def _budget(data: Data) -> tuple[str, str]:
    forecast = data.get("forecast") or data.get("reason") or ""
    return str(data["holder"]), f"nears its budget{f': {forecast}' if forecast else ''}"


def _run(data: Data) -> tuple[str, str]:
    counts: Data = data.get("tasks") or {}
    tasks = ", ".join(f"{count} {word}" for word, count in counts.items())
    why = f": {data['reason']}" if data.get("reason") else ""
    return data["run_id"], f"{data['status']} by {data['actor']}{why}{f' ({tasks})' if tasks else ''}"


def _memory(data: Data) -> tuple[str, str]:
    whom = str(data.get("agent_id") or "everybody")
    why = f": {data['reason']}" if data.get("reason") else ""
    match data["what"]:
        case "vetoed" | "lifted" as what:
            meant = f"{data['action']} against {data['diagnosis']}"
            return whom, f"{meant} is {'vetoed' if what == 'vetoed' else 'allowed again'} by {data['actor']}{why}"
        case "imported":
            new = f"lessons {data['lessons']}, feedback {data['feedback']}, vetoes {data['vetoes']}"
            return whom, f"{data['actor']} brought {new}{why}"
        case what:
            return whom, f"{data['actor']} {what if what == 'said' else 'took back'} {data['cause']}{why}"


_WORDS: Final[dict[str, Callable[[Data], tuple[str, str]]]] = {
    "presence": _presence,
    "turn": _turn,
    "deliverable": _deliverable,
    "call": _call,
    "phase": _phase,
    "approval": _approval,
    "alert": _alert,
    "policy": _policy,
    "budget": _budget,
    "run": _run,
    "memory": _memory,
}
