"""The turn store on PostgreSQL."""

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import groupby
from typing import Any, Final

import asyncpg

from homeostat.adapters.stores import rows
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Row, Transaction
from homeostat.adapters.stores.statements import numbered, statements
from homeostat.adapters.stores.turns_read import TurnsReading
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import BoxId, ProjectId, Scope
from homeostat.core.limits import QUEUE_FRONT, STORE_LANES
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.box import BoxEnding
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.run import Start
from homeostat.core.records.turn import AgentKey, OpenTurn
from homeostat.core.records.writes import Saved, Writes

SQL: Final = statements("postgres", "turns")

KEYED: Final = frozenset({"heads_pkey", "answers_pkey", "box_owners_pkey"})
"""Where a key may have been taken meanwhile; anywhere else a taken key is a mistake of ours."""

_NO_SUCH_TEXT = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


class PostgresTurns(TurnsReading):
    """Turns on an engine that is open and migrated; other rooms keep their tables in the same database."""

    lanes = STORE_LANES

    def __init__(self, engine: PostgresEngine) -> None:
        super().__init__()
        self._engine = engine

    async def _all(self, name: str, *values: object) -> list[Row]:
        try:
            return await self._engine.fetch(SQL[name], *values)
        except _NO_SUCH_TEXT:  # a NUL: no text that can be stored has one, so nothing is known by it
            return []

    def _list(self, values: Collection[object]) -> object:
        return list(values)

    def _pairs(self, pairs: Iterable[tuple[object, object]]) -> tuple[object, ...]:
        listed = list(pairs)
        return [one for one, _ in listed], [other for _, other in listed]

    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        found = await self._all("mailboxes_load", *self._pairs(set(agents)), QUEUE_FRONT)
        return {
            (key[0], key[1]): _mailbox(list(group)) for key, group in groupby(found, key=lambda row: (row[0], row[1]))
        }

    async def save(self, writes: Writes) -> Saved:
        shape, values = _saving(writes)
        try:
            stale = await self._engine.save(_statement(shape), *values)
        except asyncpg.UniqueViolationError as taken:
            constraint = getattr(taken, "constraint_name", None)
            if constraint not in KEYED:
                raise rows.refusal(str(constraint), writes) or taken from taken
            return Saved(answered=True)
        except asyncpg.IntegrityConstraintViolationError as refused:
            detail = str(getattr(refused, "detail", ""))
            if "mandates_void" in str(refused):
                return Saved(void=frozenset(rows.read_mandates(detail)))
            if "boxes_gone" in str(refused):
                return Saved(gone=frozenset(rows.read_boxes(detail)))
            if "run_gates_shut" not in str(refused):
                raise
            return Saved(refused=rows.shut_gates((gate.split(" ") for gate in detail.split(",")), writes))
        except _NO_SUCH_TEXT as problem:
            raise MalformedPayload(
                field="text", problem="it holds a NUL character, which cannot be stored"
            ) from problem
        return Saved(stale=frozenset((row[0], row[1]) for row in stale))

    async def expire(self, before: Scope, limit: int) -> int:
        row = await self._one("expire", "turn_" + before, limit, int(before, 16) >> 48)
        return row[0] if row else 0

    async def end_box(self, project: ProjectId, box_id: BoxId) -> BoxEnding:
        scope = rows.scope_behind(box_id, "box_")

        async def work(transaction: Transaction) -> BoxEnding:
            await transaction.fetch(SQL["box_lock"], scope)
            state = await transaction.fetch(SQL["box_state"], project, scope)
            needed = await transaction.fetch(SQL["box_needed"], project, scope)
            ending = rows.box_ending(*state[:1] or (None,), *needed[:1] or (None,))
            if ending == BoxEnding():
                await transaction.fetch(SQL["box_end"], project, scope)
            return ending

        try:
            return await self._engine.transact(work) if scope else BoxEnding(unknown=True)
        except _NO_SUCH_TEXT:
            return BoxEnding(unknown=True)

    async def clear(self, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            await transaction.fetch(SQL["swept_lock"])
            found = await transaction.fetch(SQL["ended_cards"], limit)
            if places := rows.referred_places(found):
                scopes, positions = self._pairs(places)
                await transaction.fetch(SQL["freed_cards"], scopes, positions)
                await transaction.fetch(SQL["freed_ends"], scopes)
            await transaction.fetch(SQL["ended_owners"])
            return len(found)

        return await self._engine.transact(work) if await self._all("ended_any") else 0


def _mailbox(found: list[Row]) -> Mailbox:
    """The rows of `mailboxes_load` that are about one agent, its active turn first."""
    head = rows.read_head(found[0])
    entries = [_open_turn(row[rows.HEAD_COLUMNS :]) for row in found if row[rows.HEAD_COLUMNS] is not None]
    active = entries.pop(0) if head.turn_id is not None else None
    assert active is None or active.turn.turn_id == head.turn_id, "a head's turn comes first"
    return Mailbox(head, active, tuple(entries))


def _open_turn(row: Row) -> OpenTurn:
    starts, losses, cards, waits = row[rows.TURN_COLUMNS :]
    return OpenTurn(rows.read_turn(row), starts, losses, cards, rows.read_waits(waits))


# --- one save, one statement ---------------------------------------------------------------------------------

Rows = list[Any]
Shape = tuple[tuple[str, int], ...]
"""The parts of a save, each with the columns of its only row, or 0 if its rows come as an array."""

_ROWS: Final = re.compile(r"SELECT \* FROM unnest\(\$1::\w+\[\]\)")

# The order is the same in every save, and so is the order of keys within a part others may come across: whoever waits
# for somebody else's row holds none that the other could still come to want.
PARTS: Final[tuple[tuple[str, str, Callable[[Any], Rows]], ...]] = (
    ("new_heads", "head_put", lambda heads: [_head_row(heads[key]) for key in sorted(heads)]),
    ("answers", "answer_put", lambda answers: [rows.write_answer(answers[key]) for key in sorted(answers)]),
    ("box_owners", "box_owner_put", lambda owners: sorted((key[0], box_id, key[1]) for box_id, key in owners.items())),
    ("leases", "lease_put", lambda leases: sorted(leases.items())),
    ("leases_ended", "lease_drop", lambda ended: sorted(ended.items())),
    ("turns", "turn_put", lambda turns: [rows.write_turn(turn) for turn in turns.values()]),
    ("turn_boxes", "turn_boxes", lambda turns: [rows.write_turn(turn) for turn in turns.values()]),
    ("inbox_put", "inbox_put", lambda entries: [rows.write_inbox(entry) for entry in entries.values()]),
    ("inbox_drop", "inbox_drop", lambda keys: [(*key, None, None, None, None) for key in keys]),
    ("new_waits", "wait_put", lambda waits: [rows.write_wait(wait) for wait in waits.values()]),
    ("waits", "wait_answer", lambda waits: [rows.write_wait(wait) for wait in waits.values()]),
    ("cards", "card_put", lambda cards: [rows.write_card(card) for card in cards]),
    ("steps", "step_put", lambda steps: [rows.write_step(step) for step in steps]),
    ("outbox", "outbox_put", lambda row: [rows.write_outbox(row)]),
    ("outbox_drop", "outbox_drop", sorted),
)
"""What a save consists of besides the heads it swaps: a field, its statement, and how its rows are written."""

GATES: Final = "gates_pass"
MANDATES: Final = "mandates_hold"
BOXES: Final = "boxes_stay"
STOPS: Final = {GATES: 3, MANDATES: 3, BOXES: 2}
"""Come last, where runs, agents' health or named boxes are concerned: no parts that write, but stop all that do. Each
with how many parameters it has.
"""

LONE: Final = frozenset(name for _, name, _ in PARTS if _ROWS.search(SQL[name]))
"""Parts that take a row that is their only one by its columns, which is what a turn consists of that is alone."""


def _saving(writes: Writes) -> tuple[Shape, list[object]]:
    """The shape of a save, and its parameters: the heads to swap, then the rows of each part that has any."""
    heads = [_head_row(_moved(base, head)) for base, head in writes.heads.values()]
    values: list[object] = [*heads[0]] if len(heads) == 1 else [heads]
    shape = [("head_swap", len(values)) if len(heads) == 1 else ("heads_swap", 0)]
    for field, name, written in PARTS:
        if content := getattr(writes, field):
            found = written(content)
            if len(found) == 1 and name in LONE:
                shape.append((name, len(found[0])))
                values += found[0]
            else:
                shape.append((name, 0))
                values.append(found)
    if runs := writes.runs:
        shape.append((GATES, 0))
        values += ([run_id for run_id, most in runs.items() if most >= what] for what in Start)
    if mandates := sorted(writes.mandates):
        shape.append((MANDATES, 0))
        values += ([key[0] for key, _ in mandates], [key[1] for key, _ in mandates], [at for _, at in mandates])
    if boxes := sorted(writes.boxes):
        shape.append((BOXES, 0))
        values += ([project for project, _ in boxes], [box_id for _, box_id in boxes])
    return tuple(shape), values


def _head_row(head: Head) -> tuple[object, ...]:
    """A head as its table has it, the last columns worked out: they are what the sweeps find it by."""
    unclaimed = head.status is HeadStatus.DISPATCHED and head.gate is not Gate.CLOSED
    stranded = head.status is HeadStatus.IDLE and head.queued > 0 and head.gate is Gate.OPEN
    return (*rows.write_head(head), head.worker_id, head.since_ms if unclaimed else None, stranded or None)


def _moved(base: int, head: Head) -> Head:
    assert head.version == base + 1, "a flush moves a head by one version"
    return head


@cache
def _statement(shape: Shape) -> str:
    """One statement for a save of this shape: its parts, each with its own parameters, hanging on the first."""
    (swap, width), *others = shape
    parts, used = [SQL[swap]], width or 1
    stops = ""
    for name, columns in others:
        if name in STOPS:
            stops += "\n" + numbered(SQL[name], used)
            used += STOPS[name]
            continue
        if columns:
            places = ", ".join(f"${used + column}" for column in range(1, columns + 1))
            text = _ROWS.sub(lambda _, places=places: f"SELECT {places}", SQL[name])
        else:
            text = numbered(SQL[name], used)
        parts.append(f"{name}_ AS (\n{text}\n)")
        used += columns or 1
    return "WITH " + ",\n".join(parts) + "\n" + SQL["head_stale" if width else "heads_stale"] + stops
