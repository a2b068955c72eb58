"""OpenTelemetry's traces over HTTP: spans of model calls and tools become vital signs of the agents they are about."""

import asyncio
import zlib
from collections import Counter, defaultdict
from functools import partial

import msgspec

from homeostat.core.errors import Forbidden, MalformedPayload, PayloadTooLarge, Unauthenticated
from homeostat.core.ids import AgentId
from homeostat.core.limits import OTLP_BODY_BYTES_MAX
from homeostat.core.ports.gateway import PriceList
from homeostat.core.records.access import PrincipalKind
from homeostat.core.records.call import Usage
from homeostat.core.wire.otlp import Span, read_json, read_protobuf
from homeostat.core.wire.protobuf import NotProtobuf, field
from homeostat.gateway.metering import UnknownModel, tariff
from homeostat.immune.spans import agent_named, read_spans, speaks_of_models
from homeostat.server.answers import JSON_TYPE, Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("immune system")

PROTOBUF_TYPE = b"application/x-protobuf"
DOLLAR_MICROS = 1_000_000


@routes.plain("POST", "/otlp/v1/traces", errors=(MalformedPayload, PayloadTooLarge, Forbidden, Unauthenticated))
async def take_traces(call: Call) -> Answer:
    """Take traces of an OpenTelemetry exporter (OTLP over HTTP, protobuf or JSON, gzip or not).

    Spans of the GenAI conventions are vital signs of the agent whose key came along. Without a key an operator's
    collector names the agent by the attribute `homeostat.agent.id` or `gen_ai.agent.id` of the span or its resource.
    What the gateway measures outranks them; spans about anything else pass unread.
    """
    immune = call.system.immune
    mine = call.principal.agent_id if call.principal.kind is PrincipalKind.AGENT else None
    spans = [span for span in _read(await call.read(OTLP_BODY_BYTES_MAX), call) if speaks_of_models(span)]
    refused: Counter[str] = Counter()
    by_agent: defaultdict[AgentId, list[Span]] = defaultdict(list)
    for span in spans:
        named = agent_named(span)
        if mine is not None and named not in (None, mine):
            refused["foreign"] += 1
        elif mine is None and named is None:
            refused["unnamed"] += 1
        else:
            by_agent[mine or AgentId(named or "")].append(span)
    immune.intake.refused.update(refused)
    for agent_id, told in by_agent.items():
        vitals = await asyncio.to_thread(
            read_spans,
            told,
            project=call.project,
            agent_id=agent_id,
            listener=immune.listener,
            cost_of=partial(_cost, call.system.gateway.office.prices),
        )
        for sample in vitals:
            if (problem := await immune.report(sample)) is not None:
                refused[problem] += 1
    return _answer(call, refused)


def _cost(prices: PriceList, provider: str, model: str, tokens_in: int, tokens_out: int) -> float | None:
    micros = tariff(prices, provider, model, UnknownModel.TOKENS).cost(Usage(tokens_in, tokens_out))
    return None if micros is None else micros / DOLLAR_MICROS


def _read(body: bytes, call: Call) -> list[Span]:
    try:
        body = _unpacked(body, call.headers.get(b"content-encoding", b"identity").strip().lower())
        return read_json(body) if _is_json(call) else read_protobuf(body)
    except (NotProtobuf, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, zlib.error) as problem:
        raise MalformedPayload(field="body", problem=str(problem)) from problem


def _unpacked(body: bytes, encoding: bytes) -> bytes:
    """What was packed, and never more of it than a body may have."""
    if encoding in (b"identity", b""):
        return body
    if encoding not in (b"gzip", b"deflate"):
        raise MalformedPayload(field="Content-Encoding", problem="it must be gzip, deflate or identity")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    plain = unpacker.decompress(body, OTLP_BODY_BYTES_MAX)
    if unpacker.unconsumed_tail:
        raise PayloadTooLarge(
            what="the unpacked body", size=f"more than {OTLP_BODY_BYTES_MAX}", limit=OTLP_BODY_BYTES_MAX
        )
    if not unpacker.eof:
        raise MalformedPayload(field="body", problem="it was cut off")
    return plain


def _is_json(call: Call) -> bool:
    return call.headers.get(b"content-type", b"").lower().startswith(b"application/json")


def _answer(call: Call, refused: Counter[str]) -> Answer:
    """A partial success where something was refused, in the language of the request."""
    count, why = refused.total(), ", ".join(f"{n} {reason}" for reason, n in sorted(refused.items()))
    if _is_json(call):
        said = {"partialSuccess": {"rejectedSpans": str(count), "errorMessage": why}} if count else {}
        return Answer(200, msgspec.json.encode(said), JSON_TYPE)
    said_bytes = field(1, field(1, count) + field(2, why.encode())) if count else b""
    return Answer(200, said_bytes, PROTOBUF_TYPE)
