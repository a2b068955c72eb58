"""The how-tos for frameworks and engines do what they say: each page runs, in order, on a server started as it says.

A block `sh server` is how the server is started. In a block `console`, lines without a `$` are what the command
prints, with `…` for anything. A block for a framework runs where that framework is installed (`make frameworks`).
"""

import fnmatch
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from homeostat.testing.homeostat import HomeostatServer

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
DEFAULT_URL = "http://127.0.0.1:7700"
PAGES = (
    "openai-sdk",
    "anthropic-sdk",
    "langgraph",
    "openai-agents",
    "pydantic-ai",
    "sqlite",
    "postgresql",
    "nats",
    "redis",
)
ELSEWHERE = {
    "adopt-an-agent": "test_adopting.py",
    "hold-an-agent": "test_operator_pages.py",
    "prove-and-replay-a-run": "test_operator_pages.py",
    "run-a-fleet": "test_fleet_page.py",
    "scale-out": "test_scale_out_page.py",
}
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    server: bool
    name: str
    framework: str
    text: str

    @property
    def runnable(self) -> bool:
        return not self.framework or importlib.util.find_spec(self.framework) is not None

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command, and what it is to print."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected.strip()


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    for language, words, text in BLOCK.findall((HOWTO / f"{page}.md").read_text()):
        told = dict(re.findall(r"(\w+)=(\S+)", words))
        found.append(Block(language, "server" in words.split(), told.get("name", ""), told.get("framework", ""), text))
    return found


@pytest.fixture
def options(request: pytest.FixtureRequest, page: str) -> list[str]:
    """What the page starts its server with, on engines of our own."""
    started = [block.text for block in blocks(page) if block.server]
    given = shlex.split(started[0])[2:] if started else []
    for flag, engine in (("--store-url", "postgres_url"), ("--bus-url", "nats_url"), ("--status-url", "redis_url")):
        if flag in given:
            given[given.index(flag) + 1] = str(request.getfixturevalue(engine))
    if "--data-dir" in given:  # each server here has a directory of its own
        del given[given.index("--data-dir") : given.index("--data-dir") + 2]
    return given


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(page: str, options: list[str], tmp_path: Path) -> None:
    told = blocks(page)
    assert all(block.language in ("python", "console", "sh") for block in told)
    if not any(block.runnable for block in told if block.language == "console"):
        pytest.skip("its framework is an optional extra that is not installed (make frameworks)")
    with HomeostatServer(*options, "--no-demo", command="up") as server:
        scripts = Path(sys.executable).parent
        environment = {
            **os.environ,
            "HOMEOSTAT_URL": server.url,
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(tmp_path),
        }
        for block in told:
            if block.language == "python":
                (tmp_path / block.name).write_text(block.text)
            elif block.language == "console" and block.runnable:
                for command, expected in block.commands():
                    line = command.replace(DEFAULT_URL, server.url)
                    done = subprocess.run(
                        ["/bin/sh", "-c", line],
                        cwd=tmp_path,
                        env=environment,
                        capture_output=True,
                        text=True,
                        check=False,
                        timeout=100,
                    )
                    assert done.returncode == 0, (command, done.stdout, done.stderr)
                    pattern = expected.replace("[", "[[]").replace("…", "*")
                    assert fnmatch.fnmatchcase(done.stdout.strip(), pattern), (command, done.stdout)


def test_every_page_with_commands_is_run_by_a_test() -> None:
    for path in HOWTO.glob("*.md"):
        if "```" in path.read_text() and path.stem not in PAGES:
            assert path.stem in ELSEWHERE, f"nothing runs {path.name}"
            assert (Path(__file__).parent / ELSEWHERE[path.stem]).exists(), ELSEWHERE[path.stem]


def test_every_page_is_found_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for folder in ("howto", "explanation", "reference", "tutorial"):
        for path in (ROOT / "docs" / folder).glob("*.md"):
            assert f"({folder}/{path.name})" in index, f"{folder}/{path.name} is not in docs/README.md"


def test_links_between_pages_lead_somewhere() -> None:
    for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"
