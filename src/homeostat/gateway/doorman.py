"""Who is calling: an agent is known by its key, and by nothing else unless development says so."""

import asyncio

from homeostat.core.clock import Clock
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import KEY_STALE_SECONDS, KEYS_CACHED_MAX
from homeostat.core.ports.gateway import Keyring
from homeostat.core.records.turn import AgentKey


class Doorman:
    """Remembers for a moment whose key a key is. It is told the digest of the key, and never the key itself."""

    def __init__(self, *, keyring: Keyring, clock: Clock, project: ProjectId, development: bool) -> None:
        self._keyring = keyring
        self._clock = clock
        self._project = project
        self._development = development
        self._known: dict[str, tuple[AgentKey | None, float]] = {}
        self._asking: dict[str, asyncio.Task[AgentKey | None]] = {}

    def word(self, agent_id: str) -> AgentKey | None:
        """Who an agent says it is, where its word is taken for it."""
        return (self._project, AgentId(agent_id)) if self._development and agent_id else None

    def recall(self, digest: str, now: float) -> tuple[bool, AgentKey | None]:
        """Whether the answer is known without asking, and the answer."""
        if not digest:
            return True, None
        known = self._known.get(digest)
        if known is None or known[1] < now:
            return False, None
        agent = known[0]
        if agent is not None and self._keyring.left(agent):
            return False, None
        return True, agent

    async def ask(self, digest: str) -> AgentKey | None:
        """Ask the register; many who come with the same key ask once."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._look_up(digest))
            self._asking[digest] = asking
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(asking)

    async def _look_up(self, digest: str) -> AgentKey | None:
        asked_at = self._clock.monotonic()  # the answer may have lain there while this process slept
        holder = await self._keyring.holder(digest)
        if len(self._known) >= KEYS_CACHED_MAX:
            self._known.clear()
        self._known[digest] = (holder, asked_at + KEY_STALE_SECONDS)
        return holder

    def forget(self) -> None:
        """An agent came or went: ask again."""
        self._known.clear()
