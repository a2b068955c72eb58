"""The custody desk takes nobody on the word of another user's process."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeostat.app.settings import Settings
from homeostat.core.records.enforcement import Strategy
from homeostat.testing.clinic import clinic
from homeostat.testing.holding import ANN

NOBODY = 65_534

# Gives its rights up and then claims, as an agent would that shares its process with others.
CLAIM = """
import json, os, socket, sys
os.setuid(int(sys.argv[3]))
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
link.sendall(json.dumps({"api_key": sys.argv[2], "shared": True}).encode() + b"\\n")
print(link.makefile().readline(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as a careless operator has made it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("uid", "taken"), [(0, True), (NOBODY, False)], ids=["same user", "another user"])
async def test_a_key_in_the_hands_of_another_user_is_no_claim(open_folder: Path, uid: int, *, taken: bool) -> None:
    data = open_folder / "data"
    async with clinic(settings=Settings(data_dir=data)) as one:
        await one.enrol("ann")
        data.chmod(0o755)
        (data / "custody.sock").chmod(0o666)
        command = [sys.executable, "-c", CLAIM, str(data / "custody.sock"), one.keys["ann"], str(uid)]
        with subprocess.Popen(  # noqa: ASYNC220
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as claimant:
            assert claimant.stdin is not None
            assert claimant.stdout is not None
            answer = json.loads(await asyncio.to_thread(claimant.stdout.readline))
            shared = [enforcer.apart(ANN) for enforcer in one.system.immune.enforcement.enforcers]
            claimant.stdin.close()
        assert answer["taken"] is taken
        assert any(f"process {claimant.pid} hosts" in why for why in shared) is taken
        assert taken or "another user" in answer["message"]
        assert Strategy.PROCESS in {enforcer.strategy for enforcer in one.system.immune.enforcement.enforcers}
