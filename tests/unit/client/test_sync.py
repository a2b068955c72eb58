"""The client without an event loop: however a program leaves it, it keeps that program from nothing."""

import signal
import socket
import subprocess
import sys

import pytest

from homeostat import SyncClient

ENDS_SECONDS = 20.0
NOWHERE = "http://127.0.0.1:1"

WRONG = """
from homeostat import SyncClient
from homeostat.core.errors import SettingInvalid
try:
    SyncClient("localhost:7700")
except SettingInvalid:
    print("refused")
"""
FORGOTTEN = """
from homeostat import SyncClient
client = SyncClient("http://127.0.0.1:1")
print("forgotten")
"""
INTERRUPTED = """
import signal, sys
from homeostat import SyncClient
signal.signal(signal.SIGINT, signal.default_int_handler)
with SyncClient(sys.argv[1]) as client:
    try:
        client.deliverable("turn_0123456789abcdef01234567", wait=3600.0)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize(("program", "said"), [(WRONG, "refused"), (FORGOTTEN, "forgotten")])
def test_a_program_that_leaves_a_client_behind_ends(program: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=ENDS_SECONDS, check=True
    )
    assert (ended.stdout.strip(), ended.stderr) == (said, "")


def test_a_call_that_is_interrupted_does_not_hold_up_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([sys.executable, "-c", INTERRUPTED, url], stdout=subprocess.PIPE, text=True) as program:
            try:
                connection, _ = silent.accept()
                with connection:
                    program.send_signal(signal.SIGINT)
                    said, _ = program.communicate(timeout=ENDS_SECONDS)
            finally:
                program.kill()
    assert (said.strip(), program.returncode) == ("interrupted", 0)


STRUCK = """
import socket, sys
from homeostat import SyncClient
silent = socket.create_server(("127.0.0.1", 0))
client = SyncClient(f"http://127.0.0.1:{silent.getsockname()[1]}")
begin = client._portal.start_task_soon
def struck(call):
    client._portal.start_task_soon = begin
    begin(call)
    silent.accept()
    raise KeyboardInterrupt
client._portal.start_task_soon = struck
try:
    client.deliverable("turn_0123456789abcdef01234567", wait=3600.0)
except KeyboardInterrupt:
    print("interrupted")
if "close" in sys.argv:
    client.close()
"""


@pytest.mark.parametrize("options", [["close"], []])
def test_an_interrupt_while_a_call_begins_does_not_hold_up_the_end(options: list[str]) -> None:
    command = [sys.executable, "-c", STRUCK, *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_SECONDS, check=True)
    assert (ended.stdout.strip(), ended.stderr) == ("interrupted", "")


def test_a_client_is_closed_once_however_often_that_is_asked_for() -> None:
    with SyncClient(NOWHERE) as client:
        client.close()
    client.close()
