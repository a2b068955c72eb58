"""Durable progress inside a turn: step outcomes, cards, and other boxes."""

from typing import cast

from msgspec.structs import replace

from homeostat.core.errors import BoxReadOnly
from homeostat.core.ids import BoxId, CardId
from homeostat.core.records.turn import OpenTurn, Step
from homeostat.kernel.commands import PutCards, StoreStep, SwapBoxes, WriteCards
from homeostat.kernel.plan import Plan


def store_step(plan: Plan, command: StoreStep) -> bool:
    """Remember an outcome; the first one stored is the one that is replayed."""
    fence = command.fence
    mailbox = plan.held(fence)
    plan.put(replace(mailbox, head=plan.move(mailbox, None)))
    plan.writes.steps.append(Step(fence.key[0], fence.turn_id, command.name, command.outcome, plan.now))
    return True


def write_cards(plan: Plan, command: WriteCards) -> tuple[CardId, ...]:
    """Append cards to the output of a running turn."""
    mailbox = plan.held(command.fence)
    entry = cast(OpenTurn, mailbox.active)
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
    if command.output_box_id is not None:
        plan.own_box(command.fence.key, command.output_box_id)
    turn = replace(entry.turn, context_box_id=context, output_box_id=command.output_box_id or entry.turn.output_box_id)
    plan.writes.turn_boxes[turn.turn_id] = turn
    plan.put(replace(mailbox, head=plan.move(mailbox, None), active=replace(entry, turn=turn)))
    return True


def put_cards(plan: Plan, command: PutCards) -> BoxId:
    """Lay cards into a box from outside any turn."""
    plan.writes.cards.extend(command.cards)
    return command.box_id
