"""Durable progress inside a turn: step outcomes, cards, and other boxes."""

from typing import cast

from msgspec.structs import replace

from homeostat.core.codec import to_json
from homeostat.core.errors import BoxReadOnly
from homeostat.core.ids import BoxId, CardId
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.turn import OpenTurn, Step, Turn
from homeostat.kernel.commands import PutCards, StoreStep, SwapBoxes, WriteCards
from homeostat.kernel.plan import Plan


def store_step(plan: Plan, command: StoreStep) -> bool:
    """Remember an outcome; the first one stored is the one that is replayed."""
    fence = command.fence
    mailbox = plan.held(fence)
    plan.put(replace(mailbox, head=plan.move(mailbox, None)))
    plan.writes.steps.append(Step(fence.key[0], fence.turn_id, command.name, command.outcome, plan.now))
    # Whoever stores it again says the same under the same id: the rule cannot know whether it is stored already.
    tell_step(plan, cast(OpenTurn, mailbox.active).turn, f"step:{command.name}", command.name, "stored")
    return True


def tell_step(plan: Plan, turn: Turn, what: str, step_id: str | None, phase: str, **more: object) -> None:
    """Have it announced that a turn took a step, with the commit in which it did, if anybody may listen."""
    if plan.steps_heard:
        said = {"agent_turn_id": turn.turn_id, "step_id": step_id, "phase": phase, "trace_id": turn.trace_id, **more}
        event_id = f"{turn.turn_id}:{what}"
        plan.announce(Event(event_id, turn.project, Channel.EVT, "agent", turn.agent_id, "step", to_json(said)))


def write_cards(plan: Plan, command: WriteCards) -> tuple[CardId, ...]:
    """Append cards to the output of a running turn."""
    mailbox = plan.held(command.fence)
    entry = cast(OpenTurn, mailbox.active)
    plan.admit_cards(command.cards)
    plan.rolling(entry)
    entry, ids = plan.append(entry, command.cards)
    plan.put(replace(mailbox, head=plan.move(mailbox, None, cards=entry.cards), active=entry))
    return ids


def swap_boxes(plan: Plan, command: SwapBoxes) -> bool:
    """Point a running turn at other boxes; what it wrote before stays where it was born."""
    mailbox = plan.held(command.fence)
    entry = cast(OpenTurn, mailbox.active)
    context = command.context_box_id or entry.turn.context_box_id
    output = command.output_box_id or entry.turn.output_box
    if context == output:
        raise BoxReadOnly(box_id=output)
    if command.context_box_id is not None:
        plan.name_box(entry.turn.project, command.context_box_id)
    if command.output_box_id is not None:
        plan.own_box(command.fence.key, command.output_box_id)
    turn = replace(
        entry.turn,
        context_box_id=context,
        output_box_id=command.output_box_id or entry.turn.output_box_id,
        context_until=entry.turn.context_until if command.context_box_id is None else command.context_until,
    )
    plan.writes.turn_boxes[turn.turn_id] = turn
    plan.put(replace(mailbox, head=plan.move(mailbox, None), active=replace(entry, turn=turn)))
    return True


def put_cards(plan: Plan, command: PutCards) -> BoxId:
    """Lay cards into a box from outside any turn."""
    if command.of is not None:
        plan.name_box(command.project, command.of)
    plan.writes.cards.extend(command.cards)
    return command.box_id
