"""What the page on running a fleet says is so: its commands and programs run, in order, on a fresh server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2

from homeostat.testing.homeostat import HomeostatServer

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-a-fleet.md"
DEFAULT_URL = "http://127.0.0.1:7700"

# What each command or program prints, in the order of the page.
EXPECTED = [
    r'"agent_id":"inf-1","push_interval_seconds":30.0,"api_key":"hs_',
    r'"agent_id":"val-1"',
    r"^1 item, every 30 s$",
    r"inf-1 +inference +● registered",
    r"LAST ACTION\ninf-1",
    r"^agent/val-1$",
    r"Presence +alive",
    r"^2 agents: 2 registered",
    r'"push_interval_seconds":20.0,"source":"default"',
    r'"push_interval_seconds":10.0,"source":"type:inference"',
    r'"push_interval_seconds":5.0,"source":"tag:gpu"',
    r'"push_interval_seconds":2.0,"source":"agent"',
    r'"push_interval_seconds":2.0,"source":"agent"',
    r"^$",
    r'"push_interval_seconds":5.0,"source":"tag:gpu"',
    r"^\['inf-1'\] all of them$",
    r'"agent_id":"val-1","deregistered":true',
    r"^agent/inf-1$",
    r"homeostat_agents",
]


def steps() -> list[list[str]]:
    """Everything on the page that can be run."""
    found: list[list[str]] = []
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if language == "python":
            found.append([sys.executable, "-c", block])
        else:
            assert language == "console"
            found += [["/bin/sh", "-c", line.removeprefix("$ ")] for line in block.splitlines()]
    return found


def test_the_page_does_what_it_says() -> None:
    told = steps()
    assert len(told) == len(EXPECTED)
    with HomeostatServer() as server:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "HOMEOSTAT_URL": server.url, "PATH": path, "LC_ALL": "C.UTF-8"}
        for command, expected in zip(told, EXPECTED, strict=True):
            line = [part.replace(DEFAULT_URL, server.url) for part in command]
            done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, (command[-1], done.stderr)
            assert re.search(expected, done.stdout), (command[-1], done.stdout)


def test_every_metric_of_the_fleet_is_on_the_page() -> None:
    with HomeostatServer("--ephemeral") as server:
        text = httpx2.get(f"{server.url}/metrics", trust_env=False).text
    exposed = set(re.findall(r"^# HELP (homeostat_(?:agents|heartbeat|sweep|feed)\w*)", text, re.MULTILINE))
    named = set(re.findall(r"`(homeostat_\w+)", PAGE.read_text()))
    assert {name.removesuffix("_total") for name in exposed} == {name.removesuffix("_total") for name in named}
