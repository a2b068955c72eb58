"""What an enforcer says of its agents' work where it sees none of it."""

from homeostat.core.records.turn import AgentKey


class Workless:
    """Nothing is in flight, nothing waits, there is nothing to put back, and nobody is spared."""

    def apart(self, key: AgentKey) -> str:
        del key
        return ""

    async def in_flight(self, key: AgentKey) -> int:
        del key
        return 0

    async def waiting(self, key: AgentKey) -> int:
        del key
        return 0

    async def preempt(self, key: AgentKey) -> None:
        del key
