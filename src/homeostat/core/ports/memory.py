"""Where an agent's memory outlives the agent: values by key, JSON, one set per agent."""

from collections.abc import Mapping
from typing import Final, Protocol

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.records.turn import AgentKey

ASIDE: Final = "~"
"""Keys that begin like this hold what a memory was before its last turn, should that turn have to begin again."""


CLEARED: Final = ASIDE + ASIDE + "clear"
"""Says that an agent is to have forgotten everything before its next turn, and why. No memory key looks like it."""

TREATED: Final = ASIDE + ASIDE + "treated"
"""Which remedies an agent was given and when, oldest first: a worker that begins anew applies them again."""


class MemoryKeeper(Protocol):
    """Keeps what agents remember. Both methods may raise `StoreUnavailable`."""

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        """Everything an agent remembers; nothing for one that was never heard of."""
        ...

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        """Write the changes together or not at all; None forgets a key. The last writer of a key is right."""
        ...
