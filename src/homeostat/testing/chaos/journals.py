"""What the parties of a campaign noted: what they were told, what their steps did, what they heard."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, CardId, ToolCallId, TurnId
from homeostat.core.records.event import Channel, Event
from homeostat.testing.chaos.installation import Stall
from homeostat.testing.history import Acknowledged, Effect
from homeostat.testing.parties import PROJECT

K = TypeVar("K")
V = TypeVar("V")

AWAKE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which an agent was isolated and nobody may serve it, by the clock that all on this machine share."""

    agent_id: str
    enforced: float
    """From here on nothing more is begun: what was sent later waits."""
    shut: float | None
    """From here on nothing is in hand any more either; None if nobody saw that."""
    until: float


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
    """What callers were told, from their notes (`told-*.jsonl`).

    Whoever was told one thing and then another was told something untrue, whichever of them is stored in the end.
    """
    told = Acknowledged()

    def keep(known: dict[K, V], key: K, value: V) -> None:
        if (first := known.setdefault(key, value)) != value:
            told.contradictions.append(f"{key} was acknowledged as {first}, and as {value}")

    for entry in noted:
        assert "broken" not in entry, entry
        match entry:
            case {"turn": turn, "payload": payload}:
                keep(told.turns, TurnId(turn), Json(payload))
            case {"end": turn, "card": card}:
                keep(told.ends, TurnId(turn), CardId(card))
            case {"result": call, "turn": turn, "card": card}:
                keep(told.results, (TurnId(turn), ToolCallId(call)), CardId(card))
            case {"step": step, "turn": turn, "outcome": outcome}:
                keep(told.steps, (TurnId(turn), str(step)), Json(outcome))
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


def served_isolated(noted: Iterable[dict[str, Any]], spells: Sequence[Spell]) -> list[str]:
    """Turns that a worker began or answered while their agent was isolated."""
    found: list[str] = []
    sent: dict[str, float] = {}
    did: list[tuple[str, str, str, float]] = []
    for entry in noted:
        match entry:
            case {"turn": turn, "sent_at": at}:
                sent[turn] = at
            case {"begun": turn, "agent": agent, "at": at}:
                did.append((agent, turn, "begun", at))
            case {"end": turn, "agent": agent, "at": at}:
                did.append((agent, turn, "answered", at))
            case _:
                pass
    for agent, turn, what, at in did:
        for spell in spells:
            if spell.agent_id != agent or at >= spell.until:
                continue
            if (sent_at := sent.get(turn, 0.0)) >= spell.enforced:
                why = f"it was sent {sent_at - spell.enforced:.2f} s after that was enforced"
            elif spell.shut is not None and at >= spell.shut:
                why = f"nothing may have been in hand any more for {at - spell.shut:.2f} s"
            else:
                continue
            words = f"{turn} was {what} {spell.until - at:.2f} s before its release; {why}"
            found.append(f"always_the_isolated_are_not_served: {words}")
    return found


def held_back(noted: Iterable[dict[str, Any]], spells: Sequence[Spell]) -> int:
    """How many turns were sent to an agent while it was isolated, and begun when it no longer was."""
    sent: dict[str, tuple[str, float]] = {}
    begun: dict[str, list[float]] = {}
    for entry in noted:
        match entry:
            case {"turn": turn, "agent": agent, "sent_at": at}:
                sent[turn] = agent, at
            case {"begun": turn, "at": at}:
                begun.setdefault(turn, []).append(at)
            case _:
                pass
    return sum(
        any(spell.agent_id == agent and spell.enforced <= at < spell.until <= min(begun[turn]) for spell in spells)
        for turn, (agent, at) in sent.items()
        if turn in begun
    )


def effects(noted: Iterable[dict[str, Any]]) -> list[Effect]:
    """What steps really did (`effects-*.jsonl`)."""
    return [Effect(TurnId(e["turn"]), e["step"], e["epoch"], e["token"]) for e in noted]


def heard(noted: Iterable[dict[str, Any]]) -> list[Event]:
    """The ends that somebody heard of (`heard.jsonl`)."""
    return [
        Event(e["id"], PROJECT, Channel.EVT, "agent", AgentId(e["target"]), "task", Json(e["payload"])) for e in noted
    ]
