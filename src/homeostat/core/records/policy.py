"""What an agent may not do at the gateway, on whose word, why and until when."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId

PolicyId = NewType("PolicyId", str)

QUARANTINED = "Agent is quarantined by immune system"
"""What a blocked agent is told, to the letter."""


class Action(StrEnum):
    """What a policy does to a call, in the order in which policies are asked."""

    BLOCK = "block"
    DRAIN = "drain"
    MODEL_FILTER = "model_filter"
    TOOL_FILTER = "tool_filter"
    TOKEN_CAP = "token_cap"  # noqa: S105 - a number of tokens, not a secret
    RATE_LIMIT = "rate_limit"
    CLEAR_CONTEXT = "clear_context"
    ALERT = "alert"


class PolicyOrigin(StrEnum):
    """On whose word a policy is in force."""

    OPERATOR = "operator"
    IMMUNE = "immune"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One rule for one agent, or for every agent of a project. Which terms it needs depends on its action.

    `allow` and `deny` are names of models or tools, with `*` for any part of a name; an empty `allow` allows all.
    `refuse` lets a tool filter or a token cap turn a call away instead of trimming it. An alert without a number of
    tokens speaks up at every call.
    """

    policy_id: PolicyId
    project: ProjectId
    agent_id: AgentId | None
    action: Action
    origin: PolicyOrigin = PolicyOrigin.OPERATOR
    reason: str = ""
    created_at_ms: Millis
    expires_at_ms: Millis | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_tokens: int | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    refuse: bool = False

    def fits(self, wanted: "PolicyFilter") -> bool:
        """Whether a filter means this policy."""
        return (
            self.project == wanted.project
            and wanted.agent_id in (None, self.agent_id)
            and wanted.origin in (None, self.origin)
            and wanted.action in (None, self.action)
        )

    def expired(self, now: Millis) -> bool:
        return self.expires_at_ms is not None and self.expires_at_ms <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFilter:
    """Which policies are meant: all that fit what is named. An agent's are those that name it, not those for all."""

    project: ProjectId
    agent_id: AgentId | None = None
    origin: PolicyOrigin | None = None
    action: Action | None = None


TERMS: dict[Action, frozenset[str]] = {
    Action.BLOCK: frozenset(),
    Action.DRAIN: frozenset(),
    Action.MODEL_FILTER: frozenset({"allow", "deny"}),
    Action.TOOL_FILTER: frozenset({"allow", "deny", "refuse"}),
    Action.TOKEN_CAP: frozenset({"max_tokens", "refuse"}),
    Action.RATE_LIMIT: frozenset({"requests_per_minute", "tokens_per_minute"}),
    Action.CLEAR_CONTEXT: frozenset(),
    Action.ALERT: frozenset({"max_tokens"}),
}
"""The terms each action understands; any other on it is a mistake."""
