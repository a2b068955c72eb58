"""The keys of agents that were registered from this machine: an agent that comes back has to prove who it is."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from homeostat.core.records.turn import AgentKey

KEYS_FILE = "keys.json"


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """Where the XDG specification would have an application keep its data."""
    base = environment.get("XDG_DATA_HOME", "")
    root = Path(base) if base.startswith("/") else Path(environment.get("HOME") or "~").expanduser() / ".local/share"
    return root / "homeostat"


class KeyRing:
    """Keys by server, project and agent, in a file that only its owner may read; without a file, in memory."""

    def __init__(self, path: Path | None, *, url: str) -> None:
        self._path = path
        self._url = url.rstrip("/")
        self._keys: dict[str, str] = {}

    def open(self) -> None:
        if self._path is None:
            return
        with suppress(OSError, ValueError):
            read = json.loads(self._path.read_text())
            if isinstance(read, dict):
                self._keys = {str(name): str(key) for name, key in cast("dict[object, object]", read).items()}

    def get(self, agent: AgentKey) -> str | None:
        return self._keys.get(self._name(agent))

    def urls(self, agent: AgentKey) -> list[str]:
        """The servers for which there is a key of an agent of that name."""
        named = f" {agent[0]} {agent[1]}"
        return sorted(name.removesuffix(named) for name in self._keys if name.endswith(named))

    def remember(self, agent: AgentKey, key: str) -> None:
        """Hold a key as long as this process lives: its agent will not come back."""
        self._keys[self._name(agent)] = key

    def keep(self, agent: AgentKey, key: str) -> None:
        """Remember a key, on disk before anything else happens."""
        if self.get(agent) == key:
            return
        self.open()  # another process may have added its own
        self._keys[self._name(agent)] = key
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=KEYS_FILE)
        with os.fdopen(handle, "w") as file:
            json.dump(self._keys, file, indent=1, sort_keys=True)
        Path(name).replace(self._path)

    def _name(self, agent: AgentKey) -> str:
        return f"{self._url} {agent[0]} {agent[1]}"
