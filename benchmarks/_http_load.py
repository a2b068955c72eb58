"""A load generator for HTTP/1.1 that costs little itself: raw connections, requests made beforehand."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast


@dataclass(frozen=True, slots=True)
class Measured:
    """How a server did: answers per second, how long they took, and which were refused."""

    rate: float
    p50_ms: float
    p99_ms: float
    answers: int
    failures: int
    asked: int
    cpu_us: float = 0.0
    refused: tuple[tuple[str, int], ...] = ()

    def line(self) -> str:
        return f"{self.rate:8,.0f}/s   p50 {self.p50_ms:7.2f} ms   p99 {self.p99_ms:7.2f} ms"


class _Connection(asyncio.Protocol):
    """One keep-alive connection; `finished` is called with what each answer took."""

    def __init__(self, finished: Callable[["_Connection", float, bool], None]) -> None:
        self._finished = finished
        self._buffer = b""
        self._began = 0.0
        self.status = ""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes, began: float | None = None) -> None:
        self._began = time.perf_counter() if began is None else began
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length or 0):
            return
        self._buffer = b""
        self.status = head[9:12].decode()
        self._finished(self, time.perf_counter() - self._began, head[9:10] == b"2")


def post(path: str, body: bytes, *, key: str = "") -> bytes:
    """A request, ready to be sent as often as one likes."""
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{authorization}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def saturate(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> Measured:
    """Ask as fast as answers come, on so many connections."""
    took: list[float] = []
    failures = 0
    asked = 0
    measuring = False

    def finished(connection: _Connection, seconds: float, good: bool) -> None:  # noqa: FBT001
        nonlocal failures, asked
        if measuring:
            took.append(seconds)
            failures += not good
        asked += 1
        connection.ask(requests[asked % len(requests)])

    held = await _connect(port, connections, finished)
    for number, connection in enumerate(held):
        connection.ask(requests[number % len(requests)])
    await asyncio.sleep(0.5)
    measuring = True
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    lasted = time.perf_counter() - began
    measuring = False
    for connection in held:
        connection.transport.abort()
    return _measured(took, failures, lasted, asked)


async def pace(
    port: int, requests: Sequence[bytes], *, connections: int, per_second: float, seconds: float
) -> Measured:
    """Ask at a steady rate, whatever the answers do; a request that has to wait for a connection has begun already."""
    took: list[float] = []
    failures = 0
    free: deque[_Connection] = deque()  # by turns: a server closes what is idle for long
    waiting: deque[tuple[bytes, float]] = deque()
    refused: Counter[str] = Counter()

    def finished(connection: _Connection, seconds: float, good: bool) -> None:  # noqa: FBT001
        nonlocal failures
        took.append(seconds)
        failures += not good
        if not good:
            refused[connection.status] += 1
        if waiting:
            request, due = waiting.popleft()
            connection.ask(request, due)
        else:
            free.append(connection)

    held = await _connect(port, connections, finished)
    free.extend(held)
    began = time.perf_counter()
    sent = 0
    while (now := time.perf_counter()) < began + seconds:
        while sent < (now - began) * per_second:
            due = began + sent / per_second
            request = requests[sent % len(requests)]
            if free:
                free.popleft().ask(request, due)
            else:
                waiting.append((request, due))
            sent += 1
        await asyncio.sleep(0.001)
    lasted = time.perf_counter() - began
    while len(took) < sent and time.perf_counter() < began + seconds + 10:  # noqa: ASYNC110 - nobody signals
        await asyncio.sleep(0.01)
    for connection in held:
        connection.transport.abort()
    measured = _measured(took, failures + sent - len(took), lasted, sent)
    return replace(measured, refused=tuple(sorted(refused.items())))


async def _connect(
    port: int, connections: int, finished: Callable[[_Connection, float, bool], None]
) -> list[_Connection]:
    loop = asyncio.get_running_loop()
    return [
        (await loop.create_connection(lambda: _Connection(finished), "127.0.0.1", port))[1] for _ in range(connections)
    ]


def _measured(took: list[float], failures: int, lasted: float, asked: int) -> Measured:
    took.sort()

    def at(share: float) -> float:
        return took[min(len(took) - 1, int(len(took) * share))] * 1000 if took else float("inf")

    return Measured(len(took) / lasted, at(0.5), at(0.99), len(took), failures, asked)
