"""An answer that is read at a glance says what the parser would make of it, and what is unusual is left to that."""

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.http import plain_answers
from homeostat.http.connection import Connection
from homeostat.http.plain_answers import LINE_BYTES_KEPT_MAX, LINES_KEPT_MAX, Lines

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
UNUSUAL = (
    PLAIN[:-1],
    PLAIN + b"!",
    PLAIN.replace(b"1.1", b"1.0"),
    PLAIN.replace(b"200 OK", b"100 Continue"),
    PLAIN.replace(b"200 OK", b"204 No Content"),
    PLAIN.replace(b"200 OK", b"304 Not Modified"),
    PLAIN.replace(b"200 OK", b"200"),
    PLAIN.replace(b"200 OK", b"200 \x01"),
    PLAIN.replace(b": 5", b": 5\r\ncontent-length: 5"),
    PLAIN.replace(b": 5", b": +5"),
    PLAIN.replace(b": 5", b": 5x"),
    PLAIN.replace(b": 5", b": " + b"0" * 9 + b"5"),
    PLAIN.replace(b"content-length: 5\r\n", b""),
    PLAIN.replace(b"Content-Type", b"Transfer-Encoding"),
    PLAIN.replace(b"Content-Type: text/plain", b"connection: close"),
    PLAIN.replace(b"Content-Type: text/plain", b"connection: keep-alive, upgrade"),
    PLAIN.replace(b"Content-Type: text/plain", b"upgrade: h2c"),
    PLAIN.replace(b"Content-Type: text/plain", b"content-type : text/plain"),
    PLAIN.replace(b"Content-Type: text/plain", b" folded: text/plain"),
    PLAIN.replace(b"Content-Type: text/plain", b"a: text\nb: plain"),
    PLAIN.replace(b"Content-Type: text/plain", b"a: \0"),
    PLAIN.replace(b"Content-Type: text/plain", b"no colon"),
    PLAIN.replace(b"\r\n", b"\n"),
    b"\r\n" + PLAIN,
)
STATUSES = st.sampled_from(
    [b"HTTP/1.1 200 OK", b"HTTP/1.1 500 ", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No", b"HTTP/1.1 101 X"]
)
LINES = st.sampled_from(
    [
        *(b"Connection: Keep-Alive", b"connection: close", b"connection: upgrade", b"transfer-encoding: chunked"),
        *(
            b"x:",
            b"x: \xe9 \t y\t",
            b"X-Y: a:b",
            b"x : y",
            b" x: y",
            b"x: \0",
            b"x: a\rb",
            b"x: a\nb",
            b"x",
            b"upgrade: h2c",
        ),
        *(
            b"content-length: 5",
            b"Content-Length:0",
            b"content-length: 05 \t",
            b"content-length: 5,5",
            b"proxy-connection: close",
        ),
    ]
)
BODIES = st.sampled_from([b"", b"hello", b"hell", b"hello!", b"5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])


class Wire:
    """The upstream's end, which nobody reads."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Loop:
    def time(self) -> float:
        return 0.0


def heard(blocks: list[bytes]) -> tuple[object, ...]:
    """What an exchange made of what came, and whether its connection may carry another."""
    released: list[Connection] = []
    connection = Connection("x", cast("asyncio.AbstractEventLoop", Loop()), released.append)
    connection.connection_made(cast("Any", Wire()))
    answer = connection.send((), b"", bodiless=False, first_byte_seconds=1, idle_seconds=1)
    for block in blocks:
        if not connection.closed:
            connection.data_received(block)
    reusable = not connection.closed and connection in released
    if not connection.closed:
        connection.connection_lost(None)
    return answer.status, answer.headers, b"".join(answer._blocks), answer.complete, reusable


def test_a_plain_answer_is_read_without_the_parser() -> None:
    lines = [b"Content-Type: text/plain", b"content-length: 5"]
    known, said = Lines(), (200, lines, b"\r\n".join([*lines, b""]), b"hello")
    assert known.read(PLAIN) == said
    assert known.read(PLAIN) == said, "as it is known by now"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    assert heard([PLAIN]) == (200, headers, b"hello", True, True)


def test_what_is_not_shared_is_not_written() -> None:
    known, cookie = Lines(), b"Set-Cookie: a=b\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n"
    answer = PLAIN.replace(b"content-length", b"X-Y:z\r\n" + cookie + b"content-length")
    for _ in range(2):
        read = known.read(answer)
        assert read is not None
        assert read[2] == b"Content-Type: text/plain\r\nX-Y:z\r\ncontent-length: 5\r\n"


def test_a_line_that_is_not_shared_is_not_written_however_little_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_answers, "LINES_KEPT_MAX", 1)
    known = Lines()
    for _ in range(2):
        read = known.read(PLAIN.replace(b"content-length", b"set-cookie: a=b\r\ncontent-length"))
        assert read is not None
        assert read[2] == b"Content-Type: text/plain\r\ncontent-length: 5\r\n"


@pytest.mark.parametrize("line", [b"Content-Type: text/event-stream; charset=utf-8", b"content-encoding: gzip"])
def test_what_has_to_be_looked_at_is_not_written(line: bytes) -> None:
    read = Lines().read(PLAIN.replace(b"Content-Type: text/plain", line))
    assert read is not None
    assert read[2] == b""


@pytest.mark.parametrize("answer", UNUSUAL)
def test_what_is_unusual_is_left_to_the_parser(answer: bytes) -> None:
    lines = Lines()
    lines.read(PLAIN)
    assert lines.read(answer) is None


@given(status=STATUSES, lines=st.lists(LINES, max_size=3), body=BODIES)
def test_it_says_what_the_parser_says(status: bytes, lines: list[bytes], body: bytes) -> None:
    """A first byte that comes alone is nothing to glance at, so the parser reads all the rest."""
    answer = b"\r\n".join([status, *lines, b"content-length: %d" % len(body), b"", body])
    assert heard([answer]) == heard([answer[:1], answer[1:]])


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_any_header_is_read_as_the_parser_reads_it(name: bytes, value: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\na%b:%b\r\ncontent-length: 2\r\n\r\nhi" % (name, value)
    assert heard([answer]) == heard([answer[:1], answer[1:]])


def test_lines_that_change_with_every_answer_do_not_pile_up() -> None:
    lines = Lines()
    for number in range(LINES_KEPT_MAX * 2):
        assert lines.read(PLAIN.replace(b"text/plain", b"%d" % number)) is not None
    long = PLAIN.replace(b"text/plain", b"x" * LINE_BYTES_KEPT_MAX)
    assert lines.read(long) is not None
    assert len(lines._known) <= LINES_KEPT_MAX
    assert all(len(line) <= LINE_BYTES_KEPT_MAX for line in lines._known)


def test_a_head_that_is_too_long_is_left_to_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_answers, "UPSTREAM_HEADER_BYTES_MAX", 20)
    assert Lines().read(PLAIN) is None
