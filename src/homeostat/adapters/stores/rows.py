"""Rows and records: the one place that knows in which order columns stand."""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from homeostat.core.codec import Json, from_json
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import BoxId, ProjectId, RunId, Scope
from homeostat.core.limits import OUTBOX_PLAIN_BYTES_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.box import BoxEnding, BoxKey
from homeostat.core.records.card import Card
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.run import SHUT, GateState
from homeostat.core.records.turn import AfterExecution, MessageType, OpenTurn, Step, Turn, Wait, WaitStatus
from homeostat.core.records.view import Edge
from homeostat.core.records.writes import Answer, OutboxRow, Writes
from homeostat.core.run_errors import TurnExists

Row = Sequence[Any]

TURN_COLUMNS = 20
HEAD_COLUMNS = 18

_WORDS: dict[StrEnum, str] = {
    word: word.value for kind in (HeadStatus, Gate, MessageType, WaitStatus, AfterExecution) for word in kind
}
"""Words as plain text; asking an enumeration for a value takes two calls, and every row has some."""

_POSITION = re.compile("[0-9]{1,9}")
_ZLIB = b"x"  # how packed data begins, and no list of events does
_events_out = msgspec.msgpack.Encoder()
_events_in = msgspec.msgpack.Decoder(list[tuple[str, ProjectId, Channel, str, str, str, Json]])


def read_head(row: Row) -> Head:
    project, agent_id, version, status, epoch, turn_id, worker_id, starts, losses, cards, gate, *rest = row[
        :HEAD_COLUMNS
    ]
    return Head(
        project,
        agent_id,
        version,
        HeadStatus(status),
        epoch,
        turn_id,
        worker_id,
        starts,
        losses,
        cards,
        Gate(gate),
        *rest,
    )


def write_head(head: Head) -> tuple[object, ...]:
    return (
        head.project,
        head.agent_id,
        head.version,
        _WORDS[head.status],
        head.epoch,
        head.turn_id,
        head.worker_id,
        head.starts,
        head.losses,
        head.cards,
        _WORDS[head.gate],
        head.gate_reason,
        head.queued,
        head.tail_seq,
        head.last_turn_id,
        head.waiting,
        head.deadline_ms,
        head.since_ms,
    )


def read_turn(row: Row) -> Turn:
    return Turn(row[0], row[1], row[2], row[3], MessageType(row[4]), *row[5:TURN_COLUMNS])


def write_turn(turn: Turn) -> tuple[object, ...]:
    return (
        turn.turn_id,
        turn.project,
        turn.agent_id,
        turn.seq,
        _WORDS[turn.type],
        turn.payload,
        turn.correlation_id,
        turn.source,
        turn.parent_turn_id,
        turn.parent_step_id,
        turn.reply_call_id,
        turn.trace_id,
        turn.depth,
        turn.run_id,
        turn.context_box_id,
        turn.output_box_id,
        turn.result_fields,
        turn.previous_turn_id,
        turn.created_at_ms,
        turn.context_until,
    )


TurnRow = tuple[object, ...]
TURN_SHAPES = ("turn_put_plain", "turn_put_task", "turn_put")


def turns_by_shape(turns: Iterable[Turn]) -> Iterator[tuple[str, list[TurnRow]]]:
    """Turns by the columns they fill, each kind with its statement: one message among others to the same agent, a task
    of a run, or whatever points elsewhere.
    """
    plain: list[TurnRow] = []
    tasks: list[TurnRow] = []
    others: list[TurnRow] = []
    for turn in turns:
        if (
            turn.previous_turn_id is None
            or turn.source is not None
            or turn.parent_turn_id is not None
            or turn.parent_step_id is not None
            or turn.reply_call_id is not None
            or turn.context_box_id is not None
            or turn.output_box_id is not None
            or turn.result_fields is not None
        ):
            others.append(write_turn(turn))
            continue
        row = (
            turn.turn_id,
            turn.project,
            turn.agent_id,
            turn.seq,
            _WORDS[turn.type],
            turn.payload,
            turn.trace_id,
            turn.depth,
            turn.previous_turn_id,
            turn.created_at_ms,
        )
        if turn.run_id is None and turn.correlation_id is None:
            plain.append(row)
        elif turn.run_id is not None and turn.correlation_id is not None:
            tasks.append((*row, turn.correlation_id, turn.run_id))
        else:
            others.append(write_turn(turn))
    return ((name, found) for name, found in zip(TURN_SHAPES, (plain, tasks, others), strict=True) if found)


def write_boxes(turn: Turn) -> tuple[object, ...]:
    return (turn.context_box_id, turn.output_box_id, turn.context_until, turn.project, turn.turn_id)


def read_queued(row: Row) -> OpenTurn:
    """A turn followed by what its place in line remembers of it."""
    return OpenTurn(read_turn(row), *row[TURN_COLUMNS : TURN_COLUMNS + 3])


def write_inbox(entry: OpenTurn) -> tuple[object, ...]:
    turn = entry.turn
    return (turn.project, turn.agent_id, turn.seq, turn.turn_id, entry.starts, entry.losses, entry.cards)


def read_wait(row: Row) -> Wait:
    turn_id, call_id, project, agent_id, tool, status, after, *rest = row
    return Wait(turn_id, call_id, project, agent_id, tool, WaitStatus(status), AfterExecution(after), *rest)


def write_wait(wait: Wait) -> tuple[object, ...]:
    return (
        wait.turn_id,
        wait.call_id,
        wait.project,
        wait.agent_id,
        wait.tool,
        _WORDS[wait.status],
        _WORDS[wait.after_execution],
        wait.step_id,
        wait.call_card_id,
        wait.result_card_id,
        wait.created_at_ms,
        wait.deadline_ms,
        wait.answered_at_ms,
    )


def write_answered(wait: Wait) -> tuple[object, ...]:
    return (
        wait.turn_id,
        wait.call_id,
        _WORDS[wait.status],
        _WORDS[wait.after_execution],
        wait.result_card_id,
        wait.answered_at_ms,
    )


def read_card(row: Row) -> Card:
    return Card(*row)


def write_card(card: Card) -> tuple[object, ...]:
    return (
        card.project,
        card.scope,
        card.position,
        card.type,
        card.content,
        card.digest,
        card.author,
        card.created_at_ms,
        card.reference,
    )


def write_step(step: Step) -> tuple[object, ...]:
    return (step.project, step.turn_id, step.name, step.outcome, step.created_at_ms)


def write_answer(answer: Answer) -> tuple[object, ...]:
    return (answer.project, answer.key, answer.fingerprint, answer.answer, answer.created_at_ms)


def read_edge(row: Row) -> Edge:
    return Edge(*row)


def write_outbox(row: OutboxRow) -> tuple[Scope, bytes]:
    """Events of one flush resemble each other: many, packed, take a sixth of the room, and less log to write."""
    events = [(e.event_id, e.project, e.channel, e.component, e.target, e.suffix, e.payload) for e in row.events]
    plain = _events_out.encode(events)
    return (row.outbox_id, zlib.compress(plain, 1) if len(plain) > OUTBOX_PLAIN_BYTES_MAX else plain)


def read_outbox(row: Row) -> OutboxRow:
    packed: bytes = row[1]
    plain = zlib.decompress(packed) if packed.startswith(_ZLIB) else packed
    return OutboxRow(row[0], tuple(Event(*event) for event in _events_in.decode(plain)))


def read_waits(packed: str | None) -> tuple[Wait, ...]:
    """The waits of one turn out of a JSON list, in the order in which they came about."""
    waits = [read_wait(row) for row in from_json(packed)] if packed else []
    return tuple(sorted(waits, key=lambda wait: (wait.created_at_ms, wait.call_id)))


def by_turn(waits: Iterable[Wait]) -> dict[str, tuple[Wait, ...]]:
    """Group waits under their turns, keeping their order."""
    grouped: dict[str, tuple[Wait, ...]] = {}
    for wait in waits:
        grouped[wait.turn_id] = (*grouped.get(wait.turn_id, ()), wait)
    return grouped


def place_of(card_id: str) -> tuple[Scope, int, str] | None:
    """Read a card's birthplace and digest out of its id."""
    parts = card_id.split("_")
    if len(parts) != 4 or parts[0] != "card" or not _POSITION.fullmatch(parts[2]):
        return None
    return Scope(parts[1]), int(parts[2]), parts[3]


def scope_behind(identifier: str, prefix: str) -> Scope | None:
    """What stands behind an id's prefix; None for what is no such id."""
    return Scope(identifier.removeprefix(prefix)) if identifier.startswith(prefix) else None


def shut_gates(gates: Iterable[Row], writes: Writes) -> tuple[tuple[RunId, GateState], ...]:
    """The runs that may not start what a save would start, each with how its gate stands."""
    return tuple(
        (run_id, gate)
        for run_id, gate in ((run_id, GateState(state)) for run_id, state in gates)
        if gate in SHUT and writes.runs[run_id] >= SHUT[gate]
    )


def read_mandates(text: str) -> Iterator[Mandate]:
    """Mandates as a list of [project, agent, version]."""
    for project, agent_id, version in msgspec.json.decode(text):
        yield Mandate((project, agent_id), version)


def read_boxes(text: str) -> Iterator[BoxKey]:
    """Boxes as a list of [project, box]."""
    for project, box_id in msgspec.json.decode(text):
        yield (ProjectId(project), BoxId(box_id))


def box_ending(state: Row | None, needed: Row | None) -> BoxEnding:
    """A row of `box_state` and one of `box_needed`, should there be any."""
    if state is None or not (state[0] or state[1]):
        return BoxEnding(unknown=True)
    return BoxEnding(needed_by=needed[0] if needed else None, born_of=state[1], referred_by=state[2])


def referred_places(found: Iterable[Row]) -> list[tuple[Scope, int]]:
    """Where the cards were born that references in rows point to."""
    return [place[:2] for row in found if row[0] is not None and (place := place_of(row[0]))]


def refusal(problem: str, writes: Writes) -> HomeostatError | None:
    """What a broken constraint on turns means to whoever enqueued; None where it is a mistake of ours.

    A flush is refused as a whole, and then tried command by command: by then there is one turn it can be about.
    """
    if problem in ("turns_pkey", "UNIQUE constraint failed: turns.project, turns.turn_id"):
        return TurnExists(turn_id=next(iter(writes.turns), ""))
    return None
