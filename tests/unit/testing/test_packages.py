"""Programs for tests: found, or installed once where that was allowed, and never by surprise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from homeostat.testing import packages
from homeostat.testing.packages import Needed, ProgramMissing

TOOL = Needed("tool-package", ("homeostat-tool", "homeostat-tool-too"))
APT = """#!/bin/sh
echo "$@" >> "{place}/asked"
case "$*" in *install*) {install} ;; esac
"""
MAKE = 'sleep 0.2; printf \'#!/bin/sh\\n\' > "{place}/homeostat-tool-too"; chmod +x "{place}/homeostat-tool-too"'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose apt-get writes down what it was asked, and whose user is root."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(packages, "SEARCHED", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(packages.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("HOMEOSTAT_TEST_INSTALL", "1")
    apt(tmp_path, MAKE.format(place=tmp_path))
    return tmp_path


def apt(place: Path, install: str) -> None:
    (place / "apt-get").write_text(APT.format(place=place, install=install))
    (place / "apt-get").chmod(0o755)


def asked(place: Path) -> list[str]:
    return (place / "asked").read_text().splitlines() if (place / "asked").exists() else []


def test_what_is_missing_is_installed_and_then_found(place: Path) -> None:
    assert packages.program(TOOL) == str(place / "homeostat-tool-too")
    assert packages.program(TOOL) == str(place / "homeostat-tool-too")
    assert asked(place) == ["-q update", "-q install -y --no-install-recommends tool-package"]


@pytest.mark.parametrize(("name", "value"), [("HOMEOSTAT_TEST_INSTALL", "0"), ("CI", "false"), ("CI", "")])
def test_nothing_is_installed_where_nobody_allowed_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.delenv("HOMEOSTAT_TEST_INSTALL")
    monkeypatch.setenv("CI", "true" if name != "CI" else value)
    monkeypatch.setenv(name, value)
    with pytest.raises(ProgramMissing, match="only where CI or HOMEOSTAT_TEST_INSTALL is 1"):
        packages.program(TOOL)
    packages.main()
    assert asked(place) == []


def test_only_root_installs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ProgramMissing, match="only root"):
        packages.program(TOOL)
    assert asked(place) == []


def test_what_failed_a_moment_ago_is_told_and_not_tried_again(place: Path) -> None:
    apt(place, "echo no such package >&2; exit 100")
    for _ in range(2):
        with pytest.raises(ProgramMissing, match="no such package"):
            packages.program(TOOL)
    assert len(asked(place)) == 2


def test_however_many_ask_at_once_it_is_installed_once(place: Path) -> None:
    ask = (
        "import os; os.geteuid = lambda: 0\n"
        "from homeostat.testing.packages import Needed, program\n"
        "print(program(Needed('tool-package', ('homeostat-tool-too',))))"
    )
    environment = {**os.environ, "TMPDIR": str(place)}
    asking = [
        subprocess.Popen([sys.executable, "-c", ask], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert {one.communicate(timeout=60)[0].strip() for one in asking} == {str(place / "homeostat-tool-too")}
    assert len(asked(place)) == 2
