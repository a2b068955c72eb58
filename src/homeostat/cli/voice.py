"""What a process that serves says while it serves. A thread of its own writes it: whoever does not read stops nobody.

A terminal after Ctrl-S, a pager and a pipe whose reader hangs all make a write wait for as long as they please. Written
from the event loop, one line too many would hold every turn, call and order behind it.
"""

import atexit
import logging
import os
import threading
from queue import Full, Queue
from typing import Final

LINES_WAITING_MAX: Final = 1_000
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


def begin_logging(level: str) -> None:
    """Log from this level on to standard error."""
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[logging.StreamHandler(aside)],
    )
