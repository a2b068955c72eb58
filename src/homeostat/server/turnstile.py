"""Where requests begin: so many in one round of the event loop, and an operator's word before all of them.

A server that is asked for more than it can do answers everybody late. What bounds the damage then is said by few and
must be heard at once, so it neither waits for a place nor takes one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

ROOM: Final = 64  # in one round: a few milliseconds of work between two looks at what else has come
AT_ONCE: Final = 1  # the room that a request takes which is answered, or handed on, as it begins
BY_A_TASK: Final = 4  # and one that is not

WORDS: Final = frozenset(
    {
        *(b"kill", b"quarantine", b"release", b"cordon", b"drain", b"stop", b"red-button", b"revoke"),
        *(b"pause", b"resume", b"approve", b"approve-all", b"reject"),
    }
)
"""The last word of a path by which an operator acts."""

PROBES: Final = frozenset({b"/livez", b"/readyz"})  # of whoever watches over the process
API: Final = b"/v1/"  # paths behind a gateway's own are whatever an agent likes
WORKERS: Final = b"/v1/workers/"  # they release turns by the thousand


Request = TypeVar("Request")


def is_control(path: bytes) -> bool:
    if path.startswith(API):
        return path.rpartition(b"/")[2] in WORDS and not path.startswith(WORKERS)
    return path in PROBES


class Turnstile:
    """Counts what requests of this round take, and keeps those that are too many in the order in which they came."""

    __slots__ = ("_loop", "_taken", "_turning", "_waiting")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._taken = 0
        self._turning = False
        self._waiting: deque[Callable[[], int]] = deque()

    def enter(self, loop: asyncio.AbstractEventLoop, begin: Callable[[Request], int], request: Request) -> None:
        """Begin one more request: at once if there is room in this round, else as soon as its turn has come.

        `begin` says how much room it took.
        """
        if not self._turning:
            self._turning = True
            self._loop = loop
            loop.call_soon(self._turn)
        if self._taken >= ROOM or self._waiting:
            self._waiting.append(partial(begin, request))
            return
        self._taken += begin(request)

    def _turn(self) -> None:
        """A round is over: those that wait go first in the next."""
        waiting = self._waiting
        self._turning = bool(waiting)
        self._taken = 0
        if not waiting:
            return
        assert self._loop is not None
        self._loop.call_soon(self._turn)
        for _ in range(len(waiting)):  # whoever comes meanwhile is behind them
            if self._taken >= ROOM:
                break
            self._taken += waiting.popleft()()
