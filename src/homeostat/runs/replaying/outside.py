"""Keeps code that is run again from reaching outside: no connection, no process, while the guard is up."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from homeostat.core.errors import Refused

FORBIDDEN: Final = {
    "socket.connect": "connected to {1}",
    "socket.sendto": "sent to {1}",
    "socket.getaddrinfo": "looked up {0}",
    "socket.gethostbyname": "looked up {0}",
    "subprocess.Popen": "started {0}",
    "os.system": "ran {0}",
    "os.exec": "ran {0}",
    "os.posix_spawn": "started {0}",
    "os.spawn": "started {1}",
    "os.fork": "forked",
}

_watch: ContextVar[Callable[[str], None] | None] = ContextVar("homeostat_replay_guard", default=None)
_installed: list[bool] = []


class OutsideRefused(Refused):
    """A replay calls nothing outside, and the agent {what}."""

    code = "outside_refused"
    hint = (
        "Put whatever reaches outside into `turn.step(name, fn)`: then it is recorded, and given again from the record."
    )


@contextmanager
def guarded(tell: Callable[[str], None]) -> Generator[None]:
    """Let nothing in here reach outside, in whatever thread or task; `tell` hears of the attempt."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    token = _watch.set(tell)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def let_out() -> Generator[None]:
    """For what is meant to reach outside."""
    token = _watch.set(None)
    try:
        yield
    finally:
        _watch.reset(token)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    words = FORBIDDEN.get(event)
    if words is None or (tell := _watch.get()) is None:
        return
    what = words.format(*args)
    tell(what)
    raise OutsideRefused(what=what)
