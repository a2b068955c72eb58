"""Reads everything a store remembers and says which promises it breaks."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, cast

from homeostat.core.codec import Json, from_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import AgentId, CardId, ProjectId, Scope, ToolCallId, TurnId, digest_of
from homeostat.core.limits import PAGE_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import AgentKey, WaitStatus
from homeostat.core.records.view import Outcome, TurnView

_LAST: Final = Scope("f" * 24)
_FORGOTTEN: Final = TurnId("turn_" + "g")
"""Behind every turn there can be: nothing is known of another project's."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that does not hold. Its name says when it should: always, or finally, when all has come to rest."""

    promise: str
    about: str
    detail: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.about}: {self.detail}"


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


@dataclass(slots=True)
class Agent:
    """One agent with all its turns, the oldest first."""

    head: Head
    turns: list[TurnView]
    line: list[TurnId]


async def check(
    store: TurnStore,
    projects: Collection[ProjectId],
    *,
    heard: Iterable[Event] | None = None,
    acknowledged: Acknowledged | None = None,
    effects: Iterable[Effect] = (),
    at_rest: bool = True,
) -> list[Violation]:
    """Check the whole stored history of some projects.

    `heard` is a recording of terminal events (None: there is none), `effects` what steps really did. `at_rest` says
    that faults are over and work has run dry; without it only what must always hold is checked.
    """
    found: list[Violation] = []
    views: dict[TurnId, TurnView] = {}
    oldest: dict[AgentKey, TurnId] = {}
    for project in projects:
        async for agent in agents(store, project):
            oldest[agent.head.key] = agent.turns[0].turn.turn_id if agent.turns else TurnId("")
            found += _always_in_one_place(agent)
            found += _always_an_unbroken_line(agent)
            found += _always_growing_epochs(agent)
            if at_rest:
                found += _finally_idle(agent)
            views.update({view.turn.turn_id: view for view in agent.turns})
    found += await _always_true_cards(store, views)
    if heard is not None:
        known = [event for event in heard if TurnId(event.event_id) >= oldest.get(_author(event), _FORGOTTEN)]
        found += _always_one_terminal_event(views, known, at_rest=at_rest)
    found += await _always_kept(store, views, acknowledged or Acknowledged())
    found += await _always_once(store, views, effects)
    if at_rest and (rest := await store.outbox(_LAST, PAGE_MAX)):
        found.append(Violation("finally_everything_is_announced", "outbox", f"{len(rest)} rows were not published"))
    return found


async def agents(store: TurnStore, project: ProjectId) -> AsyncGenerator[Agent]:
    """Every agent of a project with everything that is remembered of it."""
    after: AgentId | None = None
    while page := await store.heads(project, after=after, limit=PAGE_MAX):
        for view in page:
            after = view.head.agent_id
            yield Agent(view.head, await _turns(store, view.head), await _line(store, view.head))


async def _turns(store: TurnStore, head: Head) -> list[TurnView]:
    turns: dict[TurnId, TurnView] = {}
    before: TurnId | None = None
    while page := await store.history(head.project, head.agent_id, before=before, limit=PAGE_MAX):
        if page[-1].turn.turn_id in turns:
            break  # a broken chain must not lead in circles
        turns.update({view.turn.turn_id: view for view in page})
        before = page[-1].turn.turn_id
    return list(turns.values())[::-1]


async def _line(store: TurnStore, head: Head) -> list[TurnId]:
    line: list[TurnId] = []
    after = -1
    while page := await store.inbox(head.project, head.agent_id, after_seq=after, limit=PAGE_MAX):
        line += [entry.turn.turn_id for entry in page]
        if page[-1].turn.seq <= after:
            break
        after = page[-1].turn.seq
    return line


# --- each agent --------------------------------------------------------------------------------------------------


def _always_in_one_place(agent: Agent) -> list[Violation]:
    """A turn is finished, on the head or in line: exactly one of them. Otherwise it is lost, or runs twice."""
    promise = "always_every_turn_is_in_one_place"
    head = agent.head
    found: list[Violation] = []
    if head.queued != len(agent.line):
        found.append(Violation(promise, head.agent_id, f"the head counts {head.queued} in line, {len(agent.line)} are"))
    waiting = set(agent.line)
    for view in agent.turns:
        turn_id = view.turn.turn_id
        places = [
            place
            for place, there in (
                ("finished", view.deliverable is not None),
                ("active", head.turn_id == turn_id),
                ("in line", turn_id in waiting),
            )
            if there
        ]
        if len(places) != 1:
            found.append(Violation(promise, turn_id, " and ".join(places) or "nowhere"))
        if view.deliverable is not None and any(wait.status is WaitStatus.PENDING for wait in view.waits):
            found.append(Violation("always_the_finished_wait_for_nothing", turn_id, "a tool call is still pending"))
    known = {view.turn.turn_id for view in agent.turns}
    found += [Violation(promise, turn_id, "in line, but not in history") for turn_id in waiting - known]
    return found


def _always_an_unbroken_line(agent: Agent) -> list[Violation]:
    """Numbers follow each other without a gap; only the oldest turns may have been forgotten."""
    promise = "always_an_unbroken_line"
    found: list[Violation] = []
    for one, other in pairwise(agent.turns):
        if other.turn.seq != one.turn.seq + 1 or other.turn.previous_turn_id != one.turn.turn_id:
            detail = f"number {other.turn.seq} follows {one.turn.turn_id}, which has number {one.turn.seq}"
            found.append(Violation(promise, other.turn.turn_id, detail))
    last = agent.turns[-1].turn.seq if agent.turns else 0
    if agent.turns and last != agent.head.tail_seq:
        found.append(Violation(promise, agent.head.agent_id, f"the head counts {agent.head.tail_seq}, history {last}"))
    return found


def _always_growing_epochs(agent: Agent) -> list[Violation]:
    """Each turn that was worked on has a larger epoch than the one before; one stopped in line never had its own."""
    promise = "always_growing_epochs"
    ended = [(view.turn.turn_id, view.deliverable) for view in agent.turns if view.deliverable is not None]
    found = [
        Violation(promise, turn_id, f"ended under epoch {end.epoch}, the head is at {agent.head.epoch}")
        for turn_id, end in ended
        if end.epoch > agent.head.epoch
    ]
    worked = [(turn_id, end.epoch) for turn_id, end in ended if end.status is not Outcome.STOP]
    for (_, one), (turn_id, other) in pairwise(worked):
        if other <= one:
            found.append(Violation(promise, turn_id, f"epoch {other} follows epoch {one}"))
    return found


def _finally_idle(agent: Agent) -> list[Violation]:
    if agent.head.gate is not Gate.OPEN or (agent.head.status is HeadStatus.IDLE and not agent.line):
        return []
    detail = f"{agent.head.status.value}, {len(agent.line)} in line"
    return [Violation("finally_every_turn_has_a_deliverable", agent.head.agent_id, detail)]


# --- each turn ---------------------------------------------------------------------------------------------------


async def _always_true_cards(store: TurnStore, views: Mapping[TurnId, TurnView]) -> list[Violation]:
    """A deliverable is a card that can be read by its id and holds what its digest says."""
    promise = "always_true_cards"
    found: list[Violation] = []
    for turn_id, view in views.items():
        if view.deliverable is None:
            continue
        card = await store.card(view.turn.project, view.deliverable.card_id)
        if card is None:
            found.append(Violation(promise, turn_id, f"{view.deliverable.card_id} cannot be read"))
        elif card.type != DELIVERABLE or digest_of(card.content) != card.digest:
            found.append(Violation(promise, turn_id, f"{card.card_id} is not what it says"))
    return found


def _always_one_terminal_event(
    views: Mapping[TurnId, TurnView], heard: Iterable[Event], *, at_rest: bool
) -> list[Violation]:
    """One end, one event: it may be said more than once, but never in other words."""
    promise = "always_one_terminal_event"
    found: list[Violation] = []
    ends: dict[str, Event] = {}
    for event in heard:
        if event.channel is not Channel.EVT or event.suffix != "task":
            continue
        if (first := ends.setdefault(event.event_id, event)) != event:
            found.append(Violation(promise, event.event_id, f"it said {first.payload}, and then {event.payload}"))
    told: dict[TurnId, list[str]] = {}
    for event_id, event in ends.items():
        body = _body(event)
        turn_id = TurnId(str(body.get("agent_turn_id")))
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


def _author(event: Event) -> AgentKey:
    return (event.project, AgentId(event.target))


def _body(event: Event) -> dict[str, object]:
    try:
        body = from_json(event.payload)
    except MalformedPayload:
        return {}
    return cast("dict[str, object]", body) if isinstance(body, dict) else {}


async def _always_kept(
    store: TurnStore, views: Mapping[TurnId, TurnView], acknowledged: Acknowledged
) -> list[Violation]:
    """What somebody was told is so, and stays so."""
    promise = "always_what_was_acknowledged_is_kept"
    found: list[Violation] = []
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
    for (turn_id, name), outcome in acknowledged.steps.items():
        stored = await _steps(store, views, turn_id)
        if stored.get(name) != outcome:
            found.append(Violation(promise, turn_id, f"step {name} was stored as {outcome}, now {stored.get(name)}"))
    return found


async def _always_once(
    store: TurnStore, views: Mapping[TurnId, TurnView], effects: Iterable[Effect]
) -> list[Violation]:
    """Nobody who was given a turn after a step of it was stored runs that step again.

    A stored outcome names the effect it came from: `{"epoch": …, "token": …}`. An effect of a lower epoch is that of
    a worker who had lost the turn, or died, before it could store anything.
    """
    promise = "always_a_stored_step_ran_once"
    found: list[Violation] = []
    done: dict[tuple[TurnId, str], list[Effect]] = {}
    for effect in effects:
        done.setdefault((effect.turn_id, effect.step), []).append(effect)
    for (turn_id, step), ran in done.items():
        outcome = (await _steps(store, views, turn_id)).get(step)
        if outcome is None:
            continue
        stored = from_json(outcome)
        if stored["token"] not in {effect.token for effect in ran}:
            found.append(Violation(promise, turn_id, f"step {step} is stored, and its effect never happened"))
        again = [e for e in ran if e.epoch >= stored["epoch"] and e.token != stored["token"]]
        found += [
            Violation(promise, turn_id, f"step {step}, stored under epoch {stored['epoch']}, ran in {effect.epoch}")
            for effect in again
        ]
    return found


async def _steps(store: TurnStore, views: Mapping[TurnId, TurnView], turn_id: TurnId) -> dict[str, Json]:
    if turn_id not in views:
        return {}
    return (await store.hydrate(views[turn_id].turn, fresh=False)).steps
