"""The error tree: four families, stable codes, messages that never fail."""

import inspect
import re

import pytest

from homeostat.core import errors
from homeostat.core.errors import Conflict, HomeostatError, ProtocolViolation, Refused, StaleEpoch, Unavailable

FAMILIES = (ProtocolViolation, Conflict, Refused, Unavailable)
ALL = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HomeostatError) and kind is not HomeostatError
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_says_what_it_is(kind: type[HomeostatError]) -> None:
    assert sum(issubclass(kind, family) for family in FAMILIES) == 1, "a caller knows what to do by its family"
    assert re.fullmatch(r"[a-z_]+", kind.code)
    assert 400 <= kind.http_status < 600
    assert kind.__doc__, "the docstring is the message"
    assert kind().message, "an error must never raise another, whatever it was not told"


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in ALL]
    assert len(codes) == len(set(codes))


def test_the_tree_at_the_top_of_the_file_is_the_tree() -> None:
    drawn = set(re.findall(r"\b[A-Z]\w+", (inspect.getdoc(errors) or "").split("The docstring")[0]))
    assert {kind.__name__ for kind in ALL} <= drawn


def test_facts_fill_the_message() -> None:
    error = StaleEpoch(turn_id="turn_1", worker_id="wrk_1", epoch=3)
    assert str(error) == "Turn turn_1 is no longer held by wrk_1 under epoch 3."
    assert error.facts["epoch"] == 3
    assert str(StaleEpoch()) == "Turn <turn_id> is no longer held by <worker_id> under epoch <epoch>."
