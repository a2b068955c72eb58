"""One model call as the gateway saw it: what was asked, what came back, what it cost.

These are made for every call and written as they are, so they are structs: a quarter of the time of a dataclass.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId, Scope, TraceId
from homeostat.core.limits import TOKENS_MAX

CallId = NewType("CallId", str)


class Api(StrEnum):
    """Which interface a call speaks."""

    OPENAI_CHAT = "openai.chat"
    OPENAI_RESPONSES = "openai.responses"
    OPENAI_EMBEDDINGS = "openai.embeddings"
    OPENAI_COMPLETIONS = "openai.completions"
    OPENAI_OTHER = "openai.other"
    ANTHROPIC_MESSAGES = "anthropic.messages"
    ANTHROPIC_OTHER = "anthropic.other"
    UNKNOWN = "unknown"  # of calls that nobody lived to write down


class Outcome(StrEnum):
    """How a call ended."""

    ANSWERED = "answered"  # the upstream's answer was passed on whole, errors of the upstream included
    REFUSED = "refused"  # a policy, a budget or a check said no; nothing was sent
    FAILED = "failed"  # the upstream could not be reached, broke off or stalled
    ABANDONED = "abandoned"  # the agent hung up
    LOST = "lost"  # the gateway died while the call was open


ANSWERED: Final = Outcome.ANSWERED
"""By a name of its own, as each call needs it several times: to find a member in its class takes ten times as long."""


class Metered(StrEnum):
    """How the numbers of a call came about."""

    REPORTED = "reported"  # the upstream said so
    ESTIMATED = "estimated"  # counted from what was seen
    RESERVED = "reserved"  # nothing was seen: what had been set aside
    NONE = "none"  # nothing was used


class Priced(StrEnum):
    """How the cost of a call came about."""

    LISTED = "listed"  # from the price list or an override
    CAPPED = "capped"  # the model is unknown: charged like the dearest one known
    UNKNOWN = "unknown"  # the model is unknown: counted in tokens only
    FREE = "free"  # nothing was used


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one call. `tokens_in` holds the cached and the written ones, `tokens_out` the reasoning."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_reasoning: int = 0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def plausible(self) -> bool:
        """Whether a call can have used this: an upstream may report anything."""
        return (
            0 <= self.tokens_in <= TOKENS_MAX
            and 0 <= self.tokens_out <= TOKENS_MAX
            and (not self.tokens_cached or 0 <= self.tokens_cached <= self.tokens_in - self.tokens_written)
            and (not self.tokens_written or 0 <= self.tokens_written <= self.tokens_in)
            and (not self.tokens_reasoning or 0 <= self.tokens_reasoning <= TOKENS_MAX)
        )


class ToolUse(Struct, frozen=True, gc=False):
    """A tool the model called, with a digest of the arguments: equal calls have equal digests."""

    name: str
    arguments: str


class Call(Struct, frozen=True, omit_defaults=True):
    """A row of the call log. It holds no prompt, no answer and no key."""

    call_id: CallId
    project: ProjectId
    agent_id: AgentId
    upstream: str
    api: Api
    path: str
    outcome: Outcome
    status: int
    started_at_ms: Millis
    run_id: RunId | None = None
    trace_id: TraceId | None = None
    model: str = ""
    streamed: bool = False
    code: str = ""
    policy_id: str = ""
    latency_ms: float = 0.0
    first_token_ms: float | None = None
    usage: Usage = Usage()
    metered: Metered = Metered.NONE
    cost_micros: int | None = 0
    priced: Priced = Priced.FREE
    retries: int = 0
    prompt_hash: str = ""
    tools_offered: tuple[str, ...] = ()
    tool_calls: tuple[ToolUse, ...] = ()
    repeats: int = 1
    bound: str = ""  # the bound of a budget that left no room for it, as in `run.tokens`

    @property
    def error(self) -> bool:
        return self.outcome is not ANSWERED or self.status >= 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls a reader wants, newest first."""

    project: ProjectId
    agent_id: AgentId | None = None
    run_id: RunId | None = None
    outcome: Outcome | None = None
    model: str | None = None
    since_ms: Millis | None = None
    before: CallId | None = None


class Outlay(Struct, frozen=True, gc=False):
    """How many calls, and what they cost as far as that is known."""

    calls: int = 0
    cost_micros: int = 0

    def __add__(self, other: "Outlay") -> "Outlay":
        return Outlay(self.calls + other.calls, self.cost_micros + other.cost_micros)


def call_of(scope: Scope) -> CallId:
    return "call_" + scope  # pyright: ignore[reportReturnType] - to say `CallId` would take longer than to make one
