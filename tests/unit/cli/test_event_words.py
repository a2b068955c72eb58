"""Events in a terminal: in words, whole, and no way for an agent to command it."""

import re
from typing import Any

import pytest

from homeostat.cli.event_words import line, told
from homeostat.cli.tables import Screen, room

RULE = {
    "policy_id": "immune.hold.ann",
    "project": "default",
    "agent_id": "ann",
    "action": "block",
    "origin": "immune",
    "reason": "latency is 5832 ms",
    "expires_at_ms": None,
    "allow": [],
}
STEP = {"agent_id": "ann", "source": "draining", "target": "quarantined", "cause": "nothing is in flight", "actor": "i"}


@pytest.mark.parametrize(
    ("kind", "data", "whom", "words"),
    [
        ("policy", {"target": "x", "set": RULE, "version": 3}, "ann", "block is in force by immune"),
        ("policy", {"target": "immune.hold.ann", "dropped": "immune.hold.ann"}, "immune.hold.ann", "is lifted"),
        ("policy", {"target": "run_1", "budget": "run_1"}, "run_1", "has another budget"),
        ("phase", STEP, "ann", "draining → quarantined by i: nothing is in flight"),
        (
            "approval",
            {"agent_id": "ann", "action": "reset_memory", "status": "pending", "approval_id": "apr_1"},
            "ann",
            "reset_memory waits for your word: homeostat approve apr_1",
        ),
        (
            "memory",
            {"what": "vetoed", "agent_id": None, "diagnosis": "unknown", "action": "reset_agent", "actor": "eve"},
            "everybody",
            "reset_agent against unknown is vetoed by eve",
        ),
        (
            "memory",
            {"what": "imported", "lessons": 2, "feedback": 0, "vetoes": 1, "actor": "eve", "reason": "x"},
            "everybody",
            "eve brought lessons 2, feedback 0, vetoes 1: x",
        ),
        (
            "memory",
            {"what": "withdrawn", "agent_id": "ann", "cause": "correct", "actor": "eve", "reason": ""},
            "ann",
            "eve took back correct",
        ),
        (
            "run",
            {"run_id": "run_1", "status": "paused", "actor": "bea", "reason": "x", "tasks": {"held": 1}},
            "run_1",
            "paused by bea: x (1 held)",
        ),
        ("weather", {"seq": 1, "kind": "weather", "at_ms": 5, "target": "sky", "colour": "red"}, "sky", "colour=red"),
        ("run", {"target": "run_1", "state": "of a newer server"}, "run_1", "state=of a newer server"),
    ],
)
def test_an_event_is_a_sentence(kind: str, data: dict[str, Any], whom: str, words: str) -> None:
    found, said = told(kind, data)
    assert found == whom
    assert words in said
    assert not re.search(r"[{}']", said), "what programs write is not shown to people"


def test_why_an_agent_is_held_is_told_by_its_phase_and_not_again() -> None:
    assert "latency" not in told("policy", {"target": "x", "set": RULE})[1]
    assert "latency" in told("policy", {"target": "x", "set": RULE | {"policy_id": "calm", "origin": "ann"}})[1]


def test_what_does_not_fit_goes_on_below() -> None:
    said = {"agent_id": "ann", "action": "reset_memory", "status": "pending", "approval_id": "apr_" + "0" * 24}
    text = line({"event": "approval", "data": {"at_ms": 0, **said}}, on=Screen(60))
    assert text.startswith("00:00:00  approval")
    assert max(map(room, text.splitlines())) <= 60
    assert "homeostat approve apr_" in " ".join(text.split()), "what is to be typed is not cut"


def test_an_agent_cannot_command_a_terminal() -> None:
    text = line({"event": "alert", "data": {"at_ms": 0, "target": "a\x1b[2J", "reason": "b\rc"}}, on=Screen(80))
    assert text.isprintable()
