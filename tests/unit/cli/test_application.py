"""The command answers at once: help and version need neither a server nor a store."""

import subprocess
import sys

from typer.main import get_command
from typer.testing import CliRunner

import homeostat
from homeostat.cli.application import application
from homeostat.cli.grouping import GROUPS, Grouped

HEAVY = ("asyncpg", "fastapi", "nats", "numpy", "redis", "sqlite3", "starlette", "uvicorn")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "importtime", "-m", "homeostat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def heavy_imports(result: subprocess.CompletedProcess[str]) -> list[str]:
    imported = {
        line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines() if line.startswith("import time:")
    }
    assert "typer" in imported
    return [name for name in HEAVY if name in imported]


def test_help_is_light() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert "homeostat [OPTIONS] COMMAND" in result.stdout
    assert heavy_imports(result) == []


def test_version() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"homeostat {homeostat.__version__}\n")
    assert heavy_imports(result) == []


def test_an_unknown_command_is_refused() -> None:
    result = run("nonsense")
    assert result.returncode == 2
    assert "nonsense" in result.stderr


def test_every_command_has_its_place_in_the_help() -> None:
    shown = CliRunner().invoke(application, ["--help"], terminal_width=80).stdout
    command = get_command(application)
    assert isinstance(command, Grouped)
    placed = [name for names in GROUPS.values() for name in names]
    assert sorted(placed) == sorted(name for name, one in command.commands.items() if not one.hidden)
    assert [title for title in GROUPS if f"\n{title}:\n" in shown] == list(GROUPS)
    assert "Other:" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_no_sentence_of_the_help_is_cut() -> None:
    for group in ([], ["get"], ["describe"], ["why"], ["treatment"]):
        shown = CliRunner().invoke(application, [*group, "--help"], terminal_width=80).stdout
        told = shown.split("[ARGS]...", 1)[1]
        assert "..." not in told, group
