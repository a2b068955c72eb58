"""What waits to be announced: each end once, and as its turn ended."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, cast

from homeostat.app.verification.findings import Violation
from homeostat.core.codec import from_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import Scope, TurnId
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Channel, Event

ROWS_MAX: Final = 10_000
"""How many rows of the outbox are looked at, the oldest: more of them wait only where the bus was away for long."""

LAST: Final = Scope("f" * 24)
PROMISE: Final = "always_one_terminal_event"


async def always_one_terminal_event(store: TurnStore) -> list[Violation]:
    """An end is written down to be announced in the commit that brings it about, and only there."""
    rows = await store.outbox(LAST, ROWS_MAX)
    ends = [event for row in rows for event in row.events if is_end(event)]
    found = always_once(ends)
    swept = await store.swept()
    for project in {event.project for event in ends}:
        told = [(event, body_of(event)) for event in ends if event.project == project]
        known = await store.deliverables(project, [turn_of(body) for _, body in told])
        for event, body in told:
            end = known.get(turn_of(body))
            if end is None and turn_of(body) > swept:
                found.append(Violation(PROMISE, event.event_id, "its end waits to be announced, and it has none"))
            elif end is not None and (body.get("deliverable_card_id"), body.get("status")) != (end.card_id, end.status):
                detail = f"to be announced as {event.payload}, stored as {end.card_id}"
                found.append(Violation(PROMISE, event.event_id, detail))
    return found


def always_once(ends: Iterable[Event]) -> list[Violation]:
    """Who publishes an event may do it twice; who writes down that it is to be published does it once."""
    return [
        Violation(PROMISE, event_id, f"it stands in the outbox {often} times")
        for event_id, often in Counter(event.event_id for event in ends).items()
        if often > 1
    ]


def is_end(event: Event) -> bool:
    return event.channel is Channel.EVT and event.suffix == "task"


def turn_of(body: dict[str, Any]) -> TurnId:
    return TurnId(str(body.get("agent_turn_id")))


def body_of(event: Event) -> dict[str, Any]:
    try:
        body = from_json(event.payload)
    except MalformedPayload:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
