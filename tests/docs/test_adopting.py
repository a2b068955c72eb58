"""What the page on adopting an agent says is so: its programs and commands run, in order, on a fresh server."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeostat.testing.homeostat import HomeostatServer

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "adopt-an-agent.md"
DEFAULT_URL = "http://127.0.0.1:7700"
BLOCK = re.compile(r"```(python|console)(?: (\w+)=([\w.]+))?\n(.*?)```", re.DOTALL)

# What each command prints, in the order of the page.
EXPECTED = [
    r"\w",
    r'"agent_id":"writer".*"outcome":"answered"',
    r'"agent_id":"billing".*"api_key":"hs_',
    r"\w",
    r'"usd":2.0',
    r'"requests_per_minute":30',
    r'"dry_run":true.*"seen":1,"refused":1',
    r'"reason":"it loops"',
    r'"dropped":\["slow","stop"\]',
]


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer(command="up") as server:
        yield server


def run(server: HomeostatServer, folder: Path, *command: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "HOMEOSTAT_URL": server.url,
        "PATH": path,
        "XDG_DATA_HOME": str(folder),
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    line = [part.replace(DEFAULT_URL, server.url) for part in command]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_page_does_what_it_says(server: HomeostatServer, tmp_path: Path) -> None:
    expected, key = iter(EXPECTED), ""
    for language, label, name, block in BLOCK.findall(PAGE.read_text()):
        if label == "name":
            (tmp_path / name).write_text(block)
        elif language == "console":
            for command in block.splitlines():
                said = run(server, tmp_path, "/bin/sh", "-c", command.removeprefix("$ ").replace("hs_…", key))
                assert re.search(next(expected), said, re.DOTALL), (command, said)
                if told := re.search(r'"api_key":"(hs_\w+)"', said):
                    key = told[1]
        else:
            assert label == "framework", "a block that nothing runs"
    assert next(expected, None) is None


@pytest.mark.parametrize("framework", ["langgraph", "agents", "pydantic_ai"])
def test_a_framework_comes_under_control_as_the_page_says(
    server: HomeostatServer, framework: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is an optional extra that is not installed (make frameworks)")
    (program,) = [block for _, _, name, block in BLOCK.findall(PAGE.read_text()) if name == framework]
    (tmp_path / "program.py").write_text(program)
    agent_id = framework.replace("_", "-")
    said = run(server, tmp_path, "homeostat", "exec", "--agent-id", agent_id, "--", "python", "program.py")
    assert said.strip()
    made = run(server, tmp_path, "curl", "-s", f"{DEFAULT_URL}/v1/calls?agent_id={agent_id}")
    assert '"outcome":"answered"' in made
