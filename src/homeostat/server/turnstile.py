"""Where requests begin: so many in one round of the event loop, and an operator's word before all of them.

A server that is asked for more than it can do answers everybody late. What bounds the damage then is said by few and
must be heard at once, so it neither waits for a place nor takes one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

ROOM: Final = 64  # in one round: a few milliseconds of work between two looks at what else has come
AT_ONCE: Final = 1  # the room that a request takes which is answered, or handed on, as it begins
BY_A_TASK: Final = 4  # and one that is not

ROOM_MEANWHILE: Final = 8  # while an order is late: each of its steps waits for one round
ORDER_SECONDS: Final = 0.08  # what an order may take before it is late
MEANWHILE_SECONDS: Final = 0.4  # and how long others stand back for it, who have no part in an engine that hangs

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


class Asked(Protocol):
    """What is known of a request while it is read."""

    @property
    def more_body(self) -> bool: ...


def is_control(path: bytes) -> bool:
    if path.startswith(API):
        return path.rpartition(b"/")[2] in WORDS and not path.startswith(WORKERS)
    return path in PROBES


class Turnstile:
    """Counts what requests of this round take, and keeps those that are too many in the order in which they came."""

    __slots__ = ("_late", "_loop", "_room", "_taken", "_turning", "_waiting")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = ROOM
        self._taken = 0
        self._turning = False
        self._waiting: deque[Callable[[], int]] = deque()
        self._late: set[asyncio.Task[None]] = set()

    def enter(self, loop: asyncio.AbstractEventLoop, begin: Callable[[Request], int], request: Request) -> None:
        """Begin one more request: at once if there is room in this round, else as soon as its turn has come.

        `begin` says how much room it took.
        """
        if not self._turning:
            self._turning = True
            self._loop = loop
            loop.call_soon(self._turn)
        if self._taken >= self._room or self._waiting:
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
            if self._taken >= self._room:
                break
            self._taken += waiting.popleft()()

    # --- orders --------------------------------------------------------------------------------------------------

    def attend(self, loop: asyncio.AbstractEventLoop, order: "asyncio.Task[None]", asked: Asked) -> None:
        """Watch over an order that began: once it is late, fewer others begin in a round until it is done.

        One that takes its time to be said is not late: else whoever can connect could keep everybody back.
        """
        timer = loop.call_later(ORDER_SECONDS, self._hold_back, loop, order, asked)

        def done(order: "asyncio.Task[None]") -> None:
            timer.cancel()
            self._let_on(order)

        order.add_done_callback(done)

    def _hold_back(self, loop: asyncio.AbstractEventLoop, order: "asyncio.Task[None]", asked: Asked) -> None:
        if asked.more_body:
            return
        self._late.add(order)
        self._room = ROOM_MEANWHILE
        loop.call_later(MEANWHILE_SECONDS, self._let_on, order)

    def _let_on(self, order: "asyncio.Task[None]") -> None:
        self._late.discard(order)
        if not self._late:
            self._room = ROOM
