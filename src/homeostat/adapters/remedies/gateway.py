"""Treats agents from outside: through the rules of the gateway, and the memory that Homeostat keeps for them."""

from typing import Final

from homeostat.core.clock import Clock, Millis
from homeostat.core.ports.immune import Policies
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.core.records.turn import AgentKey

REMEDY_SECONDS: Final = 3600.0  # a rule that helped is lifted after this, and the agent watched as ever
REQUESTS_PER_MINUTE: Final = 2
TOKENS_PER_REQUEST: Final = 500
CLEAR_SECONDS: Final = 60.0

R = RemedyAction


def remedy_id(key: AgentKey, action: Action) -> PolicyId:
    return PolicyId(f"immune.remedy.{action.value}.{key[1]}"[:200])


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
                forgotten = await self._forget(key)
                await self._put(key, Action.CLEAR_CONTEXT, reason, seconds=CLEAR_SECONDS)
                return (
                    Applied.APPLIED,
                    f"{forgotten} remembered values were dropped, and it is told to clear its context",
                )
            case R.REDUCE_AUTONOMY:
                await self._put(key, Action.RATE_LIMIT, reason, requests_per_minute=self._requests_per_minute)
                await self._put(key, Action.TOKEN_CAP, reason, max_tokens=TOKENS_PER_REQUEST)
                most = f"{self._requests_per_minute} requests a minute of {TOKENS_PER_REQUEST} tokens"
                return Applied.APPLIED, f"it may make {most}"
            case R.REVOKE_TOOLS:
                await self._put(key, Action.TOOL_FILTER, reason, deny=("*",))
                return Applied.APPLIED, "no tools are offered to its model any more"
            case R.ROLLBACK_PROMPT:
                return Applied.NOT_APPLICABLE, "the gateway does not know its earlier prompts; an operator may"
            case R.RESET_AGENT:
                return Applied.NOT_APPLICABLE, "nothing here can restart it; an operator may"

    async def undo(self, key: AgentKey) -> None:
        for action in (Action.CLEAR_CONTEXT, Action.RATE_LIMIT, Action.TOKEN_CAP, Action.TOOL_FILTER):
            if self._policies.policy(key[0], remedy_id(key, action)) is not None:
                await self._policies.drop_policy(key[0], remedy_id(key, action))

    async def _forget(self, key: AgentKey) -> int:
        remembered = await self._memory.recall(key)
        if remembered:
            await self._memory.keep(key, dict.fromkeys(remembered), self._clock.now_ms())
        return len(remembered)

    async def _put(
        self,
        key: AgentKey,
        action: Action,
        reason: str,
        *,
        seconds: float = REMEDY_SECONDS,
        requests_per_minute: int | None = None,
        max_tokens: int | None = None,
        deny: tuple[str, ...] = (),
    ) -> None:
        now = self._clock.now_ms()
        await self._policies.put_policy(
            Policy(
                policy_id=remedy_id(key, action),
                project=key[0],
                agent_id=key[1],
                action=action,
                origin=PolicyOrigin.IMMUNE,
                reason=reason,
                created_at_ms=now,
                expires_at_ms=Millis(now + int(seconds * 1000)),
                requests_per_minute=requests_per_minute,
                max_tokens=max_tokens,
                deny=deny,
            )
        )
