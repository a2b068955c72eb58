"""Waiting for tools without holding anything: suspend, report, resume."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, from_json, to_json
from homeostat.core.errors import InvalidRequest, MalformedPayload, QueueFull, ResultFieldsMissing
from homeostat.core.ids import CardId, ToolCallId, TurnId
from homeostat.core.limits import QUEUE_PER_AGENT_MAX, WAIT_SECONDS_DEFAULT, WAIT_SECONDS_MAX, WAITS_PER_TURN_MAX
from homeostat.core.machines.turn import HeadStatus, TurnEvent
from homeostat.core.records.card import TOOL_CALL, TOOL_RESULT
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Mailbox
from homeostat.core.records.turn import AfterExecution, MessageType, OpenTurn, ToolCall, Turn, Wait, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Suspended
from homeostat.kernel.commands import CloseCall, Enqueue, Report, Reported, Suspend
from homeostat.kernel.deliver import Followups, check_result_fields, finish
from homeostat.kernel.enqueue import admit, enqueue
from homeostat.kernel.plan import Plan
from homeostat.kernel.steps import tell_step

_CONTROL_WORDS = {word.value: word for word in AfterExecution}
CONTROL: Final = "__cg_control"
NOT_ASKED: Final[Mapping[ToolCallId, Wait]] = {}


class _Said(msgspec.Struct):
    """What a result card holds, as far as the end of a turn is concerned."""

    status: WaitStatus
    result: msgspec.Raw


_said = msgspec.json.Decoder(_Said)


def suspend(plan: Plan, command: Suspend, followups: Followups) -> Suspended:
    """Leave a turn waiting for its calls. A call it has waited for before keeps its deadline and its result."""
    mailbox = plan.held(command.fence)
    entry = cast(OpenTurn, mailbox.active)
    known = {wait.call_id: wait for wait in entry.waits} if entry.waits else NOT_ASKED
    fresh = _new_calls(command, known)
    plan.admit_cards(command.cards)
    plan.rolling(entry)
    asked = tuple(known[call.call_id] for call in command.calls if call.call_id in known) if known else ()
    if not fresh and all(wait.status is not WaitStatus.PENDING for wait in asked):
        return _go_on(plan, mailbox, command, asked, followups)
    children = _new_children(plan, command, known)
    contents = [_call_card(call) for call in fresh]

    for child in children:
        enqueue(plan, child)
    entry, _ = plan.append(entry, command.cards)
    joined = {child.reply_call_id for child in command.children}
    turn, cards, waits = entry.turn, entry.cards, list[Wait]()
    for call, content in zip(fresh, contents, strict=True):
        cards += 1
        wait = _open_wait(plan, turn, call, plan.card(entry, cards, TOOL_CALL, content))
        plan.writes.new_waits[turn.turn_id, call.call_id] = wait
        waits.append(wait)
        if call.call_id not in joined:
            _send(plan, turn, wait, command.fence.epoch)
    entry = OpenTurn(turn, entry.starts, entry.losses, cards, (*entry.waits, *waits))
    waiting, deadline = _outstanding(entry)
    moved = plan.move(mailbox, TurnEvent.SUSPEND, worker_id=None, cards=cards, waiting=waiting, deadline_ms=deadline)
    plan.put(Mailbox(moved, entry, mailbox.queue))
    _tell(plan, entry, moved.epoch, [call.step_id for call in command.calls], "suspended")
    return Suspended((*asked, *waits), ready=False)


def _new_calls(command: Suspend, known: Mapping[ToolCallId, Wait]) -> list[ToolCall]:
    """The calls a turn has not waited for before, if all of them can be waited for."""
    calls = command.calls
    if not calls:
        raise InvalidRequest(problem="a turn suspends on at least one tool call")
    if len(calls) > 1 and len({call.call_id for call in calls}) != len(calls):
        raise InvalidRequest(problem="tool_call_id must be unique within a turn")
    fresh = [call for call in calls if call.call_id not in known]
    if len(known) + len(fresh) > WAITS_PER_TURN_MAX:
        raise InvalidRequest(problem=f"a turn may wait for {WAITS_PER_TURN_MAX} tool calls")
    for call in fresh:
        if call.timeout_seconds is not None and not 0 < call.timeout_seconds <= WAIT_SECONDS_MAX:
            raise MalformedPayload(field="timeout_seconds", problem=f"must lie between 0 and {WAIT_SECONDS_MAX:.0f}")
    return fresh


def _new_children(plan: Plan, command: Suspend, known: Mapping[ToolCallId, Wait]) -> list[Enqueue]:
    """The turns of other agents to wait for, if every one of them can be accepted beside the others."""
    if not command.children:
        return []
    children = [child for child in command.children if child.reply_call_id not in known]
    for child in children:
        if child.key == command.fence.key:
            raise InvalidRequest(problem="an agent that asks itself would wait for ever")
        if child.key[0] != command.fence.key[0]:
            raise InvalidRequest(problem="an agent of another project cannot be asked")
        if child.type is not MessageType.JOIN_REQUEST or child.output_box_id is not None:
            raise InvalidRequest(problem="a turn waits for join requests that write to boxes of their own")
        admit(plan, child)
    for key, count in Counter(child.key for child in children).items():
        head = plan.mailbox(key).head
        if head.queued + count > QUEUE_PER_AGENT_MAX:
            raise QueueFull(agent_id=head.agent_id, queued=head.queued)
    return children


def _go_on(plan: Plan, mailbox: Mailbox, command: Suspend, asked: tuple[Wait, ...], followups: Followups) -> Suspended:
    """Everything asked for is in: the turn goes on running, unless one of its results ends it."""
    entry = cast(OpenTurn, mailbox.active)
    final = _last_word(asked)
    if final is not None:
        _result_of(plan, final)
    entry, _ = plan.append(entry, command.cards)
    mailbox = replace(mailbox, active=entry)
    if final is not None:
        _end(plan, mailbox, final, followups)
        return Suspended(asked, ready=False)
    plan.put(replace(mailbox, head=plan.move(mailbox, None, cards=entry.cards)))
    return Suspended(asked, ready=True)


def report(plan: Plan, command: Report, followups: Followups) -> Reported:
    """Take a result in, once. What is late, repeated or foreign changes nothing."""
    if command.status in (WaitStatus.PENDING, WaitStatus.CANCELLED):
        raise InvalidRequest(problem=f"{command.status.value} is not how a tool call ends")
    mailbox = plan.mailbox(command.key)
    entry = _open_turn(plan, mailbox, command.turn_id)
    wait = next((w for w in entry.waits if w.call_id == command.call_id), None) if entry else None
    if entry is None or wait is None or wait.status is not WaitStatus.PENDING:
        return Reported(accepted=False)
    plan.rolling(entry)
    after = effective_after(command, wait)
    others = tuple(other for other in entry.waits if other is not wait)
    final = _last_word(others)
    if final is not None and after is not AfterExecution.TERMINATE:
        _result_of(plan, final)
    cards = entry.cards + 1
    card_id = plan.card(entry, cards, TOOL_RESULT, _result_card(command))
    answered = replace(
        wait, status=command.status, after_execution=after, result_card_id=card_id, answered_at_ms=plan.now
    )
    plan.wait(answered)
    waits = tuple(answered if w is wait else w for w in entry.waits) if others else (answered,)
    entry = OpenTurn(entry.turn, entry.starts, entry.losses, cards, waits)
    if mailbox.active is None or mailbox.active.turn.turn_id != command.turn_id:
        plan.enqueue_row(entry)
        queue = tuple(entry if other.turn.turn_id == command.turn_id else other for other in mailbox.queue)
        plan.put(replace(mailbox, head=plan.move(mailbox, None), queue=queue))
        return Reported(accepted=True, result_card_id=card_id, trace_id=entry.turn.trace_id)
    final = answered if after is AfterExecution.TERMINATE else final
    _settle(plan, Mailbox(mailbox.head, entry, mailbox.queue), answered, final, followups)
    return Reported(accepted=True, result_card_id=card_id, trace_id=entry.turn.trace_id)


def close_call(plan: Plan, command: CloseCall) -> bool:
    """Close what the end of a turn left open. The head is swapped, so that the turn cannot have come back meanwhile."""
    mailbox = plan.mailbox(command.key)
    if _open_turn(plan, mailbox, command.wait.turn_id) is not None:
        return False
    plan.wait(replace(command.wait, status=WaitStatus.CANCELLED, answered_at_ms=plan.now))
    plan.put(replace(mailbox, head=plan.move(mailbox, None)))
    return True


def _settle(plan: Plan, mailbox: Mailbox, answered: Wait, final: Wait | None, followups: Followups) -> None:
    """Resume, end or keep waiting, now that one more result is in."""
    entry = cast(OpenTurn, mailbox.active)
    waiting, deadline = _outstanding(entry)
    if mailbox.head.status is not HeadStatus.SUSPENDED or waiting:
        moved = plan.move(mailbox, None, cards=entry.cards, waiting=waiting, deadline_ms=deadline)
        plan.put(replace(mailbox, head=moved))
        return
    if final is not None:
        _end(plan, mailbox, final, followups)
        return
    epoch = mailbox.head.epoch + 1  # the worker that suspended it may not know yet that it did
    moved = plan.move(mailbox, TurnEvent.RESUME, epoch=epoch, cards=entry.cards, waiting=0, deadline_ms=None)
    plan.put(Mailbox(moved, entry, mailbox.queue))
    _tell(plan, entry, epoch, [answered.step_id], "resumed")


def _tell(plan: Plan, entry: OpenTurn, epoch: int, steps: Sequence[str | None], phase: str) -> None:
    """Say that a turn waits, or goes on: for which calls, and in which step if it is one."""
    if not plan.steps_heard:
        return
    waiting = [wait.call_id for wait in entry.waits if wait.status is WaitStatus.PENDING]
    step_id = steps[0] if len(set(steps)) == 1 else None
    tell_step(plan, entry.turn, f"{epoch}:{phase}", step_id, phase, turn_epoch=epoch, waiting=waiting)


def _last_word(waits: tuple[Wait, ...]) -> Wait | None:
    """The result that ends its turn: the latest of those that say so."""
    if not waits:
        return None
    final = [w for w in waits if w.after_execution is AfterExecution.TERMINATE and w.result_card_id is not None]
    return max(final, key=lambda wait: wait.answered_at_ms or 0, default=None)


def _result_of(plan: Plan, wait: Wait) -> _Said:
    """What a call brought; asked for before anything is written."""
    assert wait.result_card_id is not None, "a wait that ends its turn was answered"
    content = plan.content(wait.project, wait.result_card_id)
    return _said.decode(content) if content != NULL else _Said(wait.status, msgspec.Raw(b"null"))


def _end(plan: Plan, mailbox: Mailbox, final: Wait, followups: Followups) -> None:
    """End a turn with the result that said so, whichever came in last. One that lacks what was asked for has failed."""
    said = _result_of(plan, final)
    result, error = Json(bytes(said.result).decode()), None
    if said.status is not WaitStatus.SUCCESS:
        error = to_json({"code": f"tool_{said.status.value}", "card_id": final.result_card_id})
    elif (fields := cast(OpenTurn, mailbox.active).turn.result_fields) is not None:
        try:
            check_result_fields(fields, result)
        except ResultFieldsMissing as problem:
            error = to_json({"code": problem.code, "message": problem.message, "card_id": final.result_card_id})
    finish(
        plan,
        mailbox,
        TurnEvent.DELIVER,
        status=Outcome.SUCCESS if error is None else Outcome.FAILED,
        result=result,
        error=error,
        followups=followups,
    )


def effective_after(command: Report, wait: Wait) -> AfterExecution:
    """What happens next: the result's own control word, else the report's, else what the call said."""
    result = command.result
    asks = CONTROL in result or "\\u" in result  # most say nothing, and some at great length
    value = from_json(result) if asks else None
    if isinstance(value, dict):
        control = cast("dict[str, object]", value).get(CONTROL)
        if isinstance(control, dict):
            word = cast("dict[str, object]", control).get("after_execution")
            if isinstance(word, str) and (said := _CONTROL_WORDS.get(word)) is not None:
                return said
    return command.after_execution or wait.after_execution


def _open_turn(plan: Plan, mailbox: Mailbox, turn_id: TurnId) -> OpenTurn | None:
    """The turn a result is for: the active one, or one that was put back while its tools ran."""
    if mailbox.active is not None and mailbox.active.turn.turn_id == turn_id:
        return mailbox.active
    return plan.in_line(mailbox, turn_id)


def _outstanding(entry: OpenTurn) -> tuple[int, Millis | None]:
    """How many results are missing, and when the first of them is overdue."""
    pending = [wait.deadline_ms for wait in entry.waits if wait.status is WaitStatus.PENDING]
    return len(pending), min(pending, default=None)


def _open_wait(plan: Plan, turn: Turn, call: ToolCall, card_id: CardId) -> Wait:
    seconds = WAIT_SECONDS_DEFAULT if call.timeout_seconds is None else call.timeout_seconds
    return Wait(  # by its places: this is done once for every call
        turn.turn_id,
        call.call_id,
        turn.project,
        turn.agent_id,
        call.tool,
        WaitStatus.PENDING,
        call.after_execution,
        call.step_id,
        card_id,
        None,
        plan.now,
        Millis(plan.now + int(seconds * 1000)),
        None,
    )


def _send(plan: Plan, turn: Turn, wait: Wait, epoch: int) -> None:
    """Tell the tool's service where to find its call; the pointer goes out with the commit."""
    body = to_json(
        {
            "agent_id": turn.agent_id,
            "agent_turn_id": turn.turn_id,
            "turn_epoch": epoch,
            "tool_call_id": wait.call_id,
            "tool": wait.tool,
            "tool_call_card_id": wait.call_card_id,
            "after_execution": wait.after_execution,
            "deadline_ms": wait.deadline_ms,
            "trace_id": turn.trace_id,
        }
    )
    event_id = f"{turn.turn_id}:{wait.call_id}"
    plan.announce(Event(event_id, turn.project, Channel.CMD, "tool", wait.tool, "call", body))


def _call_card(call: ToolCall) -> Json:
    name = to_json(call.tool)
    return Json(f'{{"tool_call_id":{to_json(call.call_id)},"tool":{name},"args":{call.args}}}')


def _result_card(command: Report) -> Json:
    return Json(f'{{"tool_call_id":{to_json(command.call_id)},"status":"{command.status}","result":{command.result}}}')
