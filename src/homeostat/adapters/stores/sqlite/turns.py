"""The turn store on SQLite."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from homeostat.adapters.stores import rows
from homeostat.adapters.stores.sqlite import mandates
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.transaction import immediate
from homeostat.adapters.stores.statements import statements
from homeostat.adapters.stores.turns_read import TurnsReading
from homeostat.core.ids import BoxId, ProjectId, Scope
from homeostat.core.limits import QUEUE_FRONT
from homeostat.core.records.box import BoxEnding, BoxKey
from homeostat.core.records.head import Head, Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn
from homeostat.core.records.writes import Saved, Writes

SQL = statements("sqlite", "turns")


class SqliteTurns(TurnsReading):
    """Turns on an engine that is open and migrated; other rooms keep their tables in the same file."""

    lanes = 1  # a file has one writer

    def __init__(self, engine: SqliteEngine) -> None:
        super().__init__()
        self._engine = engine

    # --- reading: on a connection of its own, so that nobody waits for the writer ----------------------------

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    def _list(self, values: Collection[object]) -> object:
        return json.dumps(list(values))

    def _pairs(self, pairs: Iterable[tuple[object, object]]) -> tuple[object, ...]:
        return (json.dumps(list(pairs)),)

    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        return await self._engine.read(lambda connection: _load(connection, agents))

    # --- saving --------------------------------------------------------------------------------------------

    async def save(self, writes: Writes) -> Saved:
        return await self._engine.save(lambda connection: _save(connection, writes))

    async def expire(self, before: Scope, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            instant = int(before, 16) >> 48
            found = connection.execute(SQL["turns_old"], ("turn_" + before, instant, limit)).fetchall()
            old = [turn_id for _, turn_id in found]
            with immediate(connection):
                for name in ("expire_cards", "expire_steps", "expire_waits"):
                    connection.execute(SQL[name], (json.dumps(old),))
                connection.execute(SQL["expire_turns"], (json.dumps(found),))
                if old:
                    connection.execute(SQL["swept_put"], (max(old),))
                answers = connection.execute(SQL["expire_answers"], (instant, limit)).rowcount
            return len(old) + answers

        return await self._engine.write(work)

    async def end_box(self, project: ProjectId, box_id: BoxId) -> BoxEnding:
        scope = rows.scope_behind(box_id, "box_")

        def work(connection: sqlite3.Connection) -> BoxEnding:
            with immediate(connection):
                state = connection.execute(SQL["box_state"], (project, scope)).fetchone()
                needed = connection.execute(SQL["box_needed"], (project, scope)).fetchone()
                if (ending := rows.box_ending(state, needed)) == BoxEnding():
                    connection.execute(SQL["box_end"], (project, scope))
            return ending

        return await self._engine.write(work) if scope else BoxEnding(unknown=True)

    async def clear(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            with immediate(connection):
                found = connection.execute(SQL["ended_cards"], (limit,)).fetchall()
                if places := rows.referred_places(found):
                    for name in ("freed_cards", "freed_ends"):
                        connection.execute(SQL[name], (json.dumps(places),))
                connection.execute(SQL["ended_owners"])
            return len(found)

        return await self._engine.write(work) if await self._all("ended_any") else 0


def _load(connection: sqlite3.Connection, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
    """Read mailboxes in one snapshot."""
    read = connection.execute
    read("BEGIN")
    try:
        heads = [rows.read_head(row) for row in read(SQL["heads_load"], (json.dumps(list(set(agents))),))]
        lines = {
            head.key: [rows.read_queued(row) for row in read(SQL["inbox_line"], (*head.key, -1, QUEUE_FRONT))]
            for head in heads
            if head.queued
        }
        held = [(head.project, head.turn_id) for head in heads if head.turn_id is not None]
        active = [turn_id for _, turn_id in held]
        begun = [entry.turn.turn_id for line in lines.values() for entry in line if entry.starts]
        turns = {row[0]: rows.read_turn(row) for row in read(SQL["turns_load"], (json.dumps(held),))} if held else {}
        waits = (
            rows.by_turn(rows.read_wait(row) for row in read(SQL["waits_load"], (json.dumps(active + begun),)))
            if active or begun
            else {}
        )
    finally:
        read("COMMIT")

    def entry(head: Head) -> OpenTurn | None:
        if head.turn_id is None:
            return None
        return OpenTurn(turns[head.turn_id], head.starts, head.losses, head.cards, waits.get(head.turn_id, ()))

    def queued(waiting: OpenTurn) -> OpenTurn:
        held = waits.get(waiting.turn.turn_id)
        return OpenTurn(waiting.turn, waiting.starts, waiting.losses, waiting.cards, held) if held else waiting

    return {
        head.key: Mailbox(head, entry(head), tuple(queued(waiting) for waiting in lines.get(head.key, ())))
        for head in heads
    }


def _save(connection: sqlite3.Connection, writes: Writes) -> Saved:
    if writes.runs:
        gates = connection.execute(SQL["gates_pass"], (json.dumps(list(writes.runs)),)).fetchall()
        if refused := rows.shut_gates(gates, writes):
            connection.execute("ROLLBACK")
            return Saved(refused=refused)
    if writes.mandates and (void := mandates.void(connection, writes.mandates)):
        connection.execute("ROLLBACK")
        return Saved(void=void)
    if writes.boxes and (gone := _gone(connection, writes.boxes)):
        connection.execute("ROLLBACK")
        return Saved(gone=gone)
    if writes.heads:
        swaps = [(*rows.write_head(head), base) for base, head in writes.heads.values()]
        moved = connection.executemany(SQL["head_swap"], swaps).rowcount
        if moved != len(swaps):
            moved += connection.executemany(SQL["head_take"], swaps).rowcount
        if moved != len(swaps):
            connection.execute("ROLLBACK")
            return Saved(stale=_stale(connection, writes))
    try:
        _save_keyed(connection, writes)
    except sqlite3.IntegrityError:
        connection.execute("ROLLBACK")
        return Saved(answered=True)
    try:
        _save_rows(connection, writes)
    except sqlite3.IntegrityError as problem:
        raise rows.refusal(str(problem), writes) or problem from problem
    return Saved()


def _gone(connection: sqlite3.Connection, boxes: Iterable[BoxKey]) -> frozenset[BoxKey]:
    return frozenset(box for box in boxes if not connection.execute(SQL["box_stays"], box).fetchone()[0])


def _stale(connection: sqlite3.Connection, writes: Writes) -> frozenset[AgentKey]:
    """Which heads had moved. A head may stand at the very version this flush wanted to give it: another's work."""
    found = connection.execute(SQL["heads_load"], (json.dumps(list(writes.heads)),))
    current = {(row[0], row[1]): row[2] for row in found}
    moved = frozenset(key for key, (base, _) in writes.heads.items() if current.get(key) != base)
    assert moved, "a swap failed although no head had moved"
    return moved


def _save_keyed(connection: sqlite3.Connection, writes: Writes) -> None:
    """Rows whose key somebody else may have taken meanwhile."""
    many = connection.executemany
    if writes.new_heads:
        many(SQL["head_put"], [rows.write_head(head) for head in writes.new_heads.values()])
    if writes.answers:
        many(SQL["answer_put"], [rows.write_answer(answer) for answer in writes.answers.values()])
    if writes.box_owners:
        many(SQL["box_owner_put"], [(key[0], box_id, key[1]) for box_id, key in writes.box_owners.items()])


# The other rows of a save by the field they stand in; most saves have some in two or three of these.
PARTS: Final[tuple[tuple[str, str, Callable[[Any], Iterable[Sequence[object]]]], ...]] = (
    ("turn_boxes", "turn_boxes", lambda turns: map(rows.write_boxes, turns.values())),
    ("inbox_put", "inbox_put", lambda entries: map(rows.write_inbox, entries.values())),
    ("inbox_drop", "inbox_drop", lambda keys: keys),
    ("new_waits", "wait_put", lambda waits: map(rows.write_wait, waits.values())),
    ("waits", "wait_answer", lambda waits: map(rows.write_answered, waits.values())),
    ("cards", "card_put", lambda cards: map(rows.write_card, cards)),
    ("steps", "step_put", lambda steps: map(rows.write_step, steps)),
    ("leases", "lease_put", lambda leases: leases.items()),
    ("leases_ended", "lease_drop", lambda ended: ended.items()),
    ("outbox", "outbox_put", lambda row: (rows.write_outbox(row),)),
    ("outbox_drop", "outbox_drop", lambda outbox_ids: zip(outbox_ids, strict=True)),
)


def _save_rows(connection: sqlite3.Connection, writes: Writes) -> None:
    for name, turns in rows.turns_by_shape(writes.turns.values()):
        connection.executemany(SQL[name], turns)
    for field, name, written in PARTS:
        if found := getattr(writes, field):
            connection.executemany(SQL[name], written(found))
