"""A figure says of which interpreter it is."""

import sysconfig

import pytest

from benchmarks import __main__ as command
from benchmarks._compare import page
from benchmarks._measure import interpreter


@pytest.mark.parametrize(
    ("arguments", "told"),
    [("'--enable-optimizations' '--with-lto'", "with"), ("'--enable-shared'", "without"), (None, "without")],
)
def test_an_interpreter_says_how_it_was_built(
    arguments: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments}.get)
    assert interpreter().endswith(f" ({told} profile-guided optimisation)")


def test_figures_are_headed_by_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "iter_modules", lambda _: ())
    assert command.main([]) == 0
    assert capsys.readouterr().out == f"{interpreter()}\n"
    assert page._machine().endswith(interpreter())
