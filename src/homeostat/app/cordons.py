"""An operator's gate: a cordoned agent gets no new turns, whatever else opens its gate meanwhile."""

from homeostat.core.clock import Clock
from homeostat.core.errors import AgentUnknown
from homeostat.core.ids import TurnId
from homeostat.core.ports.access import AccessStore
from homeostat.core.records.access import CORDONED, Cordon
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AgentKey
from homeostat.kernel.kernel import Kernel


class Cordons:
    """Turns the kernel's gate for operators, and stands before it for whoever else turns it."""

    def __init__(self, *, kernel: Kernel, store: AccessStore, clock: Clock) -> None:
        self._kernel = kernel
        self._store = store
        self._clock = clock

    async def cordon(self, agent: AgentKey, *, reason: str, actor: str) -> Cordon:
        """No new turns from now on. The one under way goes on, messages wait in the inbox."""
        head = await self._kernel.store.head(*agent)
        if head is None:
            raise AgentUnknown(agent_id=agent[1], project=agent[0])
        cordon = Cordon(project=agent[0], agent_id=agent[1], reason=reason, actor=actor, at_ms=self._clock.now_ms())
        await self._store.put_cordon(cordon)
        if head.head.gate is Gate.OPEN or (head.head.gate_reason or "").startswith(CORDONED):
            await self._kernel.set_gate(agent, Gate.DRAINING, _words(cordon))
        return cordon

    async def uncordon(self, agent: AgentKey) -> bool:
        """Turns again, unless somebody else holds the gate. Whether the agent was cordoned."""
        lifted = await self._store.drop_cordon(agent)
        head = await self._kernel.store.head(*agent)
        if head is None:
            raise AgentUnknown(agent_id=agent[1], project=agent[0])
        if (head.head.gate_reason or "").startswith(CORDONED):
            await self._kernel.set_gate(agent, Gate.OPEN)
        return lifted

    async def get(self, agent: AgentKey) -> Cordon | None:
        return await self._store.cordon(agent)

    async def set_gate(
        self, key: AgentKey, gate: Gate, reason: str | None = None, mandate: Mandate | None = None
    ) -> Gate:
        """As the kernel's, but a gate that opens before a cordoned agent opens no further than to drain."""
        if gate is Gate.OPEN and (cordon := await self._store.cordon(key)) is not None:
            return await self._kernel.set_gate(key, Gate.DRAINING, _words(cordon), mandate)
        return await self._kernel.set_gate(key, gate, reason, mandate)

    async def preempt(self, key: AgentKey) -> TurnId | None:
        return await self._kernel.preempt(key)


def _words(cordon: Cordon) -> str:
    return f"{CORDONED}{cordon.actor}: {cordon.reason}"
