"""What every peer's script shares: a closed loop of clients, and one line of JSON about it."""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable

PAYLOAD = {"text": "hello"}
RESULT = {"ok": True}
Turn = Callable[[int, int], Awaitable[object]]


def arguments() -> tuple[str, int, int, str]:
    """Where the engine is, how many clients, how many turns, and whether a turn is plain or waits for a tool."""
    url, clients, turns, kind = sys.argv[1:5]
    return url, int(clients), int(turns), kind


async def closed_loop(turn: Turn, clients: int, turns: int) -> None:
    """Each client waits for its turn's end before it sends the next. A quarter is for warming up."""
    await _round(turn, clients, max(1, turns // 4 // clients), first=0)
    cpu, began = _cpu(), time.perf_counter()
    each = max(1, turns // clients)
    await _round(turn, clients, each, first=1_000_000)
    seconds = time.perf_counter() - began
    said = {"turns": each * clients, "rate": each * clients / seconds, "cpu_ms": (_cpu() - cpu) / each / clients * 1000}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def _round(turn: Turn, clients: int, each: int, *, first: int) -> None:
    async def client(number: int) -> None:
        for count in range(each):
            await turn(number, first + count)

    await asyncio.gather(*(client(number) for number in range(clients)))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
