"""Policies, budgets and model calls as they are sent."""

from datetime import datetime
from typing import Annotated

import msgspec

from homeostat.core.limits import NAME_CHARS_MAX, PAGE_DEFAULT, TOKENS_MAX
from homeostat.core.records.budget import BudgetKind, BudgetLimit
from homeostat.core.records.call import Api, Metered, Outcome, Priced
from homeostat.core.records.policy import Action, PolicyOrigin
from homeostat.core.wire.bodies import Cursor, Limit
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape

REASON_CHARS_MAX = 1_000
PATTERNS_MAX = 256
SECONDS_MAX = 10 * 365 * 86_400.0
USD_MAX = 1e9

Tokens = Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX)]
Names = Annotated[
    tuple[Name, ...], msgspec.Meta(max_length=PATTERNS_MAX, description="`*` stands for any part of a name.")
]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]


class PolicyBody(Body, frozen=True, kw_only=True):
    """A rule for one agent, or for all of a project where none is named. Its action says which terms it takes."""

    action: Action
    policy_id: Annotated[Name | None, msgspec.Meta(description="Made up where none is given.")] = None
    agent_id: Name | None = None
    origin: PolicyOrigin = PolicyOrigin.OPERATOR
    reason: Reason = ""
    expires_in_seconds: Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)] | None = None
    requests_per_minute: Tokens | None = None
    tokens_per_minute: Tokens | None = None
    max_tokens: Tokens | None = None
    allow: Names = ()
    deny: Names = ()
    refuse: bool = False


class PolicyShape(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A policy in force."""

    policy_id: str
    action: Action
    agent_id: str | None
    origin: PolicyOrigin
    reason: str
    created_at: Instant
    expires_at: Instant | None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_tokens: int | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    refuse: bool = False


class PoliciesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose policies."""

    agent_id: Annotated[Name | None, msgspec.Meta(description="Only what holds for this agent.")] = None
    origin: PolicyOrigin | None = None
    action: Action | None = None
    q: FilterText | None = None


class PoliciesFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which policies go: all that fit what is named, of which there must be something."""

    agent_id: Annotated[Name | None, msgspec.Meta(description="Those that name this agent.")] = None
    origin: PolicyOrigin | None = None
    action: Action | None = None
    dry_run: bool = False


class PoliciesDropped(Shape, frozen=True, kw_only=True):
    """Which policies went, or would go."""

    dropped: list[str]
    dry_run: bool = False


class PoliciesPage(Shape, frozen=True, kw_only=True):
    """The policies in force, and the version of the set they are."""

    version: int
    policies: list[PolicyShape]


class RehearsalShape(Shape, frozen=True, kw_only=True):
    """What a policy would have done to the calls in the log."""

    dry_run: bool = True
    policy: PolicyShape
    seen: int
    refused: int
    trimmed: int
    since: Instant | None
    agents: dict[str, int]
    examples: list[str]


class BudgetBody(Body, frozen=True, kw_only=True):
    """What may be spent: tokens, dollars, seconds from now on, or several of them."""

    tokens: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] | None = None
    usd: Annotated[float, msgspec.Meta(ge=0, le=USD_MAX)] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=SECONDS_MAX)] | None = None


class BudgetShape(Shape, frozen=True, kw_only=True):
    """An account: its bounds, what was spent, and what is set aside for calls under way."""

    kind: BudgetKind
    holder: str
    tokens: int | None
    tokens_spent: int
    tokens_held: int
    usd: float | None
    usd_spent: float
    usd_held: float
    seconds: float | None
    started_at: Instant
    ends_at: Instant | None
    warned_at: Instant | None
    warned_of: tuple[BudgetLimit, ...]


class BudgetsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the accounts."""

    cursor: Cursor | None = None
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class BudgetsPage(Shape, frozen=True, kw_only=True):
    """A part of the accounts, in order of their names."""

    budgets: list[BudgetShape]
    next_cursor: str | None


class CallsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls, newest first."""

    agent_id: Name | None = None
    run_id: Name | None = None
    outcome: Outcome | None = None
    model: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)] | None = None
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class ToolUseShape(Shape, frozen=True, kw_only=True):
    """A tool the model called; equal arguments have equal digests."""

    name: str
    arguments_hash: str


class CallShape(Shape, frozen=True, kw_only=True):
    """One model call. There is no prompt, no answer and no key in it."""

    call_id: str
    agent_id: str
    run_id: str | None
    trace_id: str | None
    upstream: str
    api: Api
    path: str
    model: str
    streamed: bool
    outcome: Outcome
    status: int
    code: str
    policy_id: str
    started_at: Instant
    latency_ms: float
    first_token_ms: float | None
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    metered: Metered
    cost_usd: float | None
    priced: Priced
    retries: int
    prompt_hash: str
    tools_offered: tuple[str, ...]
    tool_calls: list[ToolUseShape]
    repeats: int


class CallsPage(Shape, frozen=True, kw_only=True):
    """A part of the call log."""

    calls: list[CallShape]
    next_cursor: str | None


class PromptShape(Shape, frozen=True, kw_only=True):
    """A system prompt an agent was called with: only its hash is known, when it was used, and with which models."""

    prompt_hash: str
    has_prompt: bool
    first_at: Instant
    last_at: Instant
    calls: int
    models: list[str]


class PromptsPage(Shape, frozen=True, kw_only=True):
    """The prompts of an agent's last calls; `whole_log` says whether there are older calls that were not looked at."""

    agent_id: str
    calls_looked_at: int
    whole_log: bool
    prompts: list[PromptShape]


class OpenCallsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose open calls."""

    agent_id: Name


class OpenCalls(Shape, frozen=True, kw_only=True):
    """How many calls of an agent are open in all gateways, and whether a drain would find none."""

    agent_id: str
    in_flight: int
    drained: bool


class UpstreamShape(Shape, frozen=True, kw_only=True):
    """An upstream, without its key."""

    name: str
    family: str
    place: str
    base_path: str
    simulated: bool


class GatewayShape(Shape, frozen=True, kw_only=True):
    """The gateway of this process."""

    upstreams: list[UpstreamShape]
    policies_version: int
    in_flight: int
