"""Holds agents that are processes of this machine: stopped as a tree, by handles that cannot name somebody else."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from homeostat.core.errors import InvalidRequest
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

PROC: Final = Path("/proc")
STOPPED: Final = frozenset("Tt")
TREE_MAX: Final = 4_096


@dataclass(slots=True)
class _Held:
    """A process by its handle; the start time tells it from a later one that was given its number."""

    pid: int
    started: int
    handle: int
    stopped: dict[int, int] = field(default_factory=dict[int, int])  # who was stopped by us, and its start time


class ProcessEnforcer:
    """SIGSTOP and SIGCONT through pidfd, children first thawed last. It reaches only agents that were registered."""

    def __init__(self) -> None:
        self._held: dict[AgentKey, _Held] = {}

    def register(self, key: AgentKey, pid: int) -> None:
        """Say which process an agent is."""
        started = _started(pid)
        if started is None:
            raise InvalidRequest(problem=f"there is no process {pid}")
        self.forget(key)
        self._held[key] = _Held(pid, started, os.pidfd_open(pid))

    def forget(self, key: AgentKey) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            os.close(held.handle)

    async def hold(self, key: AgentKey, stance: Stance, reason: str) -> None:
        del reason
        held = self._held.get(key)
        if held is None or _started(held.pid) != held.started:
            return
        if stance is Stance.CLOSED:
            self._stop(held)
        elif stance is Stance.OPEN:
            self._thaw(held)

    def _stop(self, held: _Held) -> None:
        signal.pidfd_send_signal(held.handle, signal.SIGSTOP)
        held.stopped[held.pid] = held.started
        # A child that was begun while its siblings were stopped is found in the next round.
        for _ in range(8):
            fresh = [pid for pid in _descendants(held.pid) if pid not in held.stopped]
            if not fresh:
                return
            for pid in fresh:
                if (started := _started(pid)) is not None and _send(pid, started, signal.SIGSTOP):
                    held.stopped[pid] = started

    def _thaw(self, held: _Held) -> None:
        """Undo exactly what was done, in reverse."""
        for pid, started in reversed(list(held.stopped.items())):
            _send(pid, started, signal.SIGCONT)
        held.stopped.clear()

    async def held(self, key: AgentKey) -> Stance | None:
        """Read back from the system, not from memory: anybody of the same user may have woken it."""
        held = self._held.get(key)
        if held is None or _started(held.pid) != held.started:
            return None
        tree = [held.pid, *_descendants(held.pid)]
        return Stance.CLOSED if all(_state(pid) in STOPPED for pid in tree) else Stance.OPEN

    async def in_flight(self, key: AgentKey) -> int:
        del key
        return 0

    async def waiting(self, key: AgentKey) -> int:
        del key
        return 0

    async def preempt(self, key: AgentKey) -> None:
        del key


def _send(pid: int, started: int, number: signal.Signals) -> bool:
    """Signal a process if it is still the one that was meant."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if _started(pid) == started:
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


def _fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def _state(pid: int) -> str:
    fields = _fields(pid)
    return fields[0] if fields else "T"  # one that has ended does nothing any more


def _started(pid: int) -> int | None:
    fields = _fields(pid)
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def _descendants(root: int) -> Iterator[int]:
    """Everybody below a process, the older ones first."""
    level, seen = [root], 0
    while level and seen < TREE_MAX:
        following: list[int] = []
        for pid in level:
            for thread in (PROC / str(pid) / "task").glob("*/children"):
                with suppress(OSError):
                    following += [int(child) for child in thread.read_text().split()]
        yield from following
        seen += len(following)
        level = following
