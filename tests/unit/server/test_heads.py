"""A head that is said again is read as the parser would read it, wherever the bytes are cut and whatever they say."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from homeostat.server import protocol
from homeostat.server.heads import HEADS_LEARNT_MAX
from homeostat.server.protocol import LeanProtocol
from homeostat.server.serving import configured

PLAIN = b"POST /a?b=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: %b\r\naccept: */*\r\n\r\n"
HEADS = (
    PLAIN,
    PLAIN.replace(b"content-length: ", b"Content-Length:"),
    PLAIN.replace(b"content-length: ", b"CONTENT-LENGTH: \t"),
    PLAIN.replace(b"/a?b=1", b"/c"),
    PLAIN.replace(b"accept: */*", b"accept: text/html"),
    PLAIN.replace(b"accept: */*", b"x: \tcontent-length: 3"),
    PLAIN.replace(b"accept: */*", b"connection: close"),
    PLAIN.replace(b"accept: */*", b"content-length: 3"),
    PLAIN.replace(b"accept: */*", b"transfer-encoding: chunked"),
    PLAIN.replace(b"accept: */*", b"expect: 100-continue"),
    PLAIN.replace(b"accept: */*", b"upgrade: h2c\r\nconnection: upgrade"),
    PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    PLAIN.replace(b"\r\n", b"\n"),
    PLAIN.replace(b"\r\n\r\n", b"\r\n\n"),
    b"\r\n" + PLAIN,
    PLAIN.replace(b"content-length: %b\r\n", b""),
)
CUT = b"<cut>"
BODIES = (b"", b"a", b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"x" * 300, b"5\r\nhello\r\n0\r\n\r\n")


class Answering:
    """Answers with all it heard."""

    patience = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        said = repr((scope["method"], scope["path"], scope["query_string"], scope["headers"], body)).encode()
        scope["extensions"]["homeostat.answer"](200, [], said)


class Wire:
    """A connection whose other end remembers what it was told."""

    def __init__(self) -> None:
        self.said = b""
        self.closing = False

    def write(self, data: bytes) -> None:
        self.said += data

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name.endswith("name") else None

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


@st.composite
def blocks(draw: st.DrawFn) -> list[bytes]:
    """Requests as they might come, most of them alike, cut anywhere."""
    data = b""
    for _ in range(draw(st.integers(2, 5))):
        head, body = draw(st.sampled_from((PLAIN, PLAIN, PLAIN, *HEADS))), draw(st.sampled_from(BODIES))
        length = b"%d" % len(body)
        told = draw(st.sampled_from((length, length, length, b"0" + length, b"+" + length, length + b" ", b"", b"2a")))
        data += (head % told if b"%b" in head else head) + body
        data += draw(st.sampled_from((b"", b"", b"", b"\r\n", b"\r", b"x")))
        data += draw(st.sampled_from((b"", CUT)))
    pieces = data.split(CUT)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        whole = data.replace(CUT, b"")
        pieces = [whole[:at], whole[at:]]
    return [piece for piece in pieces if piece]


async def heard(pieces: Sequence[bytes]) -> tuple[bytes, bool, int]:
    """What a client is told that says this, whether it is hung up on, and how often a head was known."""
    config = configured(Answering())
    config.load()
    known = 0

    def repeat(self: LeanProtocol, head: Any, body: bytes) -> None:
        nonlocal known
        known += 1
        usual(self, head, body)

    usual = LeanProtocol._repeat
    with patch.object(LeanProtocol, "_repeat", repeat):
        connection, wire = LeanProtocol(config, ServerState(), {}), Wire()
        connection.connection_made(cast("asyncio.BaseTransport", wire))
        for piece in pieces:
            if not wire.closing:
                connection.data_received(piece)
            for _ in range(8):
                await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)
    return wire.said, wire.closing, known


@settings(deadline=None, max_examples=300)
@given(blocks())
def test_whoever_repeats_themselves_is_told_the_same(pieces: list[bytes]) -> None:
    told = asyncio.run(heard(pieces))
    with patch.object(protocol, "HEADS_LEARNT_MAX", 0):
        expected = asyncio.run(heard(pieces))
    assert told[:2] == expected[:2]
    assert expected[2] == 0


async def test_a_head_is_known_whatever_the_length_of_its_body() -> None:
    requests = [PLAIN % b"%d" % size + b"x" * size for size in (1, 300, 20)]
    _, _, known = await heard(requests)
    assert known == 2
    head, body = requests[0].split(b"\r\n\r\n")
    _, _, known = await heard([head + b"\r\n\r\n", body] * 3)
    assert known == 2, "also where the body comes behind it"


async def test_a_body_that_comes_bit_by_bit_is_followed_by_the_next_request() -> None:
    request = PLAIN % b"4" + b"body"
    said, _, known = await heard([request, request[:-3], b"o", b"dy" + request])
    assert known == 1, "what comes behind an unanswered request waits with the parser"
    assert said.count(b"b'body'") == 3


@pytest.mark.parametrize("head", [head for head in HEADS if b"%b" in head][6:13])
async def test_what_is_not_plain_is_left_to_the_parser(head: bytes) -> None:
    _, _, known = await heard([head % b"4" + b"body"] * 3)
    assert known == 0


async def test_a_client_that_never_repeats_itself_is_not_learnt_for_ever() -> None:
    different = [PLAIN.replace(b"*/*", b"%d" % n) % b"1" + b"x" for n in range(HEADS_LEARNT_MAX)]
    same = PLAIN % b"1" + b"x"
    _, _, known = await heard([*different, same, same])
    assert known == 0
