"""One statement per save on PostgreSQL: whatever parts it has, each parameter is used, and none is missing."""

import re
from itertools import combinations

import pytest

from homeostat.adapters.stores.postgres import turns
from homeostat.adapters.stores.statements import numbered

PARTS = [name for _, name, _ in turns.PARTS]
WIDTHS = {name: 7 if name in turns.LONE else 0 for name in PARTS}


def shapes() -> list[turns.Shape]:
    """Saves of runs with up to three parts, each of one row by its columns where that is possible."""
    return [
        (swap, *((name, WIDTHS[name]) for name in names), (turns.GATES, 0))
        for swap in (("heads_swap", 0), ("head_swap", 21))
        for count in range(4)
        for names in combinations(PARTS, count)
    ]


def used(sql: str) -> set[int]:
    return {int(number) for number in re.findall(r"\$(\d+)", sql)}


def test_every_parameter_of_a_save_has_its_place() -> None:
    for shape in shapes():
        count = sum(width or 1 for name, width in shape if name != turns.GATES) + 3
        assert used(turns._statement(shape)) <= set(range(1, count + 1)), shape
        assert {count - 2, count - 1, count} <= used(turns._statement(shape)), shape


@pytest.mark.parametrize("before", range(25))
def test_places_are_moved_one_by_one(before: int) -> None:
    assert numbered("$1 $2 $10 $11", before) == f"${before + 1} ${before + 2} ${before + 10} ${before + 11}"
