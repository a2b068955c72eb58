"""What a server says while it serves: in order, and never at the price of waiting for whoever does not read."""

import fcntl
import os
import select
from collections.abc import Generator

import pytest

from homeostat.cli.voice import LINES_WAITING_MAX, Voice

PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reading, writing
    os.close(reading)


def read_all(reading: int) -> list[str]:
    parts: list[bytes] = []
    while part := os.read(reading, 1 << 16):
        parts.append(part)
    return b"".join(parts).decode().splitlines()


def test_lines_come_in_their_order(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    voice = Voice(writing)
    for number in range(10):
        voice.say(f"line {number}")
    voice.close()
    os.close(writing)
    assert read_all(reading) == [f"line {number}" for number in range(10)]


def test_what_is_said_after_the_end_is_said_too(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    voice = Voice(writing)
    for line in ("one", "two"):
        voice.say(line)
        voice.close()
    os.close(writing)
    assert read_all(reading) == ["one", "two"]


def test_nobody_waits_for_a_reader_that_does_not_read(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    voice = Voice(writing)
    said = LINES_WAITING_MAX + PIPE_BYTES  # more than the pipe and those that may wait
    for number in range(said):
        voice.say(f"line {number}")
    voice.close(seconds=0.01)  # nor at the end: what waits for a place is not added to those that do
    got = ""
    while "were left out: nobody read them" not in got:
        voice.say("afterwards")
        if select.select([reading], [], [], 0.05)[0]:  # it may have been left out as well
            got += os.read(reading, 1 << 16).decode()
    assert got.startswith("line 0\nline 1\n")
    voice.close()
    os.close(writing)


def test_a_reader_who_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    voice = Voice(writing)
    voice.say("anybody?")
    voice.say("nobody")
    voice.close()
    os.close(writing)
    assert not caplog.records
