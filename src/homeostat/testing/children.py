"""Processes that outlive nobody: however their starter ends, they end with it."""

import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

END_SECONDS_MAX: Final = 30.0

# Waits for its starter to end, for whatever reason, and clears up behind it.
UNDERTAKER: Final = 'read -r _; kill -KILL "$1"; [ -z "$2" ] || rm -rf "$2" 2>/dev/null || { sleep 1; rm -rf "$2"; }'


def undertaker_of(pid: int, directory: Path | None = None) -> "subprocess.Popen[bytes]":
    """Somebody who waits for this process to end, kills another one then, and clears up behind it."""
    return subprocess.Popen(
        ["/bin/sh", "-c", UNDERTAKER, "undertaker", str(pid), str(directory or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(undertaker: "subprocess.Popen[bytes]") -> None:
    """The process has ended in its own time."""
    undertaker.kill()
    undertaker.communicate()


@contextmanager
def child(command: Sequence[str], **options: Any) -> "Generator[subprocess.Popen[str]]":
    """A process that is asked to end with the block, and killed should this one end before."""
    process = subprocess.Popen(command, text=True, **options)
    undertaker = undertaker_of(process.pid)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            dismiss(undertaker)
