"""The data directory of one server: held while it runs, so that a second one is told where the first one is."""

import fcntl
import json
import os
from pathlib import Path
from typing import Final, Self, cast

from homeostat.core.errors import SettingInvalid

LOCK_FILE: Final = "server.json"


class DataDirectory:
    """A directory that belongs to this process; the lock ends with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise SettingInvalid(setting="--data-dir", problem=f"{self.path}: {problem.strerror}") from problem
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _read(handle)
            os.close(handle)
            raise SettingInvalid(setting="--data-dir", problem=_occupied(self.path, holder)) from None
        self._handle = handle
        self.announce(None)
        return self

    def announce(self, url: str | None) -> None:
        """Leave word where the server is reached."""
        assert self._handle is not None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def _read(handle: int) -> dict[str, object]:
    try:
        found: object = json.loads(os.pread(handle, 4_096, 0) or b"{}")
    except ValueError:
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _occupied(path: Path, holder: dict[str, object]) -> str:
    where = f" at {holder['url']}" if holder.get("url") else ""
    who = f" (process {holder['pid']})" if holder.get("pid") else ""
    return f"Homeostat is running on {path} already{where}{who}; use that one, another --data-dir, or --ephemeral"
