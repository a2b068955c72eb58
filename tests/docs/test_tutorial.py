"""The tutorial works as written: its files are saved, its commands are run, and what it shows is what one sees."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeostat.testing.homeostat import HomeostatServer

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "agents.md"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
EXIT_CODE = re.compile(r"\[exit code (\d+)\]")
PATIENCE_SECONDS = 60


class Terminal:
    """Runs commands as a reader would: one after the other, some of them in the background."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = os.environ | {"HOMEOSTAT_URL": url, "XDG_DATA_HOME": str(folder / "data"), "PATH": path}
        self.jobs: list[subprocess.Popen[str]] = []

    def save(self, text: str) -> None:
        name = text.splitlines()[0].removeprefix("# ")
        assert name.endswith(".py"), name
        (self._folder / name).write_text(text)

    def run(self, command: str, expected: list[str]) -> None:
        if command.endswith(" &"):
            self._begin(command.removesuffix(" &"), expected)
        elif command == "kill -9 $!":
            self.jobs[-1].kill()
            self.jobs[-1].wait()
        else:
            code = 0
            if expected and (told := EXIT_CODE.fullmatch(expected[-1])):
                code = int(told[1])
                expected = expected[:-1]
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            assert done.returncode == code, f"$ {command}\n{done.stdout}"
            see(command, done.stdout.splitlines(), expected)

    def _begin(self, command: str, expected: list[str]) -> None:
        job = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.jobs.append(job)
        assert job.stdout is not None
        if expected:
            see(command, [job.stdout.readline().rstrip()], expected)

    def close(self) -> None:
        for job in self.jobs:
            job.send_signal(signal.SIGKILL)
            job.communicate()


def see(command: str, lines: list[str], expected: list[str]) -> None:
    """Every line that is shown was printed, in that order; `…` stands for anything."""
    rest = iter(lines)
    for line in expected:
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(printed) for printed in rest), f"$ {command}\nno {line!r} in {lines}"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with HomeostatServer() as server:
        terminal = Terminal(tmp_path, server.url)
        try:
            yield terminal
        finally:
            terminal.close()


def test_the_tutorial(terminal: Terminal) -> None:
    for language, text in BLOCK.findall(PAGE.read_text()):
        if language == "python":
            terminal.save(text)
            continue
        command, *following = re.split(r"^\$ ", text, flags=re.MULTILINE)
        assert not command
        for part in following:
            command, *expected = part.splitlines()
            terminal.run(command, expected)
