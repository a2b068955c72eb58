"""Makes vital signs out of OpenTelemetry spans that follow the GenAI conventions."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, TraceId, digest_of
from homeostat.core.limits import NAME_CHARS_MAX, TOOL_CALLS_SEEN_MAX
from homeostat.core.records.call import ToolUse
from homeostat.core.records.conversation import Conversation, Speaker, Utterance
from homeostat.core.records.vitals import Vitals
from homeostat.core.wire.otlp import Attributes, Span
from homeostat.immune.hearing import Listener
from homeostat.immune.intake import HEARSAY

OTLP: Final = "otlp"
CALLS: Final = frozenset({"chat", "generate_content", "text_completion", "embeddings"})
TOOL: Final = "execute_tool"
AGENT_NAMES: Final = ("homeostat.agent.id", "gen_ai.agent.id")

CostOf = Callable[[str, str, int, int], float | None]
"""What so many tokens in and out of a provider's model cost, in dollars."""


def agent_named(span: Span) -> str | None:
    """Whom a span says it is about: it says so itself, or its resource does."""
    for attributes in (span.attributes, span.resource):
        for name in AGENT_NAMES:
            if (found := _word(attributes, name)) is not None:
                return found
    return None


def speaks_of_models(span: Span) -> bool:
    """Whether a span is about a model call or a tool; all others pass unread."""
    operation = span.attributes.get("gen_ai.operation.name")
    return isinstance(operation, str) and (operation in CALLS or operation == TOOL)


def read_spans(
    spans: Sequence[Span], *, project: ProjectId, agent_id: AgentId, listener: Listener, cost_of: CostOf
) -> list[Vitals]:
    """Vital signs of one agent, in the order in which things ended.

    Tools that ran between a model call and the next one of the same trace are what that call asked for. Those whose
    call is not here, as exporters cut traces anywhere, are known by what they do alone.
    """
    calls = sorted(
        (one for one in spans if one.attributes["gen_ai.operation.name"] != TOOL), key=lambda one: one.end_ns
    )
    tools = sorted(
        (one for one in spans if one.attributes["gen_ai.operation.name"] == TOOL), key=lambda one: one.end_ns
    )
    used: defaultdict[str, list[Span]] = defaultdict(list)
    vitals: list[Vitals] = []
    for tool in tools:
        before = [one for one in calls if one.trace_id == tool.trace_id and one.end_ns <= tool.start_ns]
        if before:
            used[before[-1].span_id].append(tool)
        said = _spoken(tool)
        hearsay = listener.listen(said) if said else None
        if hearsay is not None or not before:
            vitals.append(
                Vitals(
                    **_common(tool, project, agent_id),
                    source=HEARSAY,
                    tools=() if before else (_use(tool),),
                    hearsay=hearsay,
                )
            )
    for call in calls:
        common = _common(call, project, agent_id)
        vitals += [_call(call, used[call.span_id], common, listener=listener, cost_of=cost_of)]
    return sorted(vitals, key=lambda one: one.at_ms)


def _common(span: Span, project: ProjectId, agent_id: AgentId) -> dict[str, Any]:
    return {
        "sample_id": f"{span.trace_id}:{span.span_id}",
        "project": project,
        "agent_id": agent_id,
        "at_ms": Millis(span.end_ns // 1_000_000),
        "trace_id": TraceId(span.trace_id) if span.trace_id else None,
    }


def _call(span: Span, tools: Sequence[Span], common: dict[str, Any], *, listener: Listener, cost_of: CostOf) -> Vitals:
    said = span.attributes
    model = _word(said, "gen_ai.response.model") or _word(said, "gen_ai.request.model")
    provider = _word(said, "gen_ai.provider.name") or _word(said, "gen_ai.system")
    tokens_in = _count(said, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    tokens_out = _count(said, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
    cost = None
    if model and tokens_in is not None and tokens_out is not None:
        cost = cost_of(provider or "", model, max(tokens_in, 0), max(tokens_out, 0))
    prompt = said.get("gen_ai.system_instructions")
    spoken = _conversation(said.get("gen_ai.input.messages"))
    return Vitals(
        **common,
        source=OTLP,
        latency_ms=(span.end_ns - span.start_ns) / 1e6,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=cost,
        retries=_count(said, "http.request.resend_count") or 0,
        error=span.failed or "error.type" in said,
        model=model,
        provider=provider,
        prompt_hash=None if prompt is None else digest_of(json.dumps(prompt, sort_keys=True)),
        tools=tuple(_use(tool) for tool in tools[:TOOL_CALLS_SEEN_MAX]),
        hearsay=listener.listen(spoken) if spoken else None,
    )


def _use(span: Span) -> ToolUse:
    arguments = span.attributes.get("gen_ai.tool.call.arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
    # Without its arguments a call is like no other: the same tool twice is no repetition.
    digest = digest_of(text if arguments is not None else f"{span.trace_id}:{span.span_id}")
    return ToolUse(_word(span.attributes, "gen_ai.tool.name") or "?", digest)


def _spoken(span: Span) -> Conversation:
    result = span.attributes.get("gen_ai.tool.call.result")
    return () if result is None else (Utterance(Speaker.TOOL, _words(result)),)


class _Part(msgspec.Struct):
    type: str = ""
    name: str | None = None
    content: Any = None
    arguments: Any = None
    response: Any = None


class _Message(msgspec.Struct):
    role: str = ""
    parts: list[_Part] = []


def _conversation(messages: Any) -> Conversation:
    """Who said what, where an agent's telemetry tells; what it tells otherwise is not read."""
    try:
        if isinstance(messages, str):
            read = msgspec.json.decode(messages, type=list[_Message])
        else:
            read = msgspec.convert(messages, list[_Message])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ()
    spoken: list[Utterance] = []
    for message in read:
        for part in message.parts:
            if part.type == "tool_call_response":
                spoken.append(Utterance(Speaker.TOOL, _words(part.response)))
            elif part.type == "tool_call":
                spoken.append(Utterance(Speaker.CALL, _words(part.arguments), part.name or ""))
            elif part.type == "text" and message.role in ("user", "system"):
                spoken.append(Utterance(Speaker.MASTER, _words(part.content)))
    return tuple(spoken)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _word(attributes: Attributes, name: str) -> str | None:
    value = attributes.get(name)
    return value[:NAME_CHARS_MAX] if isinstance(value, str) and value and value.isprintable() else None


def _count(attributes: Attributes, *names: str) -> int | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
            return int(value)
    return None
