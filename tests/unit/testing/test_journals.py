"""The notes of parties that are killed while they write."""

from pathlib import Path

import pytest

from homeostat.testing.chaos import journals
from homeostat.testing.chaos.installation import Stall
from homeostat.testing.parties import Journal


def test_a_line_that_a_kill_cut_short_spoils_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "effects-7.jsonl"
    first = Journal(path)
    first.note(turn="a", step="s", epoch=1, token=1)
    with path.open("ab") as torn:
        torn.write(b'{"turn": "turn_01a')
    Journal(path).note(turn="b", step="s", epoch=1, token=2)  # numbers of processes come back
    found = journals.effects(journals.entries(tmp_path, "effects-*.jsonl"))
    assert [effect.turn_id for effect in found] == ["a", "b"]


def test_who_stood_still_has_woken_to_nothing_if_another_began_its_turn_and_it_was_told() -> None:
    stall = Stall(pid=7, until=100.0)
    mine, others = {"begun": "a", "agent": "x", "by": 7, "at": 98.0}, {"begun": "a", "agent": "x", "by": 8, "at": 99.9}
    told = {"lost": "a", "by": 7, "at": 100.1}
    assert journals.woke_to_nothing([mine, others, told], [stall, Stall(pid=9, until=100.0)]) == 1
    assert journals.woke_to_nothing([mine, told], [stall]) == 0, "somebody stopped the turn"
    assert journals.woke_to_nothing([mine, others], [stall]) == 0, "it was never told"
    for at in (99.0, 200.0):
        assert journals.woke_to_nothing([mine, others, told | {"at": at}], [stall]) == 0, "it had not stood still then"


def test_a_turn_that_was_begun_or_answered_while_its_agent_was_isolated_is_found_out() -> None:
    spells = [journals.Spell("patient", 8.0, 10.0, 12.0), journals.Spell("patient", 18.0, None, 22.0)]
    in_hand, later = ({"begun": "a", "agent": "patient", "by": 7, "at": at} for at in (9.9, 12.1))
    begun = {"begun": "b", "agent": "patient", "by": 7, "at": 11.0}
    ended = {"end": "c", "card": "card_c", "agent": "patient", "at": 10.0}
    sent = {"turn": "d", "payload": "{}", "agent": "patient", "sent_at": 18.5}
    drained = {"end": "e", "card": "card_e", "agent": "patient", "at": 19.0}
    assert journals.served_isolated([in_hand, later, drained, begun | {"agent": "agent-1"}], spells) == []
    assert journals.served_isolated([sent, {"begun": "d", "agent": "patient", "by": 7, "at": 22.5}], spells) == []
    found = journals.served_isolated([in_hand, begun, ended, later], spells)
    assert [("b was begun" in words, "c was answered" in words) for words in found] == [(True, False), (False, True)]
    assert found[0].endswith("nothing may have been in hand any more for 1.00 s")
    (found,) = journals.served_isolated([{"begun": "d", "agent": "patient", "by": 7, "at": 19.0}, sent], spells)
    assert "d was begun" in found, "it was sent when the quarantine was enforced already"
    assert found.endswith("it was sent 0.50 s after that was enforced")


def test_a_turn_was_held_back_if_it_was_sent_to_an_isolated_agent_and_begun_afterwards() -> None:
    spells = [journals.Spell("patient", 10.0, None, 12.0)]
    sent = {"turn": "a", "payload": "{}", "agent": "patient", "sent_at": 11.0}
    begun = {"begun": "a", "agent": "patient", "by": 7, "at": 12.5}
    assert journals.held_back([sent, begun], spells) == 1
    assert journals.held_back([sent], spells) == 0, "nobody hosts the agent"
    assert journals.held_back([sent, begun | {"at": 11.5}], spells) == 0, "it was not held back"
    assert journals.held_back([sent | {"sent_at": 9.0}, begun], spells) == 0, "it was sent before"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"turn": "a", "payload": "{}"}, {"payload": "[]"}),
        ({"end": "a", "card": "card_1"}, {"card": "card_2"}),
        ({"result": "call", "turn": "a", "card": "card_1"}, {"card": "card_2"}),
        ({"step": "s", "turn": "a", "outcome": '{"epoch":1}'}, {"outcome": '{"epoch":2}'}),
    ],
    ids=["a payload", "an end", "a result", "a step"],
)
def test_who_was_told_one_thing_and_then_another_was_told_something_untrue(
    first: dict[str, str], then: dict[str, str]
) -> None:
    assert journals.acknowledged([first, first]).contradictions == []
    assert len(journals.acknowledged([first, first | then]).contradictions) == 1
