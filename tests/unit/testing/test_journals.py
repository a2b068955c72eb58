"""The notes of parties that are killed while they write."""

from pathlib import Path

from homeostat.testing.chaos import journals
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
