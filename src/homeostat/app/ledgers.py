"""Where a server keeps the key it signs ledgers with, and the heads it signed: files beside the store, not in it."""

import asyncio
import fcntl
import functools
import os
import re
import stat
from pathlib import Path
from typing import Final

from homeostat.app.settings import Settings
from homeostat.core.clock import Clock
from homeostat.core.errors import SettingInvalid
from homeostat.core.ids import RunId, digest_of, private_key
from homeostat.core.ports.ledger import LedgerStore
from homeostat.runs.heads import Ed25519Signer
from homeostat.runs.ledgers import Ledgers

KEY_FILE: Final = "ledger.key"
HEADS_FOLDER: Final = "heads"
KEY_BYTES: Final = 32

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")


def open_ledgers(settings: Settings, store: LedgerStore, clock: Clock) -> Ledgers:
    """Ledgers that are sealed with this server's key. The key is made when it is first needed."""
    if settings.ephemeral:
        seed = private_key(KEY_BYTES)
        return Ledgers(
            store=store, keeper=MemoryHeads(), signer=functools.cache(lambda: Ed25519Signer(seed)), clock=clock
        )
    path = settings.ledger_key or settings.data_dir / KEY_FILE
    return Ledgers(
        store=store,
        keeper=FileHeads(settings.data_dir / HEADS_FOLDER),
        signer=functools.cache(lambda: Ed25519Signer(signing_key(path))),
        clock=clock,
    )


def signing_key(path: Path) -> bytes:
    """The key in a file that only its owner may read; it is made if there is none."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return _read(path)
        with os.fdopen(handle, "w") as file:
            file.write(private_key(KEY_BYTES).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        return _read(path)
    except OSError as problem:
        raise SettingInvalid(setting="ledger_key", problem=f"{path}: {problem.strerror}") from problem


def _read(path: Path) -> bytes:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SettingInvalid(setting="ledger_key", problem=f"others may read {path}; make it yours alone: chmod 600")
    try:
        key = bytes.fromhex(path.read_text("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingInvalid(setting="ledger_key", problem=f"{path} holds no key: {KEY_BYTES * 2} hexadecimal digits")
    return key


class FileHeads:
    """A file per run to which heads are added, a line each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def heads(self, run_id: RunId) -> list[bytes]:
        return await asyncio.to_thread(self._heads, run_id)

    async def keep(self, run_id: RunId, head: bytes) -> None:
        await asyncio.to_thread(self._keep, run_id, head)

    def _heads(self, run_id: RunId) -> list[bytes]:
        """What does not end as a line was torn while it was written, and given out to nobody."""
        try:
            return [line for line in self._path(run_id).read_bytes().split(b"\n")[:-1] if line]
        except FileNotFoundError:
            return []

    def _keep(self, run_id: RunId, head: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path(run_id), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(file.read().rfind(b"\n") + 1)  # what was torn would spoil what comes behind it
            file.write(head + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _path(self, run_id: RunId) -> Path:
        return self._folder / f"{run_id if _PLAIN.fullmatch(run_id) else digest_of(run_id)}.heads"


class MemoryHeads:
    """Heads of a server that forgets everything at its end."""

    def __init__(self) -> None:
        self._kept: dict[RunId, list[bytes]] = {}

    async def heads(self, run_id: RunId) -> list[bytes]:
        return list(self._kept.get(run_id, ()))

    async def keep(self, run_id: RunId, head: bytes) -> None:
        self._kept.setdefault(run_id, []).append(head)
