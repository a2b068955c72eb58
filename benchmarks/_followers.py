"""Followers of the live feed, in a process of their own: they read as fast as they can and keep nothing."""

import asyncio
import base64
import json
import os
import sys
import time
from functools import partial
from typing import cast

import uvloop

GET = (
    "GET /v1/ws/status HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    "sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
)
STREAM = "GET /v1/events?kinds={kinds} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n\r\n"
STEADY = "phase,approval,alert,presence,policy,budget,run"  # what the dashboard always hears
BUSY = f"{STEADY},turn,deliverable,call"  # and on its pages of turns and calls
PONG_MASK = b"\x00\x00\x00\x00"


class Follower(asyncio.Protocol):
    """Reads frames just far enough to count them and to answer pings."""

    bytes_read = 0
    frames_read = 0
    open = 0
    lost = 0

    def __init__(self, port: int) -> None:
        self._port = port
        self._skip = 0
        self._buffer = b""
        self._upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        key = base64.b64encode(os.urandom(16)).decode()
        self._transport.write(GET.format(port=self._port, key=key).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        Follower.lost += 1

    def data_received(self, data: bytes) -> None:
        Follower.bytes_read += len(data)
        if self._skip >= len(data):
            self._skip -= len(data)
            return
        self._buffer += data[self._skip :]
        self._skip = 0
        if not self._upgraded:
            head, separator, self._buffer = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                self._buffer = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._upgraded = True
            Follower.open += 1
        while self._frame():
            pass

    def _frame(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 10:
            return False
        length, header = buffer[1] & 127, 2
        if length == 126:
            length, header = int.from_bytes(buffer[2:4], "big"), 4
        elif length == 127:
            length, header = int.from_bytes(buffer[2:10], "big"), 10
        if buffer[0] & 15 == 9:  # a ping is answered with what it says
            self._transport.write(bytes([0x8A, 0x80 | length]) + PONG_MASK + buffer[header : header + length])
        else:
            Follower.frames_read += 1
        end = header + length
        self._skip = max(0, end - len(buffer))
        self._buffer = buffer[end:]
        return self._skip == 0 and bool(self._buffer)


class StreamFollower(asyncio.Protocol):
    """Follows what dashboards follow: one stream of events without end."""

    def __init__(self, port: int, kinds: str) -> None:
        self._port = port
        self._kinds = kinds
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(STREAM.format(port=self._port, kinds=self._kinds).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        Follower.lost += 1

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            assert data.startswith(b"HTTP/1.1 200"), data
            self._begun = True
            Follower.open += 1
        Follower.bytes_read += len(data)
        Follower.frames_read += data.count(b"\n\n")


async def follow(port: int, count: int, seconds: float, *, half: bool = False) -> None:
    """With `half`, every second one follows the stream of events, one in ten of these with what is busy as well."""
    loop = asyncio.get_running_loop()
    for number in range(count):
        if half and number % 2:
            make = partial(StreamFollower, port, STEADY if number % 20 > 1 else BUSY)
        else:
            make = partial(Follower, port)
        await loop.create_connection(make, "127.0.0.1", port)
    while Follower.open < count:  # noqa: ASYNC110 - nobody signals
        await asyncio.sleep(0.05)
    print("following", flush=True)
    Follower.bytes_read = Follower.frames_read = 0
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    if half:
        await asyncio.to_thread(sys.stdin.read)  # others are still timed, and a thousand who leave at once are felt
    lasted = time.perf_counter() - began
    told = {
        "followers": Follower.open - Follower.lost,
        "messages_per_second": Follower.frames_read / lasted,
        "megabytes_per_second": Follower.bytes_read / lasted / 1e6,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    uvloop.run(follow(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), half="half" in sys.argv[4:]))
