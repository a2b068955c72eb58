"""A vital sign: what one model call, or one turn, says of the agent that made it."""

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId, TraceId
from homeostat.core.records.call import Call, ToolUse


class Hearsay(Struct, frozen=True, kw_only=True, gc=False):
    """What texts that came out of tools told their reader to do: how strongly, in which ways, and never the texts."""

    orders: float
    cues: tuple[str, ...] = ()
    borrowed: bool = False  # the agent acted on something that only such a text gave it


class Vitals(Struct, frozen=True, kw_only=True, gc=False):
    """One sample. What is not known is None, and never a zero that looks like a measurement.

    One is made of every call, written once and read twice.
    """

    sample_id: str
    project: ProjectId
    agent_id: AgentId
    at_ms: Millis
    source: str
    latency_ms: float | None = None
    first_token_ms: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    tokens_reasoning: int | None = None
    cost_usd: float | None = None
    steps: int | None = None  # of a turn: what it wrote down on its way
    retries: int = 0
    error: bool = False
    model: str | None = None
    provider: str | None = None
    prompt_hash: str | None = None
    tools: tuple[ToolUse, ...] = ()
    run_id: RunId | None = None
    trace_id: TraceId | None = None
    hearsay: Hearsay | None = None


def vitals_of(call: Call, hearsay: Hearsay | None = None) -> Vitals:
    """A call as a vital sign."""
    return Vitals(
        sample_id=call.call_id,
        project=call.project,
        agent_id=call.agent_id,
        at_ms=Millis(call.started_at_ms + int(call.latency_ms)),
        source="gateway",
        latency_ms=call.latency_ms,
        first_token_ms=call.first_token_ms,
        tokens_in=call.usage.tokens_in,
        tokens_out=call.usage.tokens_out,
        tokens_cached=call.usage.tokens_cached,
        tokens_reasoning=call.usage.tokens_reasoning,
        cost_usd=None if call.cost_micros is None else call.cost_micros / 1_000_000,
        retries=call.retries,
        error=call.error,
        model=call.model or None,
        provider=call.upstream or None,
        prompt_hash=call.prompt_hash or None,
        tools=call.tool_calls,
        run_id=call.run_id,
        trace_id=call.trace_id,
        hearsay=hearsay,
    )
