"""What the parties of a campaign noted: what they were told, what their steps did, what they heard."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, CardId, ToolCallId, TurnId
from homeostat.core.records.event import Channel, Event
from homeostat.testing.chaos.installation import Stall
from homeostat.testing.history import Acknowledged, Effect
from homeostat.testing.parties import PROJECT

AWAKE_SECONDS: Final = 2.0


def lines(contents: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """What was noted; a last line that a kill cut short was never on disk as a whole, so nobody relied on it."""
    for content in contents:
        for line in content.splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def entries(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """What the parties of a folder noted under some names."""
    return lines(path.read_bytes() for path in folder.glob(pattern))


def acknowledged(noted: Iterable[dict[str, Any]]) -> Acknowledged:
    """What callers were told, from their notes (`told-*.jsonl`)."""
    told = Acknowledged()
    for entry in noted:
        assert "broken" not in entry, entry
        match entry:
            case {"turn": turn, "payload": payload}:
                told.turns[TurnId(turn)] = Json(payload)
            case {"end": turn, "card": card}:
                assert told.ends.setdefault(TurnId(turn), CardId(card)) == card, f"{turn} ended twice"
            case {"result": call, "turn": turn, "card": card}:
                told.results[TurnId(turn), ToolCallId(call)] = CardId(card)
            case {"step": step, "turn": turn, "outcome": outcome}:
                told.steps[TurnId(turn), step] = Json(outcome)
            case {"seen": _} | {"lost": _} | {"begun": _}:
                pass
            case _:
                raise AssertionError(f"an entry that says nothing: {entry}")
    return told


def seen(noted: Iterable[dict[str, Any]]) -> Counter[str]:
    """What happened to callers by the way, and how often."""
    return Counter(str(entry["seen"]) for entry in noted if "seen" in entry)


def woke_to_nothing(noted: Iterable[dict[str, Any]], stalls: Iterable[Stall]) -> int:
    """How many of those who stood still were told when they went on that somebody else had begun what they held."""
    begun: dict[str, set[int]] = {}
    lost: dict[int, list[tuple[float, str]]] = {}
    for entry in noted:
        match entry:
            case {"begun": turn, "by": pid}:
                begun.setdefault(turn, set()).add(pid)
            case {"lost": turn, "by": pid, "at": at}:
                lost.setdefault(pid, []).append((at, turn))
            case _:
                pass
    return sum(
        any(
            stall.until <= at < stall.until + AWAKE_SECONDS and begun.get(turn, set()) - {stall.pid}
            for at, turn in lost.get(stall.pid, ())
        )
        for stall in stalls
    )


def effects(noted: Iterable[dict[str, Any]]) -> list[Effect]:
    """What steps really did (`effects-*.jsonl`)."""
    return [Effect(TurnId(e["turn"]), e["step"], e["epoch"], e["token"]) for e in noted]


def heard(noted: Iterable[dict[str, Any]]) -> list[Event]:
    """The ends that somebody heard of (`heard.jsonl`)."""
    return [
        Event(e["id"], PROJECT, Channel.EVT, "agent", AgentId(e["target"]), "task", Json(e["payload"])) for e in noted
    ]
