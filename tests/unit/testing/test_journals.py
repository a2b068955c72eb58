"""The notes of parties that are killed while they write."""

from pathlib import Path

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
