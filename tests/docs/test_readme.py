"""The first steps of the README work as they are written."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import ServerFailed

README = Path(__file__).parents[2] / "README.md"
DEFAULT_URL = "http://127.0.0.1:7700"


def blocks(section: str) -> list[tuple[str, str]]:
    """The code blocks of a section, each with its language."""
    text = README.read_text().split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


def test_the_first_steps(server: HomeostatServer, tmp_path: Path) -> None:
    (greeter, hosting, program, http) = blocks("First steps")
    assert [language for language, _ in (greeter, hosting, program, http)] == ["python", "console", "python", "console"]
    (tmp_path / "greeter.py").write_text(greeter[1])
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "HOMEOSTAT_URL": server.url, "PATH": f"{scripts}:{os.environ['PATH']}"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    host, *sending = commands(hosting[1])
    assert host.endswith(" &")
    worker = subprocess.Popen(["/bin/sh", "-c", f"exec {host.removesuffix(' &')}"], cwd=tmp_path, env=environment)
    try:
        _until_registered(server, run)
        assert "Hello, Ada!" in run("/bin/sh", "-c", sending[0])
        assert run(sys.executable, "-c", program[1]) == "Hello, Grace!\n"
        answers = [run("/bin/sh", "-c", line.replace(DEFAULT_URL, server.url)) for line in commands(http[1])]
        assert '"turn_id":"turn_' in answers[0]
        assert '"agent_id":"greeter"' in answers[1]
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)


def _until_registered(server: HomeostatServer, run: object) -> None:
    """The worker registers its agent a moment after it was started."""
    import httpx2

    for _ in range(600):
        if httpx2.get(f"{server.url}/v1/agents/greeter/head").status_code == 200:
            return
    raise AssertionError("the worker did not register its agent")


MY_AGENT = """
from openai import OpenAI

said = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "How are you?"}])
print(said.choices[0].message.content)
"""


def test_an_agent_that_is_there_already_comes_under_control(server: HomeostatServer, tmp_path: Path) -> None:
    console, starting = (block for _, block in blocks("Agents you already have"))
    (tmp_path / "my_agent.py").write_text(MY_AGENT)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "HOMEOSTAT_URL": server.url, "PATH": path, "XDG_DATA_HOME": str(tmp_path)}
    expected = [r"\w", r'"outcome":"answered"', r'"usd":2\.0', r'"action":"block"', r"^$"]
    for command, wanted in zip(commands(console), expected, strict=True):
        line = ["/bin/sh", "-c", command.replace(DEFAULT_URL, server.url)]
        done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert re.search(wanted, done.stdout), (command, done.stdout)
    for command in commands(starting):
        told = re.fullmatch(r"(\w+)=… homeostat up --upstreams (.+)", command)
        assert told is not None, command
        refused = pytest.raises(ServerFailed, match=f"needs a key in .*{told[1]}")
        with refused, HomeostatServer("--upstreams", shlex.split(told[2])[0], command="up"):
            pass


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for command in commands(blocks("Two commands")[0][1]):
        target = command.split("#")[0].split()[1]
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
