"""A number on the command line is one that can be counted to: nan and inf are usage errors wherever one is read."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from homeostat.cli.application import application


def fractions(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every option that takes a number with a fraction, behind the words of its command."""
    for name, nested in getattr(command, "commands", {}).items():
        yield from fractions(nested, *path, name)
    for parameter in command.params:
        if parameter.type_descriptor.annotation is float:
            yield path, parameter


FRACTIONS = list(fractions(typer.main.get_command(application)))


def test_there_are_options_that_take_a_number() -> None:
    assert len(FRACTIONS) > 5


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("path", "parameter"), FRACTIONS, ids=lambda part: getattr(part, "name", None))
def test_an_option_takes_only_what_can_be_counted_to(path: tuple[str, ...], parameter: Any, value: str) -> None:
    required = ["x"] * 3 if path[-1] != "create" else ["name"]
    told = CliRunner().invoke(application, [*path, f"{parameter.opts[0]}={value}", *required])
    assert told.exit_code == 2, told.output
    assert parameter.opts[0] in told.output


@pytest.mark.parametrize("budget", ["usd=nan", "usd=inf", "time=infm", "usd=-1", "usd=1,usd=100", "time=1m,seconds=5"])
@pytest.mark.parametrize("command", [["run", "goal"], ["resume", "run_1"]])
def test_a_budget_that_would_bound_nothing_is_a_usage_error(command: list[str], budget: str) -> None:
    told = CliRunner().invoke(application, [*command, "--budget", budget, "--url", "http://127.0.0.1:9"])
    assert told.exit_code == 2, told.output
    assert "usd" in told.stderr
