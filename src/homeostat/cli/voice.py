"""What a process that serves says while it serves. A thread of its own writes it: whoever does not read stops nobody.

A terminal after Ctrl-S, a pager and a pipe whose reader hangs all make a write wait for as long as they please. Written
from the event loop, one line too many would hold every turn, call and order behind it.
"""

import atexit
import logging
import os
import threading
from collections import OrderedDict
from queue import Full, Queue
from typing import Final

from homeostat.core.clock import Clock, SystemClock

LINES_WAITING_MAX: Final = 1_000
REPEATED_SECONDS: Final = 10.0  # between two lines that say the same
LINES_REMEMBERED_MAX: Final = 256
FAREWELL_SECONDS: Final = 1.0  # how long the last lines may take at the end
STDOUT: Final = 1
STDERR: Final = 2


class Voice:
    """Writes lines to a file descriptor, in order, and leaves out those that too many others wait before."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._waiting: Final[Queue[str | None]] = Queue(LINES_WAITING_MAX)
        self._left_out = 0
        self._thread: threading.Thread | None = None
        self._starting: Final = threading.Lock()

    def say(self, line: str) -> None:
        """Have a line written, if anybody reads; returns at once."""
        self.write(f"{line}\n")

    def write(self, text: str) -> None:
        """As a stream would, for the log."""
        if self._thread is None or not self._thread.is_alive():  # what is said after the end is said, too
            self._start()
        missed = f"({self._left_out} lines were left out: nobody read them)\n" if self._left_out else ""
        try:
            self._waiting.put_nowait(missed + text)
        except Full:
            self._left_out += 1
        else:
            self._left_out = 0

    def flush(self) -> None:
        """Nobody waits for what was said."""

    def close(self, seconds: float = FAREWELL_SECONDS) -> None:
        """Wait a moment for what is not written yet."""
        if self._thread is not None:
            try:
                self._waiting.put(None, timeout=seconds)
            except Full:
                return
            self._thread.join(seconds)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                atexit.register(self.close)
            elif self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._write_all, name=f"voice-{self._descriptor}", daemon=True)
            self._thread.start()

    def _write_all(self) -> None:
        while (text := self._waiting.get()) is not None:
            self._put(text)

    def _put(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")
        try:
            while data:  # not through sys.stdout: the interpreter could not end while a thread waits inside it
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass  # the reader is gone, or the disk is full: the next line may find it otherwise


aloud: Final = Voice(STDOUT)
aside: Final = Voice(STDERR)


class Repeats(logging.Filter):
    """Lets the same line through once in a while, and says with the next one how often it would have stood there.

    What is told once for each thing that goes wrong is a flood while a bus is away, and hides what else is said.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock: Final = clock
        self._said: Final[OrderedDict[tuple[str, int, str], tuple[float, int]]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            return True  # the same words may stand above another trace
        now, line = self._clock.monotonic(), record.getMessage()
        place = record.name, record.levelno, line
        said_at, times = self._said.get(place, (now - REPEATED_SECONDS, 0))
        if now - said_at < REPEATED_SECONDS:
            self._said[place] = said_at, times + 1
            return False
        self._said[place] = now, 0
        self._said.move_to_end(place)
        if len(self._said) > LINES_REMEMBERED_MAX:
            self._said.popitem(last=False)
        if times:
            record.msg, record.args = "%s (and %d times more since it was last said)", (line, times)
        return True


def begin_logging(level: str) -> None:
    """Log from this level on to standard error."""
    handler = logging.StreamHandler(aside)
    handler.addFilter(Repeats(SystemClock()))
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler]
    )
