"""What a budget on the command line means, how a run is told in one line, and what a rehearsal comes to."""

import pytest
import typer

from homeostat.cli.giving import show_blast
from homeostat.cli.run_view import progress
from homeostat.cli.runs import budget_of, lifted


def test_a_budget_is_read_with_its_units() -> None:
    assert budget_of("usd=2,tokens=50000,time=10m") == {"usd": 2.0, "tokens": 50000, "seconds": 600.0}
    assert budget_of("time=90s") == {"seconds": 90.0}
    assert budget_of("time=2h, usd=$0.5") == {"seconds": 7200.0, "usd": 0.5}


@pytest.mark.parametrize(
    "text",
    [
        *("gold=3", "usd=", "tokens=few", "time=10x", ""),
        *(
            "usd=nan",
            "usd=inf",
            "usd=-1",
            "tokens=-1",
            "tokens=inf",
            "time=inf",
            "time=nanh",
            "time=1e999s",
            "usd=1e999",
        ),
        *("usd=1,usd=100", "time=1m,seconds=5", "tokens=1,usd=2,tokens=1"),
    ],
)
def test_what_is_no_budget_is_told(text: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        budget_of(text)
    assert ended.value.exit_code == 2


def test_a_lifted_button_is_told_with_those_that_still_hold() -> None:
    assert lifted("a", []) == "Runs of project a may begin again"
    assert lifted(None, ["a", "b"]).endswith("may begin again; still pressed for project a, project b")
    assert "no run may begin yet: still pressed for the whole system" in lifted("a", [None, "b"])


def test_progress_is_one_line() -> None:
    budget = {
        "usd_max": 2.0,
        "usd_spent": 0.5,
        "tokens_max": None,
        "seconds_max": 60.0,
        "seconds_spent": 15.0,
        "forecast": "usd cap reached in 45 s",
    }
    run = {"status": "applying", "tasks": {"succeeded": 1, "running": 2, "waiting": 1}, "budget": budget}
    expected = (
        "applying · [#####...............] 1/4 · 2 running · $0.50 of $2.00 · 15 s of 60 s · usd cap reached in 45 s"
    )
    assert progress(run) == expected
    killed = {**run, "status": "killed", "tasks": {"succeeded": 1, "failed": 1, "stopped": 2}}
    assert progress(killed).startswith("killed · [#####...............] 1/4 · 1 failed · 2 stopped · ")


@pytest.mark.parametrize(
    ("undo", "said"),
    [
        ("homeostat resume", "Undone by: homeostat resume. Nothing was done."),
        (
            "It cannot be undone; begin it again.",
            "No other begins. It cannot be undone; begin it again. Nothing was done.",
        ),
    ],
)
def test_a_rehearsal_says_how_it_is_undone_or_that_it_is_not(
    undo: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_blast([{"runs": [], "agents": [], "more": 0, "effect": "No other begins.", "undo": undo}])
    assert capsys.readouterr().err.endswith(f"{said}\n")
