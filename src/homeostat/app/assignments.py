"""What agents work on, as the kernel of this process has it at hand or as the store says."""

from collections.abc import Iterable

from homeostat.core.limits import ASSIGNMENTS_CACHED_MAX
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Turn
from homeostat.kernel.kernel import Kernel


class KernelAssignments:
    """Asks the store, unless the kernel beside the gateway is the only one that moves turns: then it knows.

    Of agents that never had a turn the kernel has nothing at hand. What the store said of them once stands until the
    kernel moves them.
    """

    def __init__(self, store: TurnStore, *, kernel: Kernel | None = None) -> None:
        self._store = store
        self._kernel = kernel
        self._without: dict[AgentKey, bool] = {}  # False while the store is being asked
        if kernel is not None:
            kernel.flusher.on_moved = self._moved

    def at_hand(self, agent: AgentKey) -> tuple[bool, Turn | None]:
        mailbox = self._kernel.flusher.at_hand(agent) if self._kernel is not None else None
        if mailbox is None:
            return self._without.get(agent, False), None
        return True, mailbox.active.turn if mailbox.active is not None else None

    async def look_up(self, agent: AgentKey) -> Turn | None:
        without = self._without
        if self._kernel is not None:
            if len(without) >= ASSIGNMENTS_CACHED_MAX:
                without.clear()
            without[agent] = False
        mailbox = (await self._store.load([agent])).get(agent)
        turn = mailbox.active.turn if mailbox is not None and mailbox.active is not None else None
        if agent in without:  # else it was moved meanwhile
            without[agent] = turn is None
        return turn

    def _moved(self, agents: Iterable[AgentKey]) -> None:
        if self._without:
            for agent in agents:
                self._without.pop(agent, None)
