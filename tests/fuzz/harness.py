"""What targets share: their table, bytes that are cut anywhere, and a loop in which nothing takes time."""

import hashlib
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Check = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder and what must hold of it: `check` raises where something does not. `words` are worth trying."""

    name: str
    check: Check
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    bytes_max: int = 2048


TARGETS: dict[str, Target] = {}


def target(
    *seeds: bytes, words: tuple[bytes, ...] = (), bytes_max: int = 2048
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Enter a target under its function's name."""

    def enter(check: Check) -> Check:
        name = check.__name__
        assert name not in TARGETS, f"{name} exists twice"
        TARGETS[name] = Target(name, check, seeds, words, bytes_max)
        return check

    return enter


def keeping(chosen: Target, folder: Path) -> Check:
    """A target's check that keeps what breaks it: libFuzzer does so only where a sanitizer tells it of its death."""

    def check(data: bytes) -> None:
        try:
            chosen.check(data)
        except BaseException:
            (folder / f"broke-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise

    return check


class TooSlow(BaseException):
    """One input keeps the processor busy for longer than any may."""


def in_time(check: Check, seconds_max: float) -> Check:
    """A check that is broken off after so much time of the processor: clocks say nothing on a machine that is busy."""
    begun = looked_at = 0

    def look(*_: object) -> None:
        nonlocal looked_at
        if looked_at == begun:
            raise TooSlow
        looked_at = begun

    def timed(data: bytes) -> None:
        nonlocal begun
        begun += 1
        check(data)

    signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds_max, seconds_max)
    return timed


def pieces(data: bytes) -> tuple[bytes, list[bytes]]:
    """A stream, and the same stream in pieces: the first bytes say where it is cut."""
    cuts = data[0] % 5 if data else 0
    stream = data[1 + cuts :]
    if not stream:
        return b"", []
    places = sorted({place % len(stream) for place in data[1 : 1 + cuts]} | {0})
    return stream, [stream[a:b] for a, b in zip(places, [*places[1:], len(stream)], strict=True)]


class Pending:
    """A future of the still loop."""

    def __init__(self, loop: "StillLoop") -> None:
        self._loop = loop
        self._done = False
        self.waiting: StillTask | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: None) -> None:
        del result
        self._done = True
        if self.waiting is not None:
            self._loop.ready.append(self.waiting.step)

    def __await__(self) -> Generator["Pending"]:
        if not self._done:
            yield self


class StillTask:
    """A coroutine that goes on as soon as what it waits for is there."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._callbacks: list[Callable[[Any], None]] = []

    def step(self) -> None:
        try:
            pending = self._coroutine.send(None)
        except StopIteration:
            for callback in self._callbacks:
                callback(self)
            return
        assert isinstance(pending, Pending), f"it waits for {pending!r}, which never comes here"
        pending.waiting = self

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def close(self) -> None:
        self._coroutine.close()


class Handle:
    """A timer that never rings: in the still loop no time passes."""

    def cancel(self) -> None: ...


class StillLoop:
    """As much of an event loop as protocols ask for, at a hundredth of its price."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self.tasks: list[StillTask] = []

    def time(self) -> float:
        return 0.0

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: object) -> Handle:
        del delay, callback, arguments
        return Handle()

    def call_soon(self, callback: Callable[..., None], *arguments: object) -> Handle:
        self.ready.append(lambda: callback(*arguments))
        return Handle()

    def create_future(self) -> Pending:
        return Pending(self)

    def create_task(self, coroutine: Coroutine[Any, Any, Any], *, context: object = None) -> StillTask:
        del context
        task = StillTask(coroutine)
        self.tasks.append(task)
        self.ready.append(task.step)
        return task

    def settle(self) -> None:
        """Run until everybody waits."""
        while self.ready:
            self.ready.popleft()()

    def close(self) -> None:
        for task in self.tasks:
            task.close()


class Wire:
    """A transport that only remembers."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.paused = False
        self.closing = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else None

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


def mutations(seed: bytes, draw: Callable[[int], int], words: tuple[bytes, ...]) -> Iterator[bytes]:
    """A seed, hurt again and again: what a run without Atheris tries. `draw` gives a number below another."""
    data = bytearray(seed)
    while True:
        at = draw(len(data) + 1)
        match draw(5):
            case 0:
                data[at:at] = bytes([draw(256)])
            case 1:
                del data[at : at + 1 + draw(8)]
            case 2 if data:
                data[min(at, len(data) - 1)] = draw(256)
            case 3 if words:
                data[at:at] = words[draw(len(words))]
            case _:
                other = draw(len(data) + 1)
                data[at:at] = data[min(at, other) : max(at, other)][:64]
        if len(data) > 1024 or not draw(24):
            data = bytearray(seed)
        yield bytes(data)
