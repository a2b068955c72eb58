"""Treats agents from outside: through the rules of the gateway, and the memory that Homeostat keeps for them."""

from homeostat.core.clock import Clock
from homeostat.core.ports.immune import Policies
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.policy import Action
from homeostat.core.records.turn import AgentKey
from homeostat.core.remedy_rules import REQUESTS_PER_MINUTE, TOKENS_PER_REQUEST, remedy_id, rules_of

R = RemedyAction


class GatewayRemedies:
    """What a gateway cannot do it says, and does not pretend."""

    def __init__(
        self,
        *,
        policies: Policies,
        memory: MemoryKeeper,
        clock: Clock,
        requests_per_minute: int = REQUESTS_PER_MINUTE,
    ) -> None:
        self._policies = policies
        self._memory = memory
        self._clock = clock
        self._requests_per_minute = requests_per_minute

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        match action:
            case R.RESET_MEMORY:
                note = f"{await self._forget(key)} remembered values were dropped, and it is told to clear its context"
            case R.REDUCE_AUTONOMY:
                note = f"it may make {self._requests_per_minute} requests a minute of {TOKENS_PER_REQUEST} tokens"
            case R.REVOKE_TOOLS:
                note = "no tools are offered to its model any more"
            case R.ROLLBACK_PROMPT:
                return Applied.NOT_APPLICABLE, "the gateway does not know its earlier prompts; an operator may"
            case R.RESET_AGENT:
                return Applied.NOT_APPLICABLE, "nothing here can restart it; an operator may"
        now, most = self._clock.now_ms(), self._requests_per_minute
        for rule in rules_of(key, action, reason=reason, now=now, requests_per_minute=most):
            await self._policies.put_policy(rule)
        return Applied.APPLIED, note

    async def undo(self, key: AgentKey) -> None:
        for action in (Action.CLEAR_CONTEXT, Action.RATE_LIMIT, Action.TOKEN_CAP, Action.TOOL_FILTER):
            if self._policies.policy(key[0], remedy_id(key, action)) is not None:
                await self._policies.drop_policy(key[0], remedy_id(key, action))

    async def _forget(self, key: AgentKey) -> int:
        remembered = await self._memory.recall(key)
        if remembered:
            await self._memory.keep(key, dict.fromkeys(remembered), self._clock.now_ms())
        return len(remembered)
