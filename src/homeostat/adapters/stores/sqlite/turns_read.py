"""What readers may ask of the SQLite store."""

from collections.abc import Sequence
from typing import Any

from homeostat.adapters.stores import rows
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.statements import statements
from homeostat.adapters.stores.views import resolve, turn_view
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, Scope, TraceId, TurnId, scope_of
from homeostat.core.limits import PAGE_MAX
from homeostat.core.records.card import DELIVERABLE, DELIVERABLE_POSITION, Card
from homeostat.core.records.head import Head
from homeostat.core.records.turn import OpenTurn, Turn, Wait
from homeostat.core.records.view import Deliverable, Edge, HeadView, Hydration, TurnView, read_deliverable

SQL = statements("sqlite", "turns")


class SqliteTurnsReading:
    """Reads run on their own connection and never wait for the writer."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def _all(self, name: str, *values: object) -> list[Sequence[Any]]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())

    async def _one(self, name: str, *values: object) -> Sequence[Any] | None:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchone())

    async def turn(self, project: ProjectId, turn_id: TurnId) -> TurnView | None:
        row = await self._one("turn_get", turn_id, project)
        if row is None:
            return None
        turn = rows.read_turn(row)
        queued = OpenTurn(turn, *row[rows.TURN_COLUMNS :]) if row[rows.TURN_COLUMNS] is not None else None
        head = await self.head(project, turn.agent_id)
        return turn_view(turn, queued, head, await self._waits(turn_id), await self.deliverable(project, turn_id))

    async def _waits(self, turn_id: TurnId) -> tuple[Wait, ...]:
        return tuple(rows.read_wait(row) for row in await self._all("waits_load", f'["{turn_id}"]'))

    async def deliverable(self, project: ProjectId, turn_id: TurnId) -> Deliverable | None:
        row = await self._one("card_get", project, scope_of(turn_id), DELIVERABLE_POSITION)
        card = rows.read_card(row) if row is not None else None
        if card is None or card.type != DELIVERABLE:
            return None
        turn = await self._one("turn_get", turn_id, project)
        return read_deliverable(card, rows.read_turn(turn).output_box if turn else None)

    async def head(self, project: ProjectId, agent_id: AgentId) -> HeadView | None:
        row = await self._one("head_get", project, agent_id)
        return _head_view(row) if row else None

    async def heads(self, project: ProjectId, *, after: AgentId | None, limit: int) -> list[HeadView]:
        return [_head_view(row) for row in await self._all("heads_list", project, after or "", limit)]

    async def inbox(self, project: ProjectId, agent_id: AgentId, *, after_seq: int, limit: int) -> list[OpenTurn]:
        return [rows.read_queued(row) for row in await self._all("inbox_line", project, agent_id, after_seq, limit)]

    async def history(
        self, project: ProjectId, agent_id: AgentId, *, before: TurnId | None, limit: int
    ) -> list[TurnView]:
        if before is None:
            head = await self.head(project, agent_id)
            following = head.head.last_turn_id if head else None
        else:
            row = await self._one("turn_get", before, project)
            following = rows.read_turn(row).previous_turn_id if row else None
        found: list[TurnView] = []
        while following is not None and len(found) < limit:
            view = await self.turn(project, following)
            if view is None:
                break
            found.append(view)
            following = view.turn.previous_turn_id
        return found

    async def hydrate(self, turn: Turn, *, fresh: bool) -> Hydration:
        steps = [] if fresh else await self._all("steps_get", turn.turn_id, turn.project)
        context = await self._whole_box(turn.project, turn.context_box_id) if turn.context_box_id else ()
        if fresh and turn.output_box_id is None:
            return Hydration({}, context, ())
        output = await self._whole_box(turn.project, turn.output_box)
        return Hydration({row[0]: row[1] for row in steps}, context, output)

    async def _whole_box(self, project: ProjectId, box_id: BoxId) -> tuple[Card, ...]:
        cards: list[Card] = []
        after = -1
        while page := await self.box(project, box_id, after=after, limit=PAGE_MAX):
            cards += page
            after = page[-1].position
        return tuple(cards)

    async def card(self, project: ProjectId, card_id: CardId) -> Card | None:
        place = rows.place_of(card_id)
        if place is None:
            return None
        row = await self._one("card_get", project, place[0], place[1])
        card = rows.read_card(row) if row else None
        return card if card is not None and card.digest == place[2] and card.reference is None else None

    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        scope = _scope(box_id)
        row = await self._one("box_length", project, scope) if scope else None
        if row is not None:
            return row[0]
        turn = await self._one("turn_get", "turn_" + scope, project) if scope else None
        return 0 if turn is not None else None

    async def box(self, project: ProjectId, box_id: BoxId, *, after: int, limit: int) -> list[Card] | None:
        if (scope := _scope(box_id)) is None or await self.box_length(project, box_id) is None:
            return None
        page = [rows.read_card(row) for row in await self._all("box_entries", project, scope, after, limit)]
        return [resolve(card, await self.card(project, card.reference)) if card.reference else card for card in page]

    async def edges(
        self,
        project: ProjectId,
        *,
        trace_id: TraceId | None,
        turn_id: TurnId | None,
        after: str | None,
        limit: int,
    ) -> list[Edge]:
        if turn_id is not None:
            found = await self._all("edges_of_turn", project, turn_id, after or "", limit)
        elif trace_id is not None:
            found = await self._all("edges_of_trace", project, trace_id, after or "", limit)
        else:
            return []
        return [rows.read_edge(row) for row in found]


def _head_view(row: Sequence[Any]) -> HeadView:
    head: Head = rows.read_head(row)
    lease = row[rows.HEAD_COLUMNS]
    return HeadView(head, None if lease is None else Millis(lease))


def _scope(box_id: str) -> Scope | None:
    return scope_of(box_id) if box_id.startswith("box_") and len(box_id) > len("box_") else None
