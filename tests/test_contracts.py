"""Every import contract can fail: one violation of each is planted in a copy of the package and must be found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Contract, the module that breaks it, and the line that does.
VIOLATIONS = [
    ("floors", "core/planted.py", "import homeostat.kernel"),
    ("floors", "kernel/planted.py", "import homeostat.fleet"),
    ("floors", "planted/__init__.py", ""),
    ("floors", "immune/planted.py", "import homeostat.bench"),
    ("rooms-touch-no-driver", "kernel/planted.py", "import sqlite3"),
    ("adapters-see-ports-and-records", "adapters/planted.py", "import homeostat.kernel"),
    ("agents-drag-no-server", "client/planted.py", "import fastapi"),
    ("faults-are-out-of-sight", "immune/planted.py", "import homeostat.testing.ailments"),
    ("faults-are-out-of-sight", "gateway/planted.py", "import homeostat.adapters.upstreams.simulated.faults"),
    ("numpy-only-in-immune", "fleet/planted.py", "import numpy"),
]


def lint(directory: Path, contract: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package below this directory, which is imported instead of the installed one."""
    arguments = ["--no-cache", *(["--contract", contract] if contract else [])]
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src" / "homeostat", tmp_path / "homeostat", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_package_keeps_every_contract(copy: Path) -> None:
    result = lint(copy)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("contract", "module", "line"), VIOLATIONS)
def test_a_planted_violation_is_found(copy: Path, contract: str, module: str, line: str) -> None:
    planted = copy / "homeostat" / module
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f'"""Planted."""\n\n{line}\n')
    result = lint(copy, contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "planted" in result.stdout


def test_every_contract_has_a_violation() -> None:
    import tomllib

    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {contract["id"] for contract in configuration["tool"]["importlinter"]["contracts"]}
    assert contracts == {contract for contract, _, _ in VIOLATIONS}
