"""The how-tos for frameworks and engines do what they say: each page runs, in order, on a server started as it says.

A block `sh server` is how the server is started. In a block `console`, lines without a `$` are what the command
prints, with `…` for anything; a command that ends with `&` goes on beside the others until the page ends. A block for a
framework runs where that framework is installed (`make frameworks`).
"""

import fnmatch
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
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
    "veto-a-remedy",
)
ELSEWHERE = {
    "adopt-an-agent": "test_adopting.py",
    "hold-an-agent": "test_operator_pages.py",
    "plan-with-a-function": "test_planner_page.py",
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


@dataclass(frozen=True)
class Given:
    """What the page starts its server with, and what stands for the addresses that it names."""

    options: list[str]
    addresses: dict[str, str]
    data_dir: Path | None


@pytest.fixture
def given(request: pytest.FixtureRequest, page: str, tmp_path: Path) -> Given:
    started = [block.text for block in blocks(page) if block.server]
    options = shlex.split(started[0])[2:] if started else []
    addresses: dict[str, str] = {}
    for flag, engine in (("--store-url", "postgres_url"), ("--bus-url", "nats_url"), ("--status-url", "redis_url")):
        if flag in options:
            place = options.index(flag) + 1
            addresses[options[place]] = options[place] = str(request.getfixturevalue(engine))
    data_dir = None
    if "--data-dir" in options:
        place = options.index("--data-dir")
        data_dir = tmp_path / options[place + 1]
        del options[place : place + 2]
    return Given(options, addresses, data_dir)


class Terminal:
    """Runs the commands of a page, each with what it is to print; some go on beside the others until the end."""

    def __init__(self, server: HomeostatServer, folder: Path, given: Given) -> None:
        self._addresses = {**given.addresses, DEFAULT_URL: server.url}
        self._folder = folder
        self._environment = {
            **os.environ,
            "HOMEOSTAT_URL": server.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_DATA_HOME": str(folder),
        }
        self.beside = ExitStack()

    def run(self, command: str, expected: str) -> None:
        line = command
        for named, real in self._addresses.items():
            line = line.replace(named, real)
        if line.endswith(" &"):
            self._begin(line.removesuffix(" &"), expected)
            return
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        _see(command, done.stdout, expected)

    def _begin(self, line: str, expected: str) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.beside.callback(process.communicate)
        self.beside.callback(process.terminate)
        assert process.stdout is not None
        said = ""
        while "Press Ctrl-C to stop" not in said:
            heard = process.stdout.readline()
            assert heard, (line, said)
            said += heard
        _see(line, said, f"{expected}…")


def _see(command: str, said: str, expected: str) -> None:
    pattern = expected.replace("[", "[[]").replace("…", "*")
    assert fnmatch.fnmatchcase(said.strip(), pattern), (command, said)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(page: str, given: Given, tmp_path: Path) -> None:
    told = blocks(page)
    assert all(block.language in ("python", "console") or block.server for block in told), "a block that nothing runs"
    if not any(block.runnable for block in told if block.language == "console"):
        pytest.skip("its framework is an optional extra that is not installed (make frameworks)")
    with HomeostatServer(*given.options, "--no-demo", command="up", data_dir=given.data_dir) as server:
        terminal = Terminal(server, tmp_path, given)
        with terminal.beside:
            for block in told:
                if block.language == "python":
                    (tmp_path / block.name).write_text(block.text)
                elif block.language == "console" and block.runnable:
                    for command, expected in block.commands():
                        terminal.run(command, expected)


def test_every_page_with_commands_is_run_by_a_test() -> None:
    for path in HOWTO.glob("*.md"):
        if "```" in path.read_text() and path.stem not in PAGES:
            assert path.stem in ELSEWHERE, f"nothing runs {path.name}"
            assert (Path(__file__).parent / ELSEWHERE[path.stem]).exists(), ELSEWHERE[path.stem]


def test_every_block_is_of_a_kind_that_a_test_runs() -> None:
    """A block of shell that is no console, or of anything else, would stand there unread."""
    written = [ROOT / "README.md", *HOWTO.glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.md")]
    written += [*(ROOT / "docs" / "explanation").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    for path in written:
        for language, words, text in BLOCK.findall(path.read_text()):
            title = f"{path.name}: {language}{words} {text[:60]!r}"
            if language == "sh":
                assert words.strip() in ("server", "compose", "kubernetes"), title
            elif language in ("text", "json"):
                assert path.stem == "prove-and-replay-a-run", title
            else:
                assert language in ("console", "python"), title
            assert path.parent.name not in ("explanation", "decisions"), f"nothing runs {title}"


def test_whoever_follows_a_page_sees_when_a_worker_is_there() -> None:
    """A message that is sent in the same breath finds no agent: the page shows what to wait for."""
    for path in (ROOT / "README.md", *HOWTO.glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.md")):
        said = re.findall(r"^\$ homeostat worker .* &\n(.*)$", path.read_text(), re.MULTILINE)
        assert all(line.startswith("Worker wrk_… hosts ") for line in said), (path.name, said)


def test_every_page_is_found_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for folder in ("howto", "explanation", "reference", "tutorial"):
        for path in (ROOT / "docs" / folder).glob("*.md"):
            assert f"({folder}/{path.name})" in index, f"{folder}/{path.name} is not in docs/README.md"


def anchors(path: Path) -> set[str]:
    """What the headings of a page are called in an address."""
    headings = re.findall(r"^#+ (.+)$", re.sub(BLOCK, "", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere() -> None:
    found = 0
    for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", path.read_text()):
            there = path.parent / target if target else path
            assert there.exists(), f"{path.relative_to(ROOT)} links to {target}"
            assert not anchor or anchor in anchors(there), f"{path.relative_to(ROOT)} links to {target}#{anchor}"
            found += 1
    assert found > 100
