"""An answer leaves in one piece where it can, and in order and whole wherever it cannot."""

import asyncio
from typing import cast

from homeostat.server.corking import COPIED_BYTES_MAX, HEAD, CorkedTransport

HELLO = HEAD + b"200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire:
    """Notes what is written on it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 7


def corked() -> tuple[Wire, CorkedTransport]:
    wire = Wire()
    return wire, CorkedTransport(cast("asyncio.Transport", wire), asyncio.get_running_loop())


async def test_head_and_body_are_one_write() -> None:
    wire, transport = corked()
    transport.write(HELLO)
    assert wire.written == []
    transport.write(b"hi")
    assert wire.written == [HELLO + b"hi"]
    transport.write(b"more")
    await asyncio.sleep(0)
    assert wire.written == [HELLO + b"hi", b"more"]


async def test_a_head_whose_body_is_not_there_yet_does_not_wait_for_it() -> None:
    wire, transport = corked()
    transport.write(HELLO)
    await asyncio.sleep(0)
    assert wire.written == [HELLO]
    transport.write(b"hi")
    assert b"".join(wire.written) == HELLO + b"hi"


async def test_a_long_body_is_not_copied() -> None:
    wire, transport = corked()
    body = b"x" * (COPIED_BYTES_MAX + 1)
    transport.write(HELLO)
    transport.write(body)
    assert wire.written == [HELLO, body]
    assert wire.written[1] is body


async def test_closing_sends_what_is_held_back() -> None:
    wire, transport = corked()
    transport.write(HELLO)
    transport.close()
    assert wire.written == [HELLO]
    assert wire.closed
    await asyncio.sleep(0)
    assert wire.written == [HELLO]


async def test_what_looks_like_a_head_in_a_body_keeps_its_place() -> None:
    wire, transport = corked()
    for data in (HELLO, HELLO, HELLO, b"end"):
        transport.write(data)
    assert b"".join(wire.written) == HELLO * 3 + b"end"


async def test_everything_else_is_the_transports_own() -> None:
    _, transport = corked()
    assert transport.get_write_buffer_size() == 7
