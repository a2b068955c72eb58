"""Holds agents at the gateway: a policy refuses their model calls, wherever the agent itself runs."""

from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.clock import Clock
from homeostat.core.ports.immune import Policies
from homeostat.core.records.enforcement import Mandate, Reading, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.core.records.turn import AgentKey

ACTIONS = {Stance.DRAINING: Action.DRAIN, Stance.CLOSED: Action.BLOCK, Stance.ENDED: Action.BLOCK}
STANCES = {"agent_draining": Stance.DRAINING, "agent_quarantined": Stance.CLOSED}


def hold_id(key: AgentKey) -> PolicyId:
    """The one policy by which an agent is held."""
    return PolicyId(f"immune.hold.{key[1]}"[:200])


class GatewayEnforcer(Workless):
    """One policy per agent that is held; its action is the stance."""

    strategy = Strategy.GATEWAY
    local = False
    frees_to_treat = False
    drains = True
    ends = False

    def __init__(self, *, policies: Policies, clock: Clock) -> None:
        self._policies = policies
        self._clock = clock

    async def reaches(self, key: AgentKey) -> bool:
        """A key that was issued is honoured by the gateway, wherever its agent runs."""
        del key
        return True

    async def observe(self, key: AgentKey, before: str) -> str:
        del key
        return before

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del before
        if stance is Stance.OPEN:
            await self._policies.drop_policy(key[0], hold_id(key), mandate)
            return
        await self._policies.put_policy(
            Policy(
                policy_id=hold_id(key),
                project=key[0],
                agent_id=key[1],
                action=ACTIONS[stance],
                origin=PolicyOrigin.IMMUNE,
                reason=reason,
                created_at_ms=self._clock.now_ms(),
            ),
            mandate,
        )

    async def held(self, key: AgentKey, before: str) -> Reading:
        """What a call that came now would meet, by whichever policy."""
        del before
        met = await self._policies.gate(key)
        if met is None:
            return Reading(stance=Stance.OPEN, note="calls pass")
        code, policy_id = met
        if policy_id != hold_id(key):
            if self._policies.policy(key[0], hold_id(key)) is None:
                return Reading(stance=Stance.OPEN, note=f"calls are refused by policy {policy_id}, which is not ours")
            return Reading(stance=Stance.CLOSED, note=f"calls are refused by policy {policy_id} too")
        return Reading(stance=STANCES[code], note="calls are refused with 503")

    async def in_flight(self, key: AgentKey) -> int:
        """Calls under way. None is taken back: it is the upstream's by then, and its answer is counted."""
        return await self._policies.in_flight(key)
