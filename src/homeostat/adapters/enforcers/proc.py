"""Processes of this machine as /proc tells of them, each named so that no later one is taken for it."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
STOPPED: Final = frozenset("Tt")
ENDED: Final = frozenset("ZX")
RESTING: Final = STOPPED | ENDED
TREE_MAX: Final = 4_096
LISTENS: Final = "0A"  # the state of a socket in /proc/net/tcp
MARK: Final = "HOMEOSTAT_CUSTODY"  # the variable that says by whom a process was started


class Named(NamedTuple):
    """A process by its number and the moment it was started."""

    pid: int
    started: int


def boot_id() -> str:
    """Which boot of the machine this is; numbers and start times mean nothing in another one."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def started(pid: int) -> int | None:
    """When a process began, in ticks since boot; None if there is none, or only what its parent has not fetched."""
    found = fields(pid)
    return None if not found or found[0] in ENDED else int(found[19])


def alive(one: Named) -> bool:
    return started(one.pid) == one.started


def state(pid: int) -> str:
    found = fields(pid)
    return found[0] if found else "X"


def parent(pid: int) -> int:
    found = fields(pid)
    return int(found[1]) if found else 0


def uid(pid: int) -> int | None:
    """Whose process it is."""
    line = _status(pid, "Uid:")
    return int(line.split()[0]) if line else None


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; without one it would die of it."""
    line = _status(pid, "SigCgt:")
    return bool(line) and bool(int(line, 16) >> (number - 1) & 1)


def _status(pid: int, name: str) -> str:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith(name):
                return line.removeprefix(name).strip()
    return ""


def listening(pid: int) -> set[int]:
    """The ports of this machine at which a process listens over IPv4."""
    sockets: set[str] = set()
    with suppress(OSError):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                sockets.add(str(entry.readlink()))
    ports: set[int] = set()
    with suppress(OSError):
        for line in (PROC / str(pid) / "net/tcp").read_text().splitlines()[1:]:
            place, status, inode = (columns := line.split())[1], columns[3], columns[9]
            if status == LISTENS and f"socket:[{inode}]" in sockets:
                ports.add(int(place.rpartition(":")[2], 16))
    return ports


def ancestors(pid: int) -> Iterator[int]:
    """Who started a process, who started that one, and so on."""
    for _ in range(TREE_MAX):
        pid = parent(pid)
        if pid <= 0:
            return
        yield pid


def descendants(roots: Iterable[int]) -> list[Named]:
    """Everybody below some processes, the older ones first."""
    found: dict[int, Named] = {}
    level = list(roots)
    while level and len(found) < TREE_MAX:
        following: list[int] = []
        for pid in level:
            for thread in (PROC / str(pid) / "task").glob("*/children"):
                with suppress(OSError):
                    following += [int(child) for child in thread.read_text().split()]
        level = list[int]()
        for pid in following:
            if pid not in found and (since := started(pid)) is not None:
                found[pid] = Named(pid, since)
                level.append(pid)
    return list(found.values())


def mark(supervisor: Named, boot: str) -> str:
    """What a supervisor gives everybody it starts, who give it on: its own name, which no other one ever has."""
    return f"{supervisor.pid}.{supervisor.started}.{boot}"


def marked(value: str, owner: int) -> list[Named]:
    """Every process of a user whose environment still says that it was started under a supervisor, whoever adopted it.

    The environment is what a process was given when its program began: who cleared it or wrote over it is not found.
    """
    entry = f"{MARK}={value}".encode()
    found: list[Named] = []
    for place in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if place.stat().st_uid != owner:
                continue
            since = started(pid := int(place.name))
            given = (place / "environ").read_bytes().split(b"\0")
            if since is not None and entry in given and alive(one := Named(pid, since)):
                found.append(one)
    return found


def send(one: Named, number: signal.Signals) -> bool:
    """Signal a process if it is still the one that was meant: by a handle, which no later process can have."""
    try:
        handle = os.pidfd_open(one.pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        if not alive(one):
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True
