"""Reads everything a store remembers and says which promises it breaks."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from homeostat.app.verification import announcements, turns
from homeostat.app.verification.findings import Violation
from homeostat.core.codec import Json, from_json
from homeostat.core.ids import AgentId, CardId, ProjectId, ToolCallId, TurnId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Event
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import TurnView

OUTBOX_ROWS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Effect:
    """A side effect that really happened, as its own trace in the world tells: whose, under which epoch, which time."""

    turn_id: TurnId
    step: str
    epoch: int
    token: str


@dataclass(slots=True)
class Acknowledged:
    """What callers were told. An operation without an answer is unknown and stands nowhere in here."""

    turns: dict[TurnId, Json] = field(default_factory=dict[TurnId, Json])
    ends: dict[TurnId, CardId] = field(default_factory=dict[TurnId, CardId])
    results: dict[tuple[TurnId, ToolCallId], CardId] = field(default_factory=dict[tuple[TurnId, ToolCallId], CardId])
    steps: dict[tuple[TurnId, str], Json] = field(default_factory=dict[tuple[TurnId, str], Json])
    contradictions: list[str] = field(default_factory=list[str])
    """What was acknowledged twice, in different words."""


async def check(
    store: TurnStore,
    projects: Collection[ProjectId],
    *,
    heard: Iterable[Event] | None = None,
    acknowledged: Acknowledged | None = None,
    effects: Iterable[Effect] = (),
    at_rest: bool = True,
    announced: bool = True,
) -> list[Violation]:
    """Check the whole stored history of some projects.

    `heard` is a recording of terminal events (None: there is none), `effects` what steps really did. `at_rest` says
    that faults are over and work has run dry; without it only what must always hold is checked. Not `announced` says
    that there was no bus to announce anything on: then every end stands in the outbox, once.
    """
    found: list[Violation] = []
    views: dict[TurnId, TurnView] = {}
    oldest: dict[AgentKey, TurnId] = {}
    for project in projects:
        async for head in turns.heads(store, project):
            walk = turns.Walk(head, await turns.line(store, head))
            oldest[head.key] = TurnId("")
            async for page in turns.history(store, head):
                walk.take(page)
                found += await turns.true_cards(store, page)
                views.update({view.turn.turn_id: view for view in page})
                oldest[head.key] = page[-1].turn.turn_id
            found += walk.close(at_rest=at_rest)
    found += _always_one_turn_for_one_message(views)
    if heard is not None:
        known = [event for event in heard if _is_remembered(event, views, oldest)]
        found += _always_one_terminal_event(views, known, at_rest=at_rest)
    if not announced:
        rows = await store.outbox(announcements.LAST, OUTBOX_ROWS_MAX)
        waiting = [event for row in rows for event in row.events if _is_remembered(event, views, oldest)]
        found += announcements.always_once(event for event in waiting if announcements.is_end(event))
        found += _always_one_terminal_event(views, waiting, at_rest=at_rest)
    found += await _always_kept(store, views, acknowledged or Acknowledged())
    found += await _always_once(store, views, effects)
    if at_rest and announced and (rest := await store.outbox(announcements.LAST, PAGE_MAX)):
        found.append(Violation("finally_everything_is_announced", "outbox", f"{len(rest)} rows were not published"))
    return found


# --- each turn ---------------------------------------------------------------------------------------------------


def _always_one_turn_for_one_message(views: Mapping[TurnId, TurnView]) -> list[Violation]:
    """A message that says who it is (`{"id": …}`) was accepted once, however often it was sent."""
    found: list[Violation] = []
    known: dict[str, TurnId] = {}
    for turn_id, view in views.items():
        if not view.turn.payload.startswith('{"id":'):
            continue
        name = str(from_json(view.turn.payload)["id"])
        if (other := known.setdefault(name, turn_id)) != turn_id:
            found.append(Violation("always_one_turn_for_one_message", turn_id, f"{name} is {other} too"))
    return found


def _always_one_terminal_event(
    views: Mapping[TurnId, TurnView], heard: Iterable[Event], *, at_rest: bool
) -> list[Violation]:
    """One end, one event: it may be said more than once, but never in other words."""
    promise = announcements.PROMISE
    found: list[Violation] = []
    ends: dict[str, Event] = {}
    for event in heard:
        if not announcements.is_end(event):
            continue
        if (first := ends.setdefault(event.event_id, event)) != event:
            found.append(Violation(promise, event.event_id, f"it said {first.payload}, and then {event.payload}"))
    told: dict[TurnId, list[str]] = {}
    for event_id, event in ends.items():
        body = announcements.body_of(event)
        turn_id = announcements.turn_of(body)
        told.setdefault(turn_id, []).append(event_id)
        end = views[turn_id].deliverable if turn_id in views else None
        if end is None:
            found.append(Violation(promise, turn_id, "its end was announced and it has none"))
        elif (body.get("deliverable_card_id"), body.get("status")) != (end.card_id, end.status.value):
            found.append(Violation(promise, turn_id, f"announced as {event.payload}, stored as {end.card_id}"))
    for turn_id, event_ids in told.items():
        if len(event_ids) > 1:
            found.append(Violation(promise, turn_id, f"its end has several ids: {', '.join(event_ids)}"))
    if at_rest:
        unheard = [turn_id for turn_id, view in views.items() if view.deliverable is not None and turn_id not in told]
        found += [Violation("finally_every_end_is_announced", turn_id, "nobody heard of it") for turn_id in unheard]
    return found


def _is_remembered(event: Event, views: Mapping[TurnId, TurnView], oldest: Mapping[AgentKey, TurnId]) -> bool:
    """Whether something must be known of it: it tells of one of these projects, and not of what was forgotten."""
    first = oldest.get(_author(event))
    return first is not None and (TurnId(event.event_id) in views or event.event_id >= first)


def _author(event: Event) -> AgentKey:
    return (event.project, AgentId(event.target))


async def _always_kept(
    store: TurnStore, views: Mapping[TurnId, TurnView], acknowledged: Acknowledged
) -> list[Violation]:
    """What somebody was told is so, and stays so."""
    promise = "always_what_was_acknowledged_is_kept"
    found = [Violation(promise, "acknowledgements", words) for words in acknowledged.contradictions]
    for turn_id, payload in acknowledged.turns.items():
        if turn_id not in views:
            found.append(Violation(promise, turn_id, "it was accepted and is gone"))
        elif views[turn_id].turn.payload != payload:
            found.append(Violation(promise, turn_id, "its payload is not what was accepted"))
    for turn_id, card_id in acknowledged.ends.items():
        end = views[turn_id].deliverable if turn_id in views else None
        if end is None or end.card_id != card_id:
            found.append(Violation(promise, turn_id, f"it ended with {card_id}, now with {end and end.card_id}"))
    for (turn_id, call_id), card_id in acknowledged.results.items():
        waits = views[turn_id].waits if turn_id in views else ()
        wait = next((wait for wait in waits if wait.call_id == call_id), None)
        if wait is None or wait.result_card_id != card_id:
            found.append(Violation(promise, turn_id, f"the result of {call_id} was taken in and is gone"))
    told: dict[TurnId, dict[str, Json]] = {}
    for (turn_id, name), outcome in acknowledged.steps.items():
        told.setdefault(turn_id, {})[name] = outcome
    async for turn_id, stored in _steps(store, views, told):
        found += [
            Violation(promise, turn_id, f"step {name} was stored as {outcome}, now {stored.get(name)}")
            for name, outcome in told[turn_id].items()
            if stored.get(name) != outcome
        ]
    return found


async def _always_once(
    store: TurnStore, views: Mapping[TurnId, TurnView], effects: Iterable[Effect]
) -> list[Violation]:
    """Nobody who was given a turn after a step of it was stored runs that step again.

    A stored outcome names the effect it came from: `{"epoch": …, "token": …}`. An effect of a lower epoch is that of
    a worker who had lost the turn, or died, before it could store anything.
    """
    found: list[Violation] = []
    done: dict[TurnId, dict[str, list[Effect]]] = {}
    for effect in effects:
        done.setdefault(effect.turn_id, {}).setdefault(effect.step, []).append(effect)
    async for turn_id, steps in _steps(store, views, done):
        for step, ran in done[turn_id].items():
            if (outcome := steps.get(step)) is not None:
                found += _ran_once(turn_id, step, ran, from_json(outcome))
    return found


def _ran_once(turn_id: TurnId, step: str, ran: Sequence[Effect], stored: Any) -> list[Violation]:
    promise = "always_a_stored_step_ran_once"
    found: list[Violation] = []
    if stored["token"] not in {effect.token for effect in ran}:
        found.append(Violation(promise, turn_id, f"step {step} is stored, and its effect never happened"))
    again = [e for e in ran if e.epoch >= stored["epoch"] and e.token != stored["token"]]
    found += [
        Violation(promise, turn_id, f"step {step}, stored under epoch {stored['epoch']}, ran in {effect.epoch}")
        for effect in again
    ]
    return found


async def _steps(
    store: TurnStore, views: Mapping[TurnId, TurnView], wanted: Collection[TurnId]
) -> AsyncGenerator[tuple[TurnId, dict[str, Json]]]:
    """What is stored of the steps of each of these turns."""
    ids = list(wanted)
    for first in range(0, len(ids), turns.CARDS_AT_ONCE):
        some = ids[first : first + turns.CARDS_AT_ONCE]
        known = [turn_id for turn_id in some if turn_id in views]
        read = await asyncio.gather(*(store.hydrate(views[turn_id].turn, fresh=False) for turn_id in known))
        stored = {turn_id: hydration.steps for turn_id, hydration in zip(known, read, strict=True)}
        for turn_id in some:
            yield turn_id, stored.get(turn_id, {})
