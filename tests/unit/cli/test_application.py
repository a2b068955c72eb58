"""The command answers at once: help and version need neither a server nor a store."""

import subprocess
import sys

import homeostat

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
