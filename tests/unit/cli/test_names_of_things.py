"""What `-o name` writes, every verb takes."""

import pytest
from typer.main import get_command

from homeostat.cli.application import application
from homeostat.cli.nouns import KINDS, NOUNS, bare, kind_of


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_name_as_it_is_listed_is_the_id_behind_it(kind: str) -> None:
    assert bare(f"{kind}/x-1") == bare("x-1") == "x-1"


def test_what_only_looks_like_one_is_left_alone() -> None:
    assert bare("run_1/publish") == "run_1/publish"
    assert {noun.one for noun in NOUNS} <= KINDS


@pytest.mark.parametrize(
    ("given", "noun"),
    [
        ("ann", "agent"),
        ("agent/run_1", "agent"),
        ("run_1", "run"),
        ("turn_1", "turn"),
        ("inc_1", "incident"),
        ("apr_1", "approval"),
        ("call_1", "call"),
    ],
)
def test_an_id_alone_says_what_it_is_of(given: str, noun: str) -> None:
    assert kind_of(given) == noun
    for verb in ("why", "describe"):
        group = getattr(get_command(application), "commands")[verb]  # noqa: B009 - commands are the framework's
        name, _, rest = group.resolve_command(group.make_context(verb, [given], resilient_parsing=True), [given])
        assert (name, rest) == (noun, [given])
