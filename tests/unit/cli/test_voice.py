"""What a server says while it serves: in order, and never at the price of waiting for whoever does not read."""

import fcntl
import logging
import os
import select
from collections.abc import Generator

import pytest

from homeostat.cli.voice import LINES_REMEMBERED_MAX, LINES_WAITING_MAX, REPEATED_SECONDS, Repeats, Voice
from homeostat.testing.clock import ManualClock

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


def test_the_same_line_stands_there_once_in_a_while_and_says_how_often_it_would_have() -> None:
    clock = ManualClock()
    once = Repeats(clock)

    def heard(*said: object, level: int = logging.WARNING, trace: bool = False) -> str | None:
        error = ValueError("no")
        record = logging.LogRecord("a", level, "a.py", 1, "%s: %s", said, (ValueError, error, None) if trace else None)
        return record.getMessage() if once.filter(record) else None

    assert heard("the bus is away", "no answer") == "the bus is away: no answer"
    assert heard("the bus is away", "refused") == "the bus is away: refused", "another one"
    assert heard("the bus is away", "refused", level=logging.ERROR) is not None
    clock.advance(REPEATED_SECONDS - 0.1)
    assert [heard("the bus is away", "no answer") for _ in range(3)] == [None] * 3
    assert heard("the bus is away", "no answer", trace=True) is not None
    clock.advance(0.2)
    said = heard("the bus is away", "no answer")
    assert said == "the bus is away: no answer (and 3 times more since it was last said)"
    assert heard("the bus is away", "no answer") is None
    clock.advance(REPEATED_SECONDS)
    for number in range(2 * LINES_REMEMBERED_MAX):
        heard("agent", number)
    assert len(once._said) == LINES_REMEMBERED_MAX
