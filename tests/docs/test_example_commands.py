"""Every example can be tried as its first lines say."""

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from homeostat.testing.homeostat import HomeostatServer

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py")
COMMANDS = ("homeostat ", "python ")


def commands_of(path: Path) -> list[str]:
    lines = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    return [line for line in lines if line.startswith(COMMANDS)]


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_its_first_lines_say(path: Path, server: HomeostatServer, tmp_path: Path) -> None:
    environment = os.environ | {"HOMEOSTAT_URL": server.url, "XDG_DATA_HOME": str(tmp_path)}
    running: list[subprocess.Popen[str]] = []
    commands = commands_of(path)
    assert commands
    try:
        for command in commands:
            first, *rest = shlex.split(command)
            words = [sys.executable, *(["-m", "homeostat"] if first == "homeostat" else []), *rest]
            if "enqueue" in words:
                done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
                assert "success" in done.stdout
                continue
            job = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
            running.append(job)
            if first == "homeostat":
                assert job.stdout is not None
                assert " hosts " in job.stdout.readline()
            else:
                while not httpx2.get(f"{server.url}/v1/tools").json()["items"]:
                    assert job.poll() is None
    finally:
        for job in running:
            job.kill()
            job.communicate()
