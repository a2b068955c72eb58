"""What may be asked of a turn store, in words that every engine's statements answer."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from homeostat.adapters.stores import rows
from homeostat.adapters.stores.views import resolve, turn_view
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, RunId, Scope, TraceId, TurnId, WorkerId
from homeostat.core.limits import MISDATED_ROWS_MAX, ORPHAN_ROWS_MAX, PAGE_MAX
from homeostat.core.records.card import EMPTY_BOX, NOTHING_YET, Card, reaches
from homeostat.core.records.turn import AgentKey, OpenTurn, Turn
from homeostat.core.records.view import Deliverable, Due, Edge, HeadView, Hydration, TurnView, read_deliverable
from homeostat.core.records.work import Fence
from homeostat.core.records.writes import Answer, OutboxRow

AFTER_ALL: Final = "turn_~"  # behind every turn there can be

Row = Sequence[Any]

_START = ("", "")
_FIRST = (0, "", "")


class TurnsReading(ABC):
    """Reads by named statements. A keeper says how to run one, and in which form it takes lists."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> list[Row]:
        """The rows of a statement."""

    @abstractmethod
    def _list(self, values: Collection[object]) -> object:
        """Values as one parameter."""

    @abstractmethod
    def _pairs(self, pairs: Iterable[tuple[object, object]]) -> tuple[object, ...]:
        """Pairs as the parameters that stand for them."""

    def __init__(self) -> None:
        self._looked_up_to: tuple[str, str] = _START
        self._dated_up_to: tuple[int, str, str] = _FIRST
        self._helped_up_to: tuple[str, str] = _START

    async def _one(self, name: str, *values: object) -> Row | None:
        found = await self._all(name, *values)
        return found[0] if found else None

    # --- for the kernel ------------------------------------------------------------------------------------

    async def recall(self, keys: Collection[tuple[ProjectId, str]]) -> dict[tuple[ProjectId, str], Answer]:
        return {(row[0], row[1]): Answer(*row) for row in await self._all("answers_get", *self._pairs(keys))}

    async def box_owner(self, project: ProjectId, box_id: BoxId) -> AgentKey | None:
        row = await self._one("box_owner_get", project, box_id)
        return (project, AgentId(row[0])) if row else None

    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        scope = rows.scope_behind(box_id, "box_")
        row = await self._one("box_length", project, scope) if scope else None
        return row[0] if row else None

    async def box_until(self, project: ProjectId, box_id: BoxId) -> int | None:
        scope = rows.scope_behind(box_id, "box_")
        row = await self._one("box_until", project, scope) if scope else None
        return row[0] if row else None

    async def lease(self, worker_id: WorkerId) -> Millis | None:
        row = await self._one("lease_get", worker_id)
        return Millis(row[0]) if row else None

    async def dispatched(self, agents: Collection[AgentKey], limit: int) -> list[AgentKey]:
        found = await self._all("heads_dispatched", *self._pairs(agents), limit)
        return [(ProjectId(row[0]), AgentId(row[1])) for row in found]

    async def registered(self, agents: Collection[AgentKey]) -> set[AgentKey]:
        found = await self._all("heads_registered", *self._pairs(agents))
        return {(ProjectId(row[0]), AgentId(row[1])) for row in found}

    async def outbox(self, before: Scope, limit: int) -> list[OutboxRow]:
        return [rows.read_outbox(row) for row in await self._all("outbox_get", before, limit)]

    async def _orphans(self, limit: int) -> list[Row]:
        """Turns held by workers that have no lease. Nothing points to them, so heads are looked through in rounds."""
        if limit <= 0:
            return []
        found = await self._all("due_orphans", *self._looked_up_to, ORPHAN_ROWS_MAX)
        end = next((row for row in found if row[4] is None), None)
        orphans = [row for row in found if row[4] is not None]
        if len(orphans) > limit:
            orphans = sorted(orphans, key=lambda row: (row[0], row[1]))[:limit]
            self._looked_up_to = (orphans[-1][0], orphans[-1][1])
        else:
            self._looked_up_to = (end[0], end[1]) if end is not None and end[3] == ORPHAN_ROWS_MAX else _START
        return orphans

    async def _misdated(self, after: int, limit: int) -> list[Row]:
        """Open calls with a date that lies ahead. An index would cost every call, so they are looked through, too."""
        found = await self._all("due_misdated", after, *self._dated_up_to, MISDATED_ROWS_MAX)
        end = next((row for row in found if row[4] is None), None)
        misdated = [row for row in found if row[4] is not None]
        if len(misdated) > limit:
            misdated = sorted(misdated, key=_by_deadline)[:limit]
            self._dated_up_to = _by_deadline(misdated[-1])
        else:
            more = end is not None and end[10] == MISDATED_ROWS_MAX
            self._dated_up_to = _by_deadline(end) if end is not None and more else _FIRST
        return misdated

    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        dead = tuple((WorkerId(row[0]), Millis(row[1])) for row in await self._all("due_leases", now, lease_ms, limit))
        lost = await self._all("due_lost", self._list([worker for worker, _ in dead]), limit) if dead else []
        lost = [*lost, *await self._orphans(limit - len(lost))]
        timeouts = await self._all("due_waits", now, limit)
        waiting = await self._all("due_unclaimed", *unclaimed, limit)
        stranded = await self._all("due_stranded", *self._helped_up_to, limit)
        self._helped_up_to = (stranded[-1][1], stranded[-1][0]) if len(stranded) == limit else _START
        misdated = await self._misdated(now + lease_ms, limit)
        following = await self._one("due_next")
        return Due(
            dead_workers=dead,
            lost=tuple(((row[0], row[1]), row[2], row[3], row[4]) for row in lost),
            timeouts=tuple(rows.read_wait(row) for row in timeouts),
            unclaimed=tuple(((row[0], row[1]), row[2]) for row in waiting),
            stranded=tuple((row[0], row[1]) for row in stranded),
            misdated=tuple(map(rows.read_wait, misdated)),
            next_ms=following[0] if following else None,
        )

    async def held(self, worker_id: WorkerId) -> list[tuple[Fence, Millis]]:
        found = await self._all("heads_held", worker_id)
        return [(Fence((row[0], row[1]), row[2], row[3], worker_id), row[4]) for row in found]

    async def runs_held(self) -> set[RunId]:
        return {row[0] for row in await self._all("gates_held")}

    # --- turns ---------------------------------------------------------------------------------------------

    async def turn(self, project: ProjectId, turn_id: TurnId) -> TurnView | None:
        row = await self._one("turn_chain", project, turn_id, 1)
        return _turn_view(row) if row else None

    async def history(
        self, project: ProjectId, agent_id: AgentId, *, before: TurnId | None, limit: int
    ) -> list[TurnView]:
        if before is None:
            head = await self.head(project, agent_id)
            last = head.head.last_turn_id if head else None
            chain = await self._all("turn_chain", project, last, limit) if last else []
        else:
            chain = (await self._all("turn_chain", project, before, limit + 1))[1:]
        return [view for view in map(_turn_view, chain[:limit]) if view.turn.agent_id == agent_id]

    async def recent(self, project: ProjectId, *, before: TurnId | None, limit: int) -> list[TurnView]:
        return list(map(_turn_view, await self._all("turns_recent", project, before or AFTER_ALL, limit)))

    async def deliverables(self, project: ProjectId, turns: Collection[TurnId]) -> dict[TurnId, Deliverable]:
        # Strangers ask together: what no store can be asked for must not spoil the answer for the others.
        scopes = [scope for turn_id in turns if turn_id.isascii() and (scope := rows.scope_behind(turn_id, "turn_"))]
        wanted = [scope for scope in scopes if scope.isprintable()]
        found = await self._all("deliverables_get", project, self._list(wanted)) if wanted else []
        ends = [read_deliverable(rows.read_card(row[:-1]), row[-1]) for row in found]
        return {end.turn_id: end for end in ends}

    async def head(self, project: ProjectId, agent_id: AgentId) -> HeadView | None:
        row = await self._one("head_get", project, agent_id)
        return _head_view(row) if row else None

    async def turns_counted(self, since: TurnId) -> dict[ProjectId, int]:
        return {ProjectId(row[0]): row[1] for row in await self._all("turns_counted", since)}

    async def swept(self) -> TurnId:
        row = await self._one("swept_get")
        return TurnId(row[0] if row else AFTER_ALL)

    async def headless(self) -> dict[AgentKey, int]:
        found = await self._all("turns_headless")
        return {(ProjectId(row[0]), AgentId(row[1])): row[2] for row in found}

    async def doubled(self) -> dict[TurnId, int]:
        return {TurnId(row[0]): row[1] for row in await self._all("deliverables_doubled")}

    async def heads(self, project: ProjectId, *, after: AgentId | None, limit: int) -> list[HeadView]:
        return [_head_view(row) for row in await self._all("heads_list", project, after or "", limit)]

    async def inbox(self, project: ProjectId, agent_id: AgentId, *, after_seq: int, limit: int) -> list[OpenTurn]:
        return [rows.read_queued(row) for row in await self._all("inbox_line", project, agent_id, after_seq, limit)]

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

    # --- cards and boxes -----------------------------------------------------------------------------------

    async def hydrate(self, turn: Turn, *, fresh: bool) -> Hydration:
        steps = [] if fresh else await self._all("steps_get", turn.turn_id, turn.project)
        context: tuple[Card, ...] = ()
        gone = False
        if turn.context_box_id is not None:
            context = await self._whole_box(turn.project, turn.context_box_id, turn.context_until)
            if not context and turn.context_until != NOTHING_YET:
                gone = await self.box_length(turn.project, turn.context_box_id) is None
        if fresh and turn.output_box_id is None:
            return Hydration({}, context, (), gone)
        output = await self._whole_box(turn.project, turn.output_box)
        return Hydration({row[0]: row[1] for row in steps}, context, output, gone)

    async def _whole_box(self, project: ProjectId, box_id: BoxId, until: int | None = None) -> tuple[Card, ...]:
        cards: list[Card] = []
        after = -1
        while page := await self.box(project, box_id, after=after, limit=PAGE_MAX):
            cards += (card for card in page if card.type != EMPTY_BOX and reaches(until, card.position))
            after = page[-1].position
            if len(page) < PAGE_MAX or not reaches(until, after):
                break
        return tuple(cards)

    async def card(self, project: ProjectId, card_id: CardId) -> Card | None:
        place = rows.place_of(card_id)
        row = await self._one("card_get", project, place[0], place[1]) if place else None
        card = rows.read_card(row) if row else None
        return card if card is not None and card.reference is None and card.card_id == card_id else None

    async def box(self, project: ProjectId, box_id: BoxId, *, after: int, limit: int) -> list[Card] | None:
        scope = rows.scope_behind(box_id, "box_")
        page = await self._all("box_entries", project, scope, after, limit) if scope else []
        if not page and await self.box_length(project, box_id) is None:
            return None
        cards = [rows.read_card(row) for row in page]
        born = await self._born(project, cards)
        return [resolve(card, born.get(card.reference)) if card.reference else card for card in cards]

    async def _born(self, project: ProjectId, cards: Collection[Card]) -> dict[CardId, Card]:
        """The cards that references in a page point to."""
        places = [place for card in cards if card.reference and (place := rows.place_of(card.reference))]
        if not places:
            return {}
        found = await self._all("cards_at", project, *self._pairs((scope, position) for scope, position, _ in places))
        return {card.card_id: card for row in found if (card := rows.read_card(row)).reference is None}


def _by_deadline(row: Row) -> tuple[int, str, str]:
    """Where a row of `due_misdated` stands."""
    return row[11], row[0], row[1]


def _turn_view(row: Row) -> TurnView:
    """A row of `turn_chain`: turn, place in line, head and lease, deliverable, waits."""
    head, card = rows.TURN_COLUMNS + 3, rows.TURN_COLUMNS + 3 + rows.HEAD_COLUMNS + 1
    turn = rows.read_turn(row)
    queued = rows.read_queued(row) if row[rows.TURN_COLUMNS] is not None else None
    delivered = row[card:-1]
    return turn_view(
        turn,
        queued,
        _head_view(row[head:card]) if row[head] is not None else None,
        rows.read_waits(row[-1]),
        read_deliverable(rows.read_card(delivered), turn.output_box) if delivered[0] is not None else None,
    )


def _head_view(row: Row) -> HeadView:
    lease = row[rows.HEAD_COLUMNS]
    return HeadView(rows.read_head(row), None if lease is None else Millis(lease))
