"""What a remedy is at the gateway: rules that carry it out, and that can be tried on the past before it is given."""

from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.records.immune import RemedyAction
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.core.records.turn import AgentKey

REMEDY_SECONDS: Final = 3600.0  # a rule that helped is lifted after this, and the agent watched as ever
REQUESTS_PER_MINUTE: Final = 2
TOKENS_PER_REQUEST: Final = 500
CLEAR_SECONDS: Final = 60.0


def remedy_id(key: AgentKey, action: Action) -> PolicyId:
    return PolicyId(f"immune.remedy.{action.value}.{key[1]}"[:200])


def rules_of(
    key: AgentKey, remedy: RemedyAction, *, reason: str, now: Millis, requests_per_minute: int = REQUESTS_PER_MINUTE
) -> tuple[Policy, ...]:
    """The rules of a remedy; none where a gateway can do nothing for it."""

    def rule(
        action: Action,
        *,
        seconds: float = REMEDY_SECONDS,
        rate: int | None = None,
        tokens: int | None = None,
        deny: tuple[str, ...] = (),
    ) -> Policy:
        return Policy(
            policy_id=remedy_id(key, action),
            project=key[0],
            agent_id=key[1],
            action=action,
            origin=PolicyOrigin.IMMUNE,
            reason=reason,
            created_at_ms=now,
            expires_at_ms=Millis(now + int(seconds * 1000)),
            requests_per_minute=rate,
            max_tokens=tokens,
            deny=deny,
        )

    match remedy:
        case RemedyAction.RESET_MEMORY:
            return (rule(Action.CLEAR_CONTEXT, seconds=CLEAR_SECONDS),)
        case RemedyAction.REDUCE_AUTONOMY:
            return (
                rule(Action.RATE_LIMIT, rate=requests_per_minute),
                rule(Action.TOKEN_CAP, tokens=TOKENS_PER_REQUEST),
            )
        case RemedyAction.REVOKE_TOOLS:
            return (rule(Action.TOOL_FILTER, deny=("*",)),)
        case RemedyAction.ROLLBACK_PROMPT | RemedyAction.RESET_AGENT:
            return ()
