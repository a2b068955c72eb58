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


class Vitals(Struct, frozen=True, gc=False):
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


def vitals_of(call: Call, hearsay: Hearsay | None = None, *, timed: bool = True) -> Vitals:
    """A call as a vital sign. One that is not `timed` was kept by whoever timed it: nobody knows how long it took."""
    usage = call.usage
    return Vitals(  # by position: names would take thirteen times as long
        call.call_id,
        call.project,
        call.agent_id,
        call.started_at_ms + int(call.latency_ms),  # pyright: ignore[reportArgumentType] - one for every call
        "gateway",
        call.latency_ms if timed else None,
        call.first_token_ms if timed else None,
        usage.tokens_in,
        usage.tokens_out,
        usage.tokens_cached,
        usage.tokens_reasoning,
        None if call.cost_micros is None else call.cost_micros / 1_000_000,
        None,  # a call has no steps
        call.retries,
        call.error,
        call.model or None,
        call.upstream or None,
        call.prompt_hash or None,
        call.tool_calls,
        call.run_id,
        call.trace_id,
        hearsay,
    )
