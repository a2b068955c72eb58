"""What a budget on the command line means, how a run is told in one line, and what a rehearsal comes to."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from homeostat.cli.application import application
from homeostat.cli.giving import show_blast
from homeostat.cli.red_button import lifted
from homeostat.cli.run_view import follow, listing, page, progress
from homeostat.cli.runs import budget_of, tasks_of
from homeostat.cli.tables import Screen, table


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
        "reached_in_seconds": 45.0,
    }
    run = {"status": "applying", "tasks": {"succeeded": 1, "running": 2, "waiting": 1}, "budget": budget}
    expected = (
        "applying · [#####...............] 1/4 · 2 running · $0.50 of $2.00 · 15 s of 60 s · usd cap reached in 45 s"
    )
    assert progress(run) == expected
    killed = {**run, "status": "killed", "tasks": {"succeeded": 1, "failed": 1, "stopped": 2}}
    assert progress(killed).startswith("killed · [#####...............] 1/4 · 1 failed · 2 stopped · ")
    parts = expected.split(" · ")
    assert progress(run, width=len(expected)) == expected
    assert progress(run, width=len(expected) - 1) == " · ".join(parts[:-1]), "the forecast goes first, and whole"
    assert progress(run, width=44) == " · ".join(parts[:2])
    assert progress(run, width=4) == "app…"


def test_a_list_says_which_runs_stand_still_and_for_whom() -> None:
    budget = {**dict.fromkeys(("usd_max", "tokens_max", "seconds_max", "forecast")), "usd_spent": 0.5}
    budget |= {"seconds_spent": 4.0, "reached_in_seconds": None}
    known = {"status": "applying", "tasks": {"queued": 3}, "budget": budget, "created_at": "2025-06-15T15:00:00.000Z"}
    known |= {"created_by": "eve", "moved": {"reason": "planned"}}
    runs: list[dict[str, Any]] = [
        {**known, "run_id": f"run_{number:024d}", "goal": f"goal {number} of the week", "waits_for": names}
        for number, names in enumerate([[], ["ann"], ["ann", "bob", "cid", "dan"]])
    ]
    lines = table(*listing(runs), on=Screen(80))
    assert lines[0].split() == ["RUN", "STATUS", "WAITS", "FOR", "TASKS", "AGE", "GOAL"], "what was spent has no room"
    assert max(map(len, lines)) <= 80
    assert [line.split()[2] for line in lines[1:]] == ["0/3", "ann", "ann,"]
    wide = table(*listing(runs, wide=True), on=Screen(None))
    assert [name in wide[0] for name in ("WAITS FOR", "SPENT", "BY", "USED", "WHY")] == [True] * 5
    assert "ann, bob and 2 more" in wide[3]
    assert "WAITS" not in table(*listing(runs[:1]), on=Screen(80))[0], "none of these does"
    old = {name: value for name, value in runs[0].items() if name != "waits_for"}
    assert "WAITS" not in table(*listing([old]), on=Screen(80))[0], "a server that does not say so"
    assert progress(runs[1]) == "applying · [....................] 0/3 · 3 queued · stands still for ann · 4 s"


def test_what_is_left_of_the_time_is_no_news_where_nothing_else_is_bounded() -> None:
    budget = {
        **dict.fromkeys(("usd_max", "tokens_max")),
        "seconds_max": 600.0,
        "seconds_spent": 0.0,
        "forecast": "time cap reached in 10 min",
        "reached_in_seconds": 600.0,
    }
    run: dict[str, Any] = {"status": "applying", "tasks": {}, "budget": budget}
    assert progress(run) == "applying · 0 s of 600 s"
    budget |= {"forecast": "the time cap is reached", "reached_in_seconds": None}
    assert progress(run) == "applying · 0 s of 600 s · the time cap is reached"


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


NOBODY = ["--url", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agent", "a", "--planner", "b"], "say --agent or --planner, not both"),
        (["--tasks", "t.json", "--agent", "a"], "say --tasks or --agent, not both"),
        (["--tasks", "t.json", "--planner", "b"], "say --tasks or --planner, not both"),
        (["--planner", "b", "--planner-function", "f"], "say --planner or --planner-function, not both"),
        (["--agent", "a", "--planner-function", "f"], "say --agent or --planner-function, not both"),
        (["--tasks", "t", "--agent", "a", "--planner", "b"], "say one of --tasks, --agent, --planner"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], said: str) -> None:
    ended = CliRunner().invoke(application, ["run", "a goal", *options, *NOBODY])
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_a_file_of_tasks_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    odd = tmp_path / "tasks.json"
    odd.write_bytes('[{"name": "ü"}]'.encode("latin-1"))
    for path, said in ((odd, "is not UTF-8: its byte 12 is none"), (tmp_path / "none.json", "cannot be read: No such")):
        ended = CliRunner().invoke(application, ["run", "a goal", "--tasks", str(path), *NOBODY])
        assert ended.exit_code == 2
        assert f"{path} {said}" in ended.stderr
    assert "iconv" in CliRunner().invoke(application, ["run", "a goal", "--tasks", str(odd), *NOBODY]).stderr
    odd.write_text('{"tasks": [{"name": "ü"}]}', "utf-8")
    assert tasks_of(str(odd)) == [{"name": "ü"}]


async def test_what_others_wrote_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "wait\x1b]0;owned\x07\x9b2J\nRun        run_other"
    budget = {"usd_max": None, "usd_spent": 0.0, "tokens_max": None, "seconds_max": None, "seconds_spent": 1.0}
    run: dict[str, Any] = {
        **dict.fromkeys(("trace_id", "driver", "planner_name", "paused_by"), evil),
        "run_id": "run_1",
        "goal": evil,
        "status": "failed",
        "at_rest": True,
        "tasks": {},
        "waits_for": [evil],
        "seed": 1,
        "epoch": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "created_by": evil,
        "ledger_entries": 1,
        "ledger_hash": "a",
        "moved": {"at": "2026-01-01T00:00:00Z", "actor": evil, "reason": evil},
        "error": {"message": evil},
        "planner": evil,
        "budget": {**budget, "forecast": None},
    }
    task = {"name": evil, "status": "queued", "agent_id": None, "target": evil, "attempt": 1, "after": [evil]}
    lines = page(run, [task], more=False)
    assert all(line.isprintable() for line in lines), lines
    assert sum(line.startswith("Run ") for line in lines) == 1
    assert sum(line.startswith("Waits for  wait") for line in lines) == 1
    await follow(None, run, quiet=False)  # pyright: ignore[reportArgumentType] - it is over, and nobody is asked
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 3
    assert all(line.isprintable() for line in told), told
