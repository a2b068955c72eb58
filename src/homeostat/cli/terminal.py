"""A terminal that is drawn on, and left as it was found, however the program ends."""

import asyncio
import os
import re
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable
from typing import Any, Final, Self

from homeostat.cli.tables import Screen, screen

ENTER: Final = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)


class Terminal:
    """The screen of one full-screen program. Keys come as they are pressed; Ctrl-C and a hang-up ask it to stop."""

    def __init__(
        self, *, on_key: Callable[[str], None], on_resize: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        self._on_key = on_key
        self._on_resize = on_resize
        self._on_stop = on_stop
        self._input = sys.stdin.fileno()
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._input, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._on_resize)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_stop)
        self._write(ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._input)
        for number in (signal.SIGWINCH, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        self._write(LEAVE)

    def measure(self) -> tuple[Screen, int]:
        """How wide and how high it is now."""
        size = shutil.get_terminal_size()
        return Screen(size.columns, screen().colours), size.lines

    def show(self, lines: list[str]) -> None:
        """Replace what is there without a flicker: each line is written over the one it replaces."""
        self._write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")

    def _read(self) -> None:
        pressed = os.read(self._input, 1024)
        if not pressed:
            self._on_stop()
        for key in _KEY.findall(pressed.decode(errors="replace")):
            self._on_key(key)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
