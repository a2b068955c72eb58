"""What is posted to an inbox, put into the kernel's terms: a new turn, a result for one, or its end."""

from typing import Annotated

import msgspec

from homeostat.core.codec import Json, read_as, take_json, to_json
from homeostat.core.errors import MalformedPayload, TurnUnknown, UnknownMessageType
from homeostat.core.ids import AgentId, RunId, ToolCallId, TraceId, TurnId
from homeostat.core.limits import RESULT_FIELDS_MAX
from homeostat.core.records.turn import OPENS_A_TURN, AfterExecution, AgentKey, MessageType, Turn, WaitStatus
from homeostat.core.records.view import TurnView
from homeostat.core.wire.answers import Accepted
from homeostat.core.wire.bodies import Message, ResultField
from homeostat.core.wire.fields import NO_VALUE, Name, Value, absent
from homeostat.kernel.commands import Enqueue, Idempotency
from homeostat.kernel.kernel import Kernel
from homeostat.server import names

_STATUS = {MessageType.TIMEOUT: WaitStatus.TIMEOUT}


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What a message about a turn says of it; other members are the sender's business."""

    turn_id: Name | None = None
    agent_turn_id: Name | None = None
    tool_call_id: Name | None = None
    status: WaitStatus | None = None
    result: Value = absent()
    after_execution: AfterExecution | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2_000)] = "stopped by a message"


def message_type(word: str) -> MessageType:
    try:
        return MessageType(word)
    except ValueError:
        raise UnknownMessageType(message_type=word[:200], allowed=", ".join(MessageType)) from None


def enqueue_of(
    key: AgentKey,
    kind: MessageType,
    message: Message,
    trace_id: TraceId | None,
    idempotency: Idempotency | None,
    *,
    source: AgentId | None,
    parent: Turn | None,
) -> Enqueue:
    """A message that opens a turn. One that another turn caused is a step deeper than that, and part of its trace."""
    assert kind in OPENS_A_TURN
    depth = message.depth
    if parent is not None:
        depth, trace_id = max(depth, parent.depth + 1), parent.trace_id
    return Enqueue(
        key=key,
        type=kind,
        payload=take_json(bytes(message.payload), what="payload"),
        correlation_id=message.correlation_id,
        source=source,
        parent_turn_id=None if parent is None else parent.turn_id,
        parent_step_id=message.parent_step_id,
        trace_id=TraceId(message.trace_id) if message.trace_id is not None else trace_id,
        depth=depth,
        run_id=None if message.run_id is None else RunId(message.run_id),
        context_box_id=names.optional_box_id(message.context_box_id),
        output_box_id=names.optional_box_id(message.output_box_id),
        result_fields=result_fields(message.result_fields),
        idempotency=idempotency,
    )


def result_fields(raw: msgspec.Raw) -> Json | None:
    """What a deliverable must cover; whatever else a caller says of its fields is kept for the agent to read."""
    if raw == NO_VALUE:
        return None
    text = take_json(bytes(raw), what="result_fields")
    if len(read_as(list[ResultField], text, what="result_fields")) > RESULT_FIELDS_MAX:
        raise MalformedPayload(field="result_fields", problem=f"there may be {RESULT_FIELDS_MAX} of them")
    return text


async def forward(
    kernel: Kernel, key: AgentKey, kind: MessageType, message: Message, idempotency: Idempotency | None
) -> Accepted:
    """A message about a turn that exists: it reports to that turn, or stops it."""
    payload = take_json(bytes(message.payload), what="payload")
    said = read_as(Reference, payload, what="payload")
    named = said.turn_id or said.agent_turn_id
    if named is None:
        raise MalformedPayload(field="payload.turn_id", problem=f"a message of type {kind.value} names its turn")
    view = await _turn_of(kernel, key, names.turn_id(named))
    turn = view.turn
    if kind is MessageType.STOP:
        stopped = await kernel.stop(key[0], turn.turn_id, reason=said.reason, actor="inbox", idempotency=idempotency)
        return Accepted(
            inbox_id=turn.inbox_id,
            turn_id=turn.turn_id,
            trace_id=turn.trace_id,
            accepted=stopped.stopped,
            result_card_id=stopped.card_id,
        )
    call_id = said.tool_call_id or message.correlation_id
    if call_id is None:
        raise MalformedPayload(field="payload.tool_call_id", problem=f"a {kind.value} names the call it answers")
    reported = await kernel.report(
        key[0],
        turn.turn_id,
        ToolCallId(call_id),
        status=said.status or _STATUS.get(kind, WaitStatus.SUCCESS),
        result=_result_of(kind, said),
        after_execution=said.after_execution,
        message_type=kind,
        idempotency=idempotency,
    )
    return Accepted(
        inbox_id=turn.inbox_id,
        turn_id=turn.turn_id,
        trace_id=turn.trace_id,
        accepted=reported.accepted,
        result_card_id=reported.result_card_id,
    )


def _result_of(kind: MessageType, said: Reference) -> Json:
    if kind is MessageType.TIMEOUT and said.result == NO_VALUE:
        return to_json({"error": "timeout"})
    return take_json(bytes(said.result), what="payload.result")


async def _turn_of(kernel: Kernel, key: AgentKey, turn_id: TurnId) -> TurnView:
    view = await kernel.store.turn(key[0], turn_id)
    if view is None or view.turn.key != key:
        raise TurnUnknown(turn_id=turn_id)
    return view
