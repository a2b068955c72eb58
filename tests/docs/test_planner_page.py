"""The how-to for planning functions does what it says, on a server that is started where the function lies."""

import fnmatch
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from homeostat.testing.homeostat import HomeostatServer

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "plan-with-a-function.md"
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


def test_a_function_plans_as_the_page_says() -> None:
    found = BLOCK.findall(PAGE.read_text())
    programs = {words.partition("=")[2]: text for language, words, text in found if language == "python"}
    (started,) = [shlex.split(text) for language, _, text in found if language == "sh"]
    (console,) = [text for language, _, text in found if language == "console"]
    commands = [part.partition("\n") for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]]
    assert started[:2] == ["homeostat", "up"]
    server = HomeostatServer(*started[2:], "--no-demo", command="up")
    for name, text in programs.items():
        (server.directory / name).write_text(text)
    with server:
        env = {
            **os.environ,
            "HOMEOSTAT_URL": server.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(server.directory),
        }
        words = commands[0][0].removesuffix(" &").split()
        words[0:1] = [sys.executable, "-m", "homeostat"]
        worker = subprocess.Popen(words, cwd=server.directory, env=env, stdout=subprocess.PIPE, text=True)
        with worker:
            try:
                assert worker.stdout is not None
                while "Press Ctrl-C to stop" not in worker.stdout.readline():
                    assert worker.poll() is None
                for command, _, expected in commands[1:]:
                    typed = [sys.executable, "-m", *shlex.split(command)]
                    done = subprocess.run(
                        typed, cwd=server.directory, env=env, capture_output=True, text=True, check=False
                    )
                    assert done.returncode == 0, (command, done.stdout, done.stderr)
                    pattern = expected.strip().replace("[", "[[]").replace("…", "*")
                    assert fnmatch.fnmatchcase(done.stdout.strip(), pattern), (command, done.stdout)
            finally:
                worker.terminate()
