"""The commands of the page on scaling out run, in order, on a server that asks for keys."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from homeostat.testing.homeostat import HomeostatServer

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "scale-out.md"


def test_the_commands_of_the_page_run() -> None:
    commands = re.findall(r"^\$ homeostat (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 5
    with HomeostatServer("--auth", "keys") as server:
        found = re.search(r"export HOMEOSTAT_KEY=(hk_\w+)", server.log)
        assert found is not None
        env = {
            **os.environ,
            "HOMEOSTAT_URL": server.url,
            "HOMEOSTAT_KEY": found[1],
            "HOMEOSTAT_DATA_DIR": str(server.data_dir),
        }
        shown = ""
        for command in commands:
            asked = [sys.executable, "-m", "homeostat", *shlex.split(command)]
            told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=100, env=env)
            assert told.returncode == 0, f"{command}: {told.stdout}{told.stderr}"
            shown = told.stdout
        assert "create_key" in shown, "the last one shows what was done"
