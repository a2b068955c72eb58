"""What `-o name` writes, every verb takes."""

import pytest

from homeostat.cli.nouns import KINDS, NOUNS, bare


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_name_as_it_is_listed_is_the_id_behind_it(kind: str) -> None:
    assert bare(f"{kind}/x-1") == bare("x-1") == "x-1"


def test_what_only_looks_like_one_is_left_alone() -> None:
    assert bare("run_1/publish") == "run_1/publish"
    assert {noun.one for noun in NOUNS} <= KINDS
