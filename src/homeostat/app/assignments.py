"""What agents work on, as the kernel of this process has it at hand or as the store says."""

from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Turn
from homeostat.kernel.kernel import Kernel


class KernelAssignments:
    """Asks the store, unless the kernel beside the gateway is the only one that moves turns: then it knows."""

    def __init__(self, store: TurnStore, *, kernel: Kernel | None = None) -> None:
        self._store = store
        self._kernel = kernel

    def at_hand(self, agent: AgentKey) -> tuple[bool, Turn | None]:
        mailbox = self._kernel.flusher.at_hand(agent) if self._kernel is not None else None
        if mailbox is None:
            return False, None
        return True, mailbox.active.turn if mailbox.active is not None else None

    async def look_up(self, agent: AgentKey) -> Turn | None:
        mailbox = (await self._store.load([agent])).get(agent)
        return mailbox.active.turn if mailbox is not None and mailbox.active is not None else None
