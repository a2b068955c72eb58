"""The gateway's keyring is the fleet's register: registration gives a key, and leaving takes its power."""

from collections.abc import Callable

from homeostat.core.ids import AgentId
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.records.turn import AgentKey

Registered = Callable[[AgentId], object | None]
"""What this process knows of an agent; None for one it does not know, or not any more."""


class RegisterKeyring:
    """Looks keys up by their digests. Where the register is at hand, a departure is known at once."""

    def __init__(self, store: RegistryStore, *, registered: Registered | None = None) -> None:
        self._store = store
        self._registered = registered

    async def holder(self, key_digest: str) -> AgentKey | None:
        entry = await self._store.by_key(key_digest)
        return None if entry is None or entry.gone else (entry.project, entry.agent_id)

    def left(self, agent: AgentKey) -> bool:
        return self._registered is not None and self._registered(agent[1]) is None
